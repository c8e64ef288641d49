"""What is measured, and with what: the settings, made sentences and texts, models with random
weights.
"""

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
    lengths: tuple[int, ...] = (
        10,
        20,
        40,
        80,
        160,
        320,
    )  # characters of sentences that are all of one length

    def __post_init__(self) -> None:
        least = {
            "threads": 1,
            "batches": 1,
            "hidden": 1,
            "length": 4,
            "dim": 1,
            "words": 4,
            "texts": 0,
            "lengths": 4,
        }
        for name, smallest in least.items():
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not values or min(values) < smallest:
                raise InputError(
                    f"{name} must be {smallest} or more, not {', '.join(map(str, values)) or 'nothing'}"
                )
        if not (0 < self.seconds < math.inf):
            raise InputError(f"seconds must be more than 0, not {self.seconds}")

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def make_examples(
    settings: BenchSettings, count: int, words: bool = True, seed: int = 0
) -> Examples:
    """So many sentences of T characters and, if there are words, T words."""
    rng = np.random.default_rng(seed)
    T = settings.length
    places = T if words else 0
    keys = np.sort(rng.integers(0, (T - 1) * (LONGEST - 1), size=(count, places)), axis=1).reshape(
        -1
    )
    start, more = np.divmod(
        keys, LONGEST - 1
    )  # by start and then by end, as a lexicon's matches come
    end = np.minimum(start + 2 + more, T)
    found = Matches(np.full(count, places), start, end, rng.integers(0, WORDS, size=len(keys)))
    chars = rng.integers(1, CHARS, size=count * T)
    return Examples(np.full(count, T), chars, found, np.full(count * T, OUTSIDE))


def make_tagger(
    dim: int, hidden: int, name: str, chars: int = CHARS, words: int = WORDS, trained: int = WORDS
) -> TorchTagger:
    """CHARACTER is the model without words; one of MODELS; or a backend, of a lattice of one layer."""
    torch.manual_seed(0)
    tables = Tables(torch.randn(chars, dim) * 0.1)
    if name != CHARACTER:
        tables.words = WordEmbedding.from_vectors(
            torch.randn(words, dim) * 0.1, trained, dropout=0.5
        )
        tables.counts = torch.ones(words, dtype=torch.int32)
    kinds = {CHARACTER: {"encoder": "char"}, **MODELS[0], **MODELS[1]}
    config = make_config({"model": {"hidden": hidden, **kinds.get(name, {})}})
    return assemble(
        config,
        Indexer(Vocab(()), None, TAGS, SCHEME),
        tables,
        None,
        "auto" if name in kinds else name,
    )


def long_words(settings: BenchSettings) -> list[str]:
    """Words of four characters, a quarter of the lexicon."""
    drawn = np.random.default_rng(0).choice(np.array(ALPHABET), size=(settings.words // 4, 4))
    return ["".join(row) for row in drawn]


def make_lexicon(settings: BenchSettings) -> Lexicon:
    """Words of four characters, and three words inside each: a text made of the long ones has a
    word a character.
    """
    return Lexicon(
        part for word in long_words(settings) for part in (word, word[:2], word[1:], word[2:])
    )


def make_texts(settings: BenchSettings, device: torch.device, length: int = 0) -> list[str]:
    """Between half of T and one and a half times T characters each; or all of `length`, and so
    about as many in all.
    """
    rng = np.random.default_rng(1)
    words = np.array(long_words(settings))
    T = settings.length
    count = settings.texts or TEXTS[device.type]
    if length:
        sizes = np.full(max(1, count * T // length), length)
    else:
        sizes = rng.integers(T // 2, T + T // 2, size=count, endpoint=True)
    return ["".join(rng.choice(words, size=size // 4 + 1))[:size] for size in sizes.tolist()]
