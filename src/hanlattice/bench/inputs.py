"""What is measured, and with what: the settings, made sentences and texts, models with random weights."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hanlattice.batch import Examples
from hanlattice.errors import InputError
from hanlattice.models.tagger import Tagger
from hanlattice.nn.baselines import CharLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.text.lexicon import Lexicon, Matches
from hanlattice.text.tags import tag_set

SCHEME = "BMES"
TAGS = tuple(tag_set(["NAME", "CONT", "RACE", "TITLE", "EDU", "ORG", "PRO", "LOC"], SCHEME))
OUTSIDE = TAGS.index("O")
CHARACTER = "character LSTM"  # the model without a lattice; the others are named by their backend
CHARS, WORDS = 2000, 5000  # different ones in a training set
LONGEST = 4  # characters of a word
ALPHABET = [chr(0x4E00 + at) for at in range(3000)]  # of the texts that are tagged
TEXTS = {"cpu": 1024, "cuda": 16384}  # how many are tagged at a time


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"
    threads: int = 2
    batches: tuple[int, ...] = (1, 16, 32, 128, 1024)
    hidden: tuple[int, ...] = (100, 200)
    seconds: float = 0.5  # the least time to measure for each figure
    length: int = 50  # T, characters of a sentence
    dim: int = 64  # D, of characters and of words
    words: int = 50_000  # of the lexicon that tagging uses
    texts: int = 0  # that are tagged at a time; 0 chooses by the device
    lengths: tuple[int, ...] = (10, 20, 40, 80, 160, 320)  # characters of sentences that are all of one length

    def __post_init__(self) -> None:
        least = {"threads": 1, "batches": 1, "hidden": 1, "length": 4, "dim": 1, "words": 4, "texts": 0, "lengths": 4}
        for name, smallest in least.items():
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not values or min(values) < smallest:
                raise InputError(f"{name} must be {smallest} or more, not {', '.join(map(str, values)) or 'nothing'}")
        if not (0 < self.seconds < math.inf):
            raise InputError(f"seconds must be more than 0, not {self.seconds}")

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def make_examples(settings: Settings, count: int, words: bool = True, seed: int = 0) -> Examples:
    """So many sentences of T characters and, if there are words, T words."""
    rng = np.random.default_rng(seed)
    T = settings.length
    places = T if words else 0
    keys = np.sort(rng.integers(0, (T - 1) * (LONGEST - 1), size=(count, places)), axis=1).reshape(-1)
    start, more = np.divmod(keys, LONGEST - 1)  # by start and then by end, as a lexicon's matches come
    end = np.minimum(start + 2 + more, T)
    found = Matches(np.full(count, places), start, end, rng.integers(0, WORDS, size=len(keys)))
    chars = rng.integers(1, CHARS, size=count * T)
    return Examples(np.full(count, T), chars, found, np.full(count * T, OUTSIDE))


def make_tagger(
    dim: int, hidden: int, backend: str, chars: int = CHARS, words: int = WORDS, trained: int = WORDS
) -> Tagger:
    """A model with one backend of the lattice LSTM; CHARACTER stands for the model without words."""
    torch.manual_seed(0)
    embedding = CharEmbedding(torch.randn(chars, dim) * 0.1, dropout=0.5)
    crf = CRF(TAGS, SCHEME)
    if backend == CHARACTER:
        return Tagger(embedding, None, CharLSTM(dim, hidden), crf, dropout=0.5)
    table = WordEmbedding.from_vectors(torch.randn(words, dim) * 0.1, trained, dropout=0.5)
    return Tagger(embedding, table, LatticeLSTM(dim, dim, hidden, backend=backend), crf, dropout=0.5)


def long_words(settings: Settings) -> list[str]:
    """Words of four characters, a quarter of the lexicon."""
    drawn = np.random.default_rng(0).choice(np.array(ALPHABET), size=(settings.words // 4, 4))
    return ["".join(row) for row in drawn]


def make_lexicon(settings: Settings) -> Lexicon:
    """Words of four characters, and three words inside each: a text made of the long ones has a word a character."""
    return Lexicon(part for word in long_words(settings) for part in (word, word[:2], word[1:], word[2:]))


def make_texts(settings: Settings, device: torch.device, length: int = 0) -> list[str]:
    """Between half of T and one and a half times T characters each; or all of `length`, and so about as many in all."""
    rng = np.random.default_rng(1)
    words, T, count = np.array(long_words(settings)), settings.length, settings.texts or TEXTS[device.type]
    if length:
        sizes = np.full(max(1, count * T // length), length)
    else:
        sizes = rng.integers(T // 2, T + T // 2, size=count, endpoint=True)
    return ["".join(rng.choice(words, size=size // 4 + 1))[:size] for size in sizes.tolist()]
