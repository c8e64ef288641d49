"""Build a model to train: vocabularies and initial vectors from a corpus, then the modules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.checkpoint.build_torch import Tables, assemble, check_tagger
from hanlattice.checkpoint.language_model import load_language_model
from hanlattice.checkpoint.load import make_segmenter
from hanlattice.checkpoint.plan import check_tags
from hanlattice.checkpoint.symbols import Vocabs, make_indexer, met_first
from hanlattice.checkpoint.transformer import find_transformer, make_transformer, read_transformer
from hanlattice.config import Config, EmbeddingConfig, WordsConfig, no_word_file
from hanlattice.data.download import resolve
from hanlattice.errors import ConfigError, InputError
from hanlattice.features import Indexer
from hanlattice.features.indexer import BICHARS, POS, POSITIONS, count_crossing, words_of
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.tagger import TorchTagger
from hanlattice.text.dictionary import read_words
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold, fold_digits, has_traditional
from hanlattice.text.segment import PLACES, Cuts
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import WORD
from hanlattice.text.tags import tag_set
from hanlattice.text.vectors import Vectors, read_vectors
from hanlattice.text.vocab import Vocab, bigrams, is_bigram
from hanlattice.training.warm_start import Cut, carried_tables, carry_weights, load_source

Row = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Built:
    """A model ready to train, and notices about what it was made from."""

    tagger: TorchTagger
    indexer: Indexer
    notices: tuple[str, ...]


def build(config: Config, train: Sequence[Sentence], others: Iterable[Sentence] = ()) -> Built:
    """Build a model for a training set, fresh or from the model that `start.model` names.

    Args:
        config: the settings.
        train: the sentences to train on; their labels are those of the model.
        others: dev and test, whose characters are in the vocabulary with `paper_vocab` alone.
    """
    labels = sorted({span.label for sentence in train for span in sentence.spans or ()})
    if not labels:
        raise InputError("the training corpus has no labelled span, so there is nothing to learn")
    torch.manual_seed(config.train.seed)
    notices: list[str] = []
    seen: list[Sentence] = list(train)
    if config.model.paper_vocab:
        seen += others
        what = "characters and bigrams" if config.model.bichar else "characters"
        notices.append(
            f"paper_vocab: the {what} of dev and test are in the vocabulary, "
            "as in the original code"
        )
    tags = _tags(config, labels)
    source = load_source(config) if config.start.model else None
    # Several tables may need the words of the training text, which take long to find.
    cut = cache(partial(_cut, config, train))
    if source is None:
        vocabs, tables = _tables(config, train, seen, cut, notices)
    else:
        vocabs, tables = carried_tables(config, source, train, seen, cut, notices)
    if config.model.encoder == "word":
        spans = [sentence.spans or () for sentence in train]
        cuts = cut()[1]
        crossing = count_crossing(spans, cuts.counts, cuts.start, cuts.end)
        notices.append(
            f"segmentation: {crossing:,} of the {sum(map(len, spans)):,} spans begin or end inside "
            "a word: they count as missed"
        )
    lm = load_language_model(config.lm.model) if config.lm.model else None
    if lm is not None and lm.cutter is not None:
        raise InputError(
            "lm.model: this is a language model of words; a tagger takes one of characters, "
            "which `hanlattice pretrain lm` makes without --unit word",
            config.lm.model,
        )
    transformer = None
    if config.transformer.model:
        # The weights of a model to start from include its transformer's.
        read = read_transformer if source is None else make_transformer
        transformer = read(find_transformer(config.transformer.model))
        vocabs.pieces = transformer.pieces
    segmenter = None
    if config.reads_segments:
        with_pos = vocabs.pos is not None
        segmenter = make_segmenter(config.segment.by, with_pos, config.train.device)
    indexer = make_indexer(vocabs, tags, config.model.scheme, lm, segmenter)
    tagger = assemble(config, indexer, tables, lm, config.train.backend, transformer=transformer)
    # Check before the first step, not when the trained model is loaded.
    try:
        check_tagger(config, indexer, tagger)
    except LookupError as error:
        raise InputError(
            f"a model of this configuration could not be loaded again: {error}"
        ) from None
    if source is not None:
        carry_weights(source, tagger, config.start, notices)
    return Built(tagger, indexer, tuple(notices))


def _tags(config: Config, labels: list[str]) -> tuple[str, ...]:
    """Every tag of the labels; without O for a segmenter, whose words cover the text."""
    tags = tuple(tag_set(labels, config.model.scheme))
    if labels == [WORD] or config.data.learn == "words":
        if config.model.encoder == "word":
            raise ConfigError(
                ["model.encoder=word reads words and cannot find them: choose lattice or char"]
            )
        tags = tuple(tag for tag in tags if tag != "O")
    check_tags(tags, config.model.scheme)
    return tags


def _tables(
    config: Config,
    train: Sequence[Sentence],
    seen: Sequence[Sentence],
    cut: Cut,
    notices: list[str],
) -> tuple[Vocabs, Tables]:
    """Vocabularies and fresh tables of vectors."""
    # The order is fixed: the tables draw their random numbers one after the other.
    model = config.model
    vocabs = Vocabs()
    tables = Tables()
    if config.reads_characters:
        vocabs.chars, tables.chars = character_table(config.chars, seen, notices)
    counts = torch.empty(0)
    for source in config.lattice_sources:
        lexicon, table, source_counts = lexicon_table(source, train, notices)
        if vocabs.lexicon is None:
            vocabs.lexicon, tables.words, counts = lexicon, table, source_counts
        else:
            vocabs.subwords, tables.subwords = lexicon, table
            # Subwords have the first ids, so all of them are counted before the words.
            padded = F.pad(source_counts, (0, len(lexicon) - len(source_counts)))
            counts = torch.cat([padded, counts])
        tables.counts = counts if model.pools else None
    if model.encoder == "word":
        vocabs.words, tables.words = word_table(config.words, *cut(), notices)
    extra = tables.extra_embeddings
    if model.bichar:
        vocabs.bichars, extra[BICHARS] = bichar_table(config.bichars, seen, notices)
    if model.softword:
        dim = config.softwords.dim
        dropout = config.softwords.dropout
        extra[POSITIONS] = CharEmbedding(random_vectors(len(PLACES), dim), dropout=dropout)
        if config.softwords.pos:
            vocabs.pos = Vocab(dict.fromkeys(cut()[1].pos or ()))
            extra[POS] = CharEmbedding(random_vectors(len(vocabs.pos), dim), dropout=dropout)
    return vocabs, tables


def _cut(config: Config, train: Sequence[Sentence]) -> tuple[list[str], Cuts]:
    """The training texts, and the words that cover them."""
    texts = [sentence.text for sentence in train]
    pos = config.softwords.pos and config.model.softword
    segmenter = make_segmenter(config.segment.by, pos, config.train.device)
    return texts, segmenter(texts, [sentence.words for sentence in train])


# ---- vocabularies and their initial vectors, from the training corpus and vector files


def character_table(
    config: EmbeddingConfig, sentences: Iterable[Sentence], notices: list[str]
) -> tuple[Vocab, Tensor]:
    """Return the characters of the texts and of the vector file, with their vectors."""
    text = dict.fromkeys(character for sentence in sentences for character in sentence.characters)
    none = "no vector of a single character in it"
    known = known_vectors(config.vectors, fold_digits, notices, lambda word: len(word) == 1, none)
    vocab, vectors, _ = _draw("characters", text, known, config, notices)
    return vocab, vectors


def bichar_table(
    config: EmbeddingConfig, sentences: Iterable[Sentence], notices: list[str]
) -> tuple[Vocab, WordEmbedding]:
    """Return the bigrams of the texts and of the vector file, with their vectors."""
    text = dict.fromkeys(bigram for sentence in sentences for bigram in bigrams(sentence.text))
    none = "no vector of a bigram in it: expected two characters, or one and -null-"
    known = known_vectors(config.vectors, fold_digits, notices, is_bigram, none)
    return _partly_trained("bigrams", text, known, config, notices)


def word_table(
    config: WordsConfig, texts: Sequence[str], cuts: Cuts, notices: list[str]
) -> tuple[Vocab, WordEmbedding]:
    """Return a word model's words, of the training texts and of the vector file."""
    text = dict.fromkeys(words_of(texts, cuts))
    known = known_vectors(config.vectors, fold, notices)
    return _partly_trained("words", text, known, config, notices)


def lexicon_table(
    source: WordsConfig, train: Sequence[Sentence], notices: list[str]
) -> tuple[Lexicon, WordEmbedding, Tensor]:
    """Return a lexicon, its table, and how often its first words occur in the training text.

    The words that occur there come first, the most frequent first of all.
    """
    lexicon = Lexicon()
    name = source.vectors or source.lexicon
    if not name:
        raise ConfigError([no_word_file(source)])
    if source.vectors:
        vectors = _read(name, notices)
        rows = np.flatnonzero(lexicon.add_many(vectors.words))
    else:
        lexicon.update(read_words(resolve(name)))
    if not len(lexicon):
        raise InputError("no word of two characters or more in it", name)
    if source.vectors:
        table = _scaled(vectors.matrix[rows], source.norm)
    else:
        # Fixed rows are stored in half precision, which must hold them exactly.
        table = random_vectors(len(lexicon), source.dim).half().float()
    order, counts = met_first(lexicon, train)
    notices.append(
        f"lexicon: {len(lexicon):,} {source.called}, "
        f"{len(counts):,} of them occur in the training text"
    )
    trained = len(counts) if source.fine_tune else 0
    reordered = Lexicon(lexicon.words[index] for index in order)
    embedding = WordEmbedding.from_vectors(table[torch.from_numpy(order)], trained, source.dropout)
    return reordered, embedding, torch.from_numpy(counts)


def random_vectors(rows: int, dim: int) -> Tensor:
    """Draw initial vectors, [rows, dim]: uniform, with a mean square length of 1."""
    vectors: Tensor = (torch.rand(rows, dim) * 2 - 1) * (3 / dim) ** 0.5
    return vectors


def known_vectors(
    name: str | Path,
    seen: Callable[[str], str],
    notices: list[str],
    is_wanted: Callable[[str], bool] = lambda _: True,
    none: str = "",
) -> dict[str, Row]:
    """Read the vectors of a file by symbol; without a file there are none.

    Args:
        name: the vector file, or "".
        seen: turns a word of the file into the symbol that a model looks up. Of several words with
            one symbol, the first counts.
        notices: what reading the file has to say is added here.
        is_wanted: which words of the file to keep.
        none: the error message if no word is wanted; "" accepts that.
    """
    known: dict[str, Row] = {}
    if not name:
        return known
    vectors = _read(name, notices)
    for word, row in zip(vectors.words, vectors.matrix, strict=True):
        if is_wanted(word):
            known.setdefault(seen(word), row)
    if none and not known:
        raise InputError(none, name)
    return known


def vectors_for(vocab: Vocab, known: Mapping[str, Row], norm: float) -> Tensor:
    """Return vectors for a vocabulary, [V, E], scaled to this mean norm.

    A symbol without a known vector gets a random one with the mean and spread of the known ones.
    """
    rows = _scaled(np.stack(list(known.values())), norm)
    # A single row has a spread of 0, not NaN.
    spread = rows.std(0, correction=min(1, len(rows) - 1))
    table = torch.randn(len(vocab), rows.shape[1]) * spread + rows.mean(0)
    table[vocab.ids(list(known))] = rows
    return table


def _draw(
    kind: str,
    text: Collection[str],
    known: dict[str, Row],
    config: EmbeddingConfig,
    notices: list[str],
) -> tuple[Vocab, Tensor, int]:
    """A vocabulary, its vectors, and how many symbols come first: unknown and those of the text.

    Row 0, for unknown symbols, is the mean of all others.
    """
    met = Vocab(text)
    vocab = Vocab([*met.symbols, *known])
    dim = next((len(row) for row in known.values()), config.dim)
    table = random_vectors(len(vocab), dim)
    if known:
        table = vectors_for(vocab, known, config.norm)
        missing = sum(symbol not in known for symbol in met.symbols[1:])
        lacking = f", of which {missing:,} of the text have no vector in the file"
        notices.append(f"{kind}: {len(vocab) - 1:,}{lacking if missing else ''}")
    if len(vocab) > 1:
        table[0] = table[1:].mean(0)
    return vocab, table, len(met)


def _partly_trained(
    kind: str,
    text: Collection[str],
    known: dict[str, Row],
    config: EmbeddingConfig,
    notices: list[str],
) -> tuple[Vocab, WordEmbedding]:
    """A table in which the symbols of the text are trained, if any; all others are fixed.

    If none is trained, symbols of the text without a vector stay unknown.
    """
    if known and not config.fine_tune:
        has_vector = [symbol for symbol in text if symbol in known]
        lacking = len(text) - len(has_vector)
        notices.append(f"{kind}: {lacking:,} of the text have no vector in the file, and get none")
        text = has_vector
    vocab, vectors, met = _draw(kind, text, known, config, notices)
    trained = met if config.fine_tune else 0
    # Half precision halves the table of fixed vectors; training needs the others in full.
    rounded = vectors[trained:].half().float()
    if rounded.isfinite().all():
        vectors = torch.cat([vectors[:trained], rounded])
    return vocab, WordEmbedding.from_vectors(vectors, trained, config.dropout)


def _read(name: str | Path, notices: list[str]) -> Vectors:
    """The vectors of a file, with the words in simplified characters first.

    A model sees a word in both scripts as one, and the first vector counts.
    """
    vectors = read_vectors(resolve(name))
    # Two tables may read the same file.
    notices += [notice for notice in vectors.notices if notice not in notices]
    order = np.argsort(np.fromiter(map(has_traditional, vectors.words), dtype=bool), kind="stable")
    words = tuple(vectors.words[index] for index in order)
    return replace(vectors, words=words, matrix=vectors.matrix[order])


def _scaled(rows: npt.NDArray[np.float32], norm: float) -> Tensor:
    """The rows scaled to this mean norm, which is their weight at first; 0 changes nothing."""
    mean = np.linalg.norm(rows, axis=1).mean()
    return torch.from_numpy(rows * np.float32(norm / mean) if norm and mean else rows)
