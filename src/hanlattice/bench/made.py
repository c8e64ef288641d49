"""Made inputs: sentences with about one word a character, and models with random weights."""

from __future__ import annotations

import numpy as np
import torch

from hanlattice.batch import Examples
from hanlattice.bench.settings import Settings
from hanlattice.models.tagger import Tagger
from hanlattice.nn.baselines import CharLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.text.lexicon import Matches
from hanlattice.text.tags import tag_set

SCHEME = "BMES"
TAGS = tuple(tag_set(["NAME", "CONT", "RACE", "TITLE", "EDU", "ORG", "PRO", "LOC"], SCHEME))
OUTSIDE = TAGS.index("O")
CHARACTER = "character LSTM"  # the model without a lattice; the others are named by their backend
CHARS, WORDS = 2000, 5000  # different ones in a training set
LONGEST = 4  # characters of a word


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
