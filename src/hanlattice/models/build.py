"""From a configuration and a training corpus to a model that is ready to train: the only place where the two meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hanlattice.batch import Indexer
from hanlattice.batch.indexer import BICHARS, POS, POSITIONS, count_crossing
from hanlattice.config import Config
from hanlattice.errors import ConfigError, InputError
from hanlattice.models.language_model import BREAK, DIRECTIONS, LanguageModel, load_language_model
from hanlattice.models.tables import (
    bichar_table,
    character_table,
    lexicon_table,
    pos_table,
    position_table,
    word_table,
)
from hanlattice.models.tagger import Encoder, Tagger
from hanlattice.nn.baselines import FEATURES, CharLSTM, WordLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import LatticeLSTM, Stack
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.segmenter import Cuts, make_segmenter
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import WORD
from hanlattice.text.tags import tag_set
from hanlattice.text.vocab import Vocab


@dataclass(frozen=True)
class Built:
    tagger: Tagger
    indexer: Indexer
    notices: tuple[str, ...]


@dataclass
class Vocabs:
    """What the model knows by name, as far as it knows it."""

    chars: Vocab = field(default_factory=lambda: Vocab(()))
    lexicon: Lexicon | None = None
    subwords: Lexicon | None = None  # of a lattice that has words besides
    bichars: Vocab | None = None
    words: Vocab | None = None
    pos: Vocab | None = None


@dataclass
class Tables:
    """The vectors of what it knows."""

    chars: Tensor | None = None
    words: WordEmbedding | None = None
    subwords: WordEmbedding | None = None
    beside: dict[str, CharEmbedding | WordEmbedding] = field(default_factory=dict)


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
        what = "characters and bigrams" if config.model.bichar else "characters"
        notices.append(f"paper_vocab: the {what} of dev and test are in the vocabulary, as in the original code")
    tags = _tags(config, labels)
    vocabs, tables = _tables(config, train, seen, notices)
    lm = load_language_model(config.lm.model) if config.lm.model else None
    indexer = make_indexer(config, vocabs, tags, config.model.scheme, lm)
    tagger = assemble(config, indexer, tables, lm, config.train.backend)
    return Built(tagger, indexer, tuple(notices))


def _tags(config: Config, labels: list[str]) -> tuple[str, ...]:
    """Every tag of the labels. Words cover a text: a model that finds nothing else has no tag for what is outside."""
    tags = tuple(tag_set(labels, config.model.scheme))
    if labels != [WORD]:
        return tags
    if config.model.encoder == "word":
        raise ConfigError(["model.encoder=word reads words and cannot find them: choose lattice or char"])
    return tuple(tag for tag in tags if tag != "O")


def make_indexer(
    config: Config, vocabs: Vocabs, tags: tuple[str, ...], scheme: str, lm: LanguageModel | None
) -> Indexer:
    """What turns text into the numbers that this model wants."""
    segmenter = None
    if config.reads_segments:
        segmenter = make_segmenter(config.segment.by, vocabs.pos is not None)
    symbols = lm.vocab if lm else None
    return Indexer(
        vocab=vocabs.chars,
        lexicon=vocabs.lexicon,
        tags=tags,
        scheme=scheme,
        symbols=symbols,
        bichars=vocabs.bichars,
        segmenter=segmenter,
        words=vocabs.words,
        pos=vocabs.pos,
        subwords=vocabs.subwords,
    )


def assemble(
    config: Config,
    indexer: Indexer,
    tables: Tables,
    lm: LanguageModel | None,
    backend: str = "auto",
    fresh: bool = True,
) -> Tagger:
    """The modules around tables and a language model that exist already; not `fresh` where weights will be loaded."""
    model, chars = config.model, None
    dim = sum(table.dim for table in tables.beside.values())
    if tables.chars is not None:
        chars = CharEmbedding(tables.chars, config.chars.fine_tune, config.chars.dropout)
        dim += chars.dim
    states = None
    if lm is not None:
        ahead, back = (lm.directions[direction] for direction in DIRECTIONS)
        states = LanguageModelStates(ahead, back, config.lm.dim, config.lm.norm, config.lm.dropout, lm.vocab[BREAK])
        dim += config.lm.dim
    words: WordEmbedding | TwoSources | None = tables.words
    if tables.words is not None and tables.subwords is not None:
        words = TwoSources(tables.words, tables.subwords)
    encoder = _encoder(config, dim, words, backend, fresh)
    crf = CRF(indexer.tags, indexer.scheme)
    return Tagger(chars, words, encoder, crf, model.dropout, states, tables.beside)


def _encoder(config: Config, dim: int, words: WordEmbedding | TwoSources | None, backend: str, fresh: bool) -> Encoder:
    model = config.model
    if model.encoder == "word":
        assert words is not None
        features = FEATURES[model.char_features](dim, model.char_width) if model.char_features in FEATURES else None
        return WordLSTM(words.dim, model.hidden, features, config.words.dropout, model.layers, model.dropout)
    dims = [dim, *[2 * model.hidden] * (model.layers - 1)]
    layers: list[LatticeLSTM | CharLSTM] = (
        [CharLSTM(width, model.hidden) for width in dims]
        if words is None
        else [LatticeLSTM(width, words.dim, model.hidden, model.coupled, backend, fresh) for width in dims]
    )
    return layers[0] if len(layers) == 1 else Stack(layers, model.dropout)


def _tables(
    config: Config, train: Sequence[Sentence], seen: Sequence[Sentence], notices: list[str]
) -> tuple[Vocabs, Tables]:
    """In an order that stays: the random numbers of one table follow those of the others."""
    model, vocabs, tables = config.model, Vocabs(), Tables()
    if config.reads_characters:
        vocabs.chars, tables.chars = character_table(config.chars, seen, notices)
    for nth, source in enumerate(config.lattice_sources):
        if nth == 0:
            vocabs.lexicon, tables.words = lexicon_table(source, train, notices)
        else:
            vocabs.subwords, tables.subwords = lexicon_table(source, train, notices)
    if model.encoder == "word":
        texts, cuts = _cut(config, train)
        vocabs.words, tables.words = word_table(config.words, texts, cuts, notices)
        notices.append(_crossing(train, cuts))
    if model.bichar:
        vocabs.bichars, tables.beside[BICHARS] = bichar_table(config.bichars, seen, notices)
    if model.softword:
        soft = config.softwords
        tables.beside[POSITIONS] = position_table(soft.dim, soft.dropout)
        if soft.pos:
            vocabs.pos, tables.beside[POS] = pos_table(_cut(config, train)[1], soft.dim, soft.dropout)
    return vocabs, tables


def _cut(config: Config, train: Sequence[Sentence]) -> tuple[list[str], Cuts]:
    texts = [sentence.text for sentence in train]
    segmenter = make_segmenter(config.segment.by, config.softwords.pos and config.model.softword)
    return texts, segmenter(texts, [sentence.words for sentence in train])


def _crossing(train: Sequence[Sentence], cuts: Cuts) -> str:
    """A notice of how many spans a word model can never find."""
    spans = [sentence.spans or () for sentence in train]
    crossing, total = count_crossing(spans, cuts.counts, cuts.start, cuts.end), sum(map(len, spans))
    return f"segmentation: {crossing:,} of the {total:,} spans begin or end inside a word: they count as missed"
