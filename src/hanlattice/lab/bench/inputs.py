"""The inputs of a measurement: settings, made sentences and texts, models with random weights."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hanlattice.checkpoint.build_torch import Tables, assemble
from hanlattice.config import make_config
from hanlattice.errors import InputError
from hanlattice.features import Examples, Indexer
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.nn.tagger import TorchTagger
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.tags import tag_set
from hanlattice.text.trie import Matches
from hanlattice.text.vocab import Vocab

SCHEME = "BMES"
TAGS = tuple(tag_set(["NAME", "CONT", "RACE", "TITLE", "EDU", "ORG", "PRO", "LOC"], SCHEME))
OUTSIDE = TAGS.index("O")
CHARACTER = "character LSTM"  # the model without a lattice; the others are named by their backend
WHOLE = {"layers": 2, "whole_words": True}
# Lattices by their settings, in groups of as many layers; the first of each group is what the
# others are compared with.
MODELS: tuple[dict[str, dict[str, Any]], ...] = (
    {"1 layer": {}, "1 layer, pools": {"pools": True}},
    {
        "2 layers": {"layers": 2},
        "2 layers, whole words": WHOLE,
        "2 layers, whole words, pools": WHOLE | {"pools": True},
        "2 layers, whole words over characters": WHOLE | {"first_layer": "char"},
    },
)
# different ones in a training set
CHARS = 2000
WORDS = 5000
LONGEST = 4  # characters of a word
ALPHABET = [chr(0x4E00 + at) for at in range(3000)]  # of the texts that are tagged
TEXTS = {"cpu": 1024, "cuda": 16384}  # how many are tagged at a time


@dataclass(frozen=True)
class BenchSettings:
    device: str = "cpu"
    threads: int = 2
    batches: tuple[int, ...] = (1, 16, 32, 128, 1024)
    hidden: tuple[int, ...] = (100, 200)
    seconds: float = 0.5  # the least time to measure for each figure
    length: int = 50  # T, characters of a sentence
    dim: int = 64  # D, of characters and of words
    words: int = 50_000  # of the lexicon that tagging uses
    texts: int = 0  # that are tagged at a time; 0 chooses by the device
    # Characters of sentences that are all of one length.
    lengths: tuple[int, ...] = (10, 20, 40, 80, 160, 320)

    def __post_init__(self) -> None:
        least = {"threads": 1, "batches": 1, "hidden": 1, "length": 4, "dim": 1, "words": 4}
        least |= {"texts": 0, "lengths": 4}
        for name, smallest in least.items():
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not values or min(values) < smallest:
                given = ", ".join(map(str, values)) or "nothing"
                raise InputError(f"{name} must be {smallest} or more, not {given}")
        if not (0 < self.seconds < math.inf):
            raise InputError(f"seconds must be more than 0, not {self.seconds}")

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def make_examples(
    settings: BenchSettings, count: int, words: bool = True, seed: int = 0
) -> Examples:
    """Make `count` sentences of T characters and, if there are words, T words."""
    rng = np.random.default_rng(seed)
    T = settings.length
    places = T if words else 0
    # By start and then by end, as a lexicon's matches come.
    drawn = rng.integers(0, (T - 1) * (LONGEST - 1), size=(count, places))
    start, more = np.divmod(np.sort(drawn, axis=1).reshape(-1), LONGEST - 1)
    end = np.minimum(start + 2 + more, T)
    matches = Matches(np.full(count, places), start, end, rng.integers(0, WORDS, size=len(start)))
    chars = rng.integers(1, CHARS, size=count * T)
    return Examples(np.full(count, T), chars, matches, np.full(count * T, OUTSIDE))


def make_tagger(
    dim: int, hidden: int, name: str, chars: int = CHARS, words: int = WORDS, trained: int = WORDS
) -> TorchTagger:
    """Make CHARACTER, the model without words; one of MODELS; or a lattice with a named backend."""
    torch.manual_seed(0)
    tables = Tables(torch.randn(chars, dim) * 0.1)
    if name != CHARACTER:
        vectors = torch.randn(words, dim) * 0.1
        tables.words = WordEmbedding.from_vectors(vectors, trained, dropout=0.5)
        tables.counts = torch.ones(words, dtype=torch.int32)
    kinds = {CHARACTER: {"encoder": "char"}, **MODELS[0], **MODELS[1]}
    config = make_config({"model": {"hidden": hidden, **kinds.get(name, {})}})
    indexer = Indexer(Vocab(()), None, TAGS, SCHEME)
    return assemble(config, indexer, tables, None, "auto" if name in kinds else name)


def long_words(settings: BenchSettings) -> list[str]:
    """Return words of four characters, a quarter of the lexicon."""
    drawn = np.random.default_rng(0).choice(np.array(ALPHABET), size=(settings.words // 4, 4))
    return ["".join(row) for row in drawn]


def make_lexicon(settings: BenchSettings) -> Lexicon:
    """Return the long words and three words inside each, so that a text has a word a character."""
    words = long_words(settings)
    return Lexicon(part for word in words for part in (word, word[:2], word[1:], word[2:]))


def make_texts(settings: BenchSettings, device: torch.device, length: int = 0) -> list[str]:
    """Return texts of T/2 to 3T/2 characters, or all of `length` and as many characters in all."""
    rng = np.random.default_rng(1)
    words = np.array(long_words(settings))
    T = settings.length
    count = settings.texts or TEXTS[device.type]
    if length:
        sizes = np.full(max(1, count * T // length), length)
    else:
        sizes = rng.integers(T // 2, T + T // 2, size=count, endpoint=True)
    return ["".join(rng.choice(words, size=size // 4 + 1))[:size] for size in sizes.tolist()]
