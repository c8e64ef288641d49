"""The vocabularies of a model and the vectors that they begin with: from the training corpus and vector files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.batch.indexer import words_of
from hanlattice.config import BicharsConfig, CharsConfig, WordsConfig, no_words
from hanlattice.data.download import resolve
from hanlattice.errors import ConfigError, InputError
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.segmenter import PLACES, Cuts
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, read_vectors
from hanlattice.text.vocab import Vocab, bigrams, is_bigram

Row = npt.NDArray[np.float32]


class Drawn(NamedTuple):
    """A vocabulary and a vector for each of its symbols, of which the first `met` are unknown and the text's own."""

    vocab: Vocab
    vectors: Tensor
    met: int


def character_table(config: CharsConfig, sentences: Iterable[Sentence], notices: list[str]) -> tuple[Vocab, Tensor]:
    """Of the characters of texts and of the vector file."""
    text = dict.fromkeys(character for sentence in sentences for character in sentence.characters)
    known: dict[str, Row] = {}
    if config.vectors:
        known = _known(config.vectors, fold_digits, lambda word: len(word) == 1, notices)
        if not known:
            raise InputError("no vector of a single character in it", config.vectors)
    drawn = _draw("characters", text, known, config, notices)
    return drawn.vocab, drawn.vectors


def bichar_table(
    config: BicharsConfig, sentences: Iterable[Sentence], notices: list[str]
) -> tuple[Vocab, WordEmbedding]:
    """Of the bigrams of texts and of the vector file."""
    text = dict.fromkeys(bigram for sentence in sentences for bigram in bigrams(sentence.text))
    known: dict[str, Row] = {}
    if config.vectors:
        known = _known(config.vectors, fold_digits, is_bigram, notices)
        if not known:
            raise InputError("no vector of a bigram in it: expected two characters, or one and -null-", config.vectors)
    return _partly_trained("bigrams", text, known, config, notices)


def word_table(
    config: WordsConfig, texts: Sequence[str], cuts: Cuts, notices: list[str]
) -> tuple[Vocab, WordEmbedding]:
    """Of the words that cover the training texts and of the vector file, for a word model."""
    text = dict.fromkeys(words_of(texts, cuts))
    known = _known(config.vectors, fold, lambda _: True, notices) if config.vectors else {}
    return _partly_trained("words", text, known, config, notices)


def pos_table(cuts: Cuts, dim: int, dropout: float) -> tuple[Vocab, CharEmbedding]:
    """Of the parts of speech that the training texts have."""
    vocab = Vocab(dict.fromkeys(cuts.pos or ()))
    return vocab, CharEmbedding(random_vectors(len(vocab), dim), dropout=dropout)


def position_table(dim: int, dropout: float) -> CharEmbedding:
    """Of the places that a character can have in its word."""
    return CharEmbedding(random_vectors(len(PLACES), dim), dropout=dropout)


def lexicon_table(source: WordsConfig, train: Sequence[Sentence], notices: list[str]) -> tuple[Lexicon, WordEmbedding]:
    """The lexicon of the vector file, the training text's words first, by how often they occur, and their table."""
    lexicon, known = _known_words(source, notices)
    counts = np.bincount(lexicon.match_many([sentence.folded for sentence in train]).word, minlength=len(lexicon))
    met = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    order = np.concatenate([met, np.setdiff1d(np.arange(len(lexicon)), met)]).astype(np.int64)
    notices.append(f"lexicon: {len(lexicon):,} {source.called}, {len(met):,} of them occur in the training text")
    trained = len(met) if source.fine_tune else 0
    reordered = Lexicon(lexicon.words[at] for at in order)
    return reordered, WordEmbedding.from_vectors(known[torch.from_numpy(order)], trained, source.dropout)


def random_vectors(rows: int, dim: int) -> Tensor:
    """Vectors to begin with where none are known: uniform, with a mean square length of 1."""
    vectors: Tensor = (torch.rand(rows, dim) * 2 - 1) * (3 / dim) ** 0.5
    return vectors


def _known(
    name: str, seen: Callable[[str], str], is_wanted: Callable[[str], bool], notices: list[str]
) -> dict[str, Row]:
    """The vectors of a file by the symbols that a model looks up; of several for one symbol the first counts."""
    vectors = _read(name, notices)
    known: dict[str, Row] = {}
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        if is_wanted(word):
            known.setdefault(seen(word), row)
    return known


def _draw(
    kind: str,
    text: Collection[str],
    known: dict[str, Row],
    config: CharsConfig | BicharsConfig | WordsConfig,
    notices: list[str],
) -> Drawn:
    """What the text has comes first. Row 0, unknown, is the mean of all; one without a vector is drawn near them."""
    met = Vocab(text)
    vocab = Vocab([*met.symbols, *known])
    dim = next((len(row) for row in known.values()), config.dim)
    table = random_vectors(len(vocab), dim)
    if known:
        rows = _scaled(np.stack(list(known.values())), config.norm)
        table = torch.randn(len(vocab), dim) * _spread(rows) + rows.mean(0)
        table[vocab.ids(list(known))] = rows
        missing = sum(symbol not in known for symbol in met.symbols[1:])
        without = f", of which {missing:,} of the text have no vector in the file" if missing else ""
        notices.append(f"{kind}: {len(vocab) - 1:,}{without}")
    if len(vocab) > 1:
        table[0] = table[1:].mean(0)
    return Drawn(vocab, table, len(met))


def _partly_trained(
    kind: str, text: Collection[str], known: dict[str, Row], config: BicharsConfig | WordsConfig, notices: list[str]
) -> tuple[Vocab, WordEmbedding]:
    """Only what the text has is ever trained; if that is not, what has no vector stays unknown.

    The vectors that are never trained are rounded to half precision, so that they stay small.
    """
    if known and not config.fine_tune:
        some = [symbol for symbol in text if symbol in known]
        notices.append(f"{kind}: {len(text) - len(some):,} of the text have no vector in the file, and get none")
        text = some
    vocab, vectors, met = _draw(kind, text, known, config, notices)
    trained = met if config.fine_tune else 0
    rounded = vectors[trained:].half().float()
    if rounded.isfinite().all():
        vectors = torch.cat([vectors[:trained], rounded])
    return vocab, WordEmbedding.from_vectors(vectors, trained, config.dropout)


def _known_words(source: WordsConfig, notices: list[str]) -> tuple[Lexicon, Tensor]:
    """The words that the configuration names, and a vector for each: of the vector file, or random."""
    lexicon, name = Lexicon(), source.vectors or source.lexicon
    if source.vectors:
        vectors = _read(name, notices)
        rows = np.flatnonzero(lexicon.add_many(vectors.words))
    elif source.lexicon:
        lexicon.load(resolve(name))
    else:
        raise ConfigError([no_words(source)])
    if not len(lexicon):
        raise InputError("no word of two characters or more in it", name)
    if source.vectors:
        return lexicon, _scaled(vectors.matrix[rows], source.norm)
    return lexicon, random_vectors(len(lexicon), source.dim).half().float()  # so that the fixed rows stay small


def _read(name: str, notices: list[str]) -> Vectors:
    vectors = read_vectors(resolve(name))
    notices += [notice for notice in vectors.notices if notice not in notices]  # one file may serve both tables
    return vectors


def _scaled(rows: npt.NDArray[np.float32], norm: float) -> Tensor:
    """The rows with this mean norm; with 0, as they are. The scale decides how strongly vectors speak at first."""
    mean = np.linalg.norm(rows, axis=1).mean()
    return torch.from_numpy(rows * np.float32(norm / mean) if norm and mean else rows)


def _spread(rows: Tensor) -> Tensor:
    """The standard deviation of each column; a single row has none, so its kind is taken to be all alike."""
    return rows.std(0, correction=min(1, len(rows) - 1))
