"""From a configuration and a training corpus to a model that is ready to train: the only place where the two meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.batch import Indexer
from hanlattice.config import NO_WORDS, Config
from hanlattice.data.corpora import resolve
from hanlattice.errors import ConfigError, InputError
from hanlattice.models.language_model import BREAK, DIRECTIONS, LanguageModel, load_language_model
from hanlattice.models.tagger import Tagger
from hanlattice.nn.char_lstm import CharLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold_digits
from hanlattice.text.sentence import Sentence
from hanlattice.text.tags import tag_set
from hanlattice.text.vectors import Vectors, read_vectors
from hanlattice.text.vocab import Vocab


@dataclass(frozen=True)
class Built:
    tagger: Tagger
    indexer: Indexer
    notices: tuple[str, ...]


def build(config: Config, train: Sequence[Sentence], others: Iterable[Sentence] = ()) -> Built:
    """A fresh model for a training set. `others` (dev and test) count only with `paper_vocab`."""
    labels = sorted({span.label for sentence in train for span in sentence.spans or ()})
    if not labels:
        raise InputError("the training corpus has no labelled span, so there is nothing to learn")
    torch.manual_seed(config.train.seed)
    notices: list[str] = []
    seen: list[Sentence] = list(train)
    if config.model.paper_vocab:
        seen += others
        notices.append("paper_vocab: the characters of dev and test are in the vocabulary, as in the original code")
    vocab, char_vectors = _characters(config, seen, notices)
    lexicon, words = _words(config, train, notices)
    tags = tuple(tag_set(labels, config.model.scheme))
    lm = load_language_model(config.lm.model) if config.lm.model else None
    indexer = Indexer(vocab, lexicon, tags, config.model.scheme, lm.vocab if lm else None)
    tagger = assemble(config, indexer, char_vectors, words, lm, config.train.backend)
    return Built(tagger, indexer, tuple(notices))


def assemble(
    config: Config,
    indexer: Indexer,
    chars: Tensor,
    words: WordEmbedding | None,
    lm: LanguageModel | None,
    backend: str = "auto",
) -> Tagger:
    """The modules around tables and a language model that exist already."""
    model, dim = config.model, chars.shape[1]
    states = None
    if lm is not None:
        ahead, back = (lm.directions[direction] for direction in DIRECTIONS)
        states = LanguageModelStates(ahead, back, config.lm.dim, config.lm.norm, config.lm.dropout, lm.vocab[BREAK])
        dim += config.lm.dim
    encoder: LatticeLSTM | CharLSTM = CharLSTM(dim, model.hidden)
    if words is not None:
        encoder = LatticeLSTM(dim, words.dim, model.hidden, model.coupled, backend)
    embedding = CharEmbedding(chars, config.chars.fine_tune, config.chars.dropout)
    return Tagger(embedding, words, encoder, CRF(indexer.tags, indexer.scheme), model.dropout, states)


def _characters(config: Config, sentences: Iterable[Sentence], notices: list[str]) -> tuple[Vocab, Tensor]:
    """The vocabulary, from text and vector file, and its table. Row 0, unknown, is the mean of all."""
    text = dict.fromkeys(character for sentence in sentences for character in sentence.characters)
    dim = config.chars.dim
    known: dict[str, npt.NDArray[np.float32]] = {}
    if config.chars.vectors:
        vectors = _read(config.chars.vectors, notices)
        dim = vectors.matrix.shape[1]
        for word, row in zip(vectors.words, vectors.matrix, strict=True):
            if len(word) == 1:
                known.setdefault(fold_digits(word), row)
        if not known:
            raise InputError("no vector of a single character in it", config.chars.vectors)
    vocab = Vocab([*text, *known])
    table = _random(len(vocab), dim)
    if known:
        rows = _scaled(np.stack(list(known.values())), config.chars.norm)
        table = torch.randn(len(vocab), dim) * _spread(rows) + rows.mean(0)
        table[vocab.ids(list(known))] = rows
        missing = sum(character not in known for character in text)
        notices.append(f"characters: {len(vocab) - 1:,}, of which {missing:,} of the text have no vector in the file")
    table[0] = table[1:].mean(0)
    return vocab, table


def _words(
    config: Config, train: Sequence[Sentence], notices: list[str]
) -> tuple[Lexicon | None, WordEmbedding | None]:
    """The lexicon of the vector file, words that occur in the training text first, and their table."""
    if config.model.encoder != "lattice":
        return None, None
    lexicon, known = _known_words(config, notices)
    met = np.unique(lexicon.match_many([sentence.folded for sentence in train]).word)
    order = np.concatenate([met, np.setdiff1d(np.arange(len(lexicon)), met)]).astype(np.int64)
    notices.append(f"lexicon: {len(lexicon):,} words, {len(met):,} of them occur in the training text")
    trained = len(met) if config.words.fine_tune else 0
    reordered = Lexicon(lexicon.words[at] for at in order)
    return reordered, WordEmbedding.from_vectors(known[torch.from_numpy(order)], trained, config.words.dropout)


def _known_words(config: Config, notices: list[str]) -> tuple[Lexicon, Tensor]:
    """The words that the configuration names, and a vector for each: of the vector file, or random."""
    lexicon, name = Lexicon(), config.words.vectors or config.words.lexicon
    if config.words.vectors:
        vectors = _read(name, notices)
        rows = np.flatnonzero(lexicon.add_many(vectors.words))
    elif config.words.lexicon:
        lexicon.load(resolve(name))
    else:
        raise ConfigError([NO_WORDS])
    if not len(lexicon):
        raise InputError("no word of two characters or more in it", name)
    if config.words.vectors:
        return lexicon, _scaled(vectors.matrix[rows], config.words.norm)
    return lexicon, _random(len(lexicon), config.words.dim).half().float()  # so that the fixed rows stay small


def _random(rows: int, dim: int) -> Tensor:
    """Vectors to begin with where none are known: uniform, with a mean square length of 1."""
    vectors: Tensor = (torch.rand(rows, dim) * 2 - 1) * (3 / dim) ** 0.5
    return vectors


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
