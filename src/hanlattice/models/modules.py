"""From a configuration and tables of vectors to a Tagger of torch, fresh or with the weights of a file.

`arrays.py` is its twin for the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hanlattice.batch import Indexer
from hanlattice.batch.indexer import BICHARS, POS, POSITIONS
from hanlattice.config import Config, ModelConfig
from hanlattice.models.arrays import Array, check_rows
from hanlattice.models.compress import expanded
from hanlattice.models.language_model import BREAK, DIRECTIONS, LanguageModel
from hanlattice.models.schema import check_fit
from hanlattice.models.tagger import Encoder, Tagger
from hanlattice.models.transformer import Transformer
from hanlattice.nn.baselines import FEATURES, CharLSTM, CharRNN, NoEncoder, WordLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding, WordPools
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import CoupledLSTM, LatticeLSTM, Layer, Stack


@dataclass
class Tables:
    """Their vectors."""

    chars: Tensor | None = None
    words: WordEmbedding | None = None
    subwords: WordEmbedding | None = None
    beside: dict[str, CharEmbedding | WordEmbedding] = field(default_factory=dict)
    counts: Tensor | None = None  # how often training met the lattice's first words, for their pools


def assemble(
    config: Config,
    indexer: Indexer,
    tables: Tables,
    lm: LanguageModel | None,
    backend: str = "auto",
    fresh: bool = True,
    transformer: Transformer | None = None,
) -> Tagger:
    """The modules around existing tables and pre-trained models; not `fresh` where weights are loaded afterwards."""
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
    read = None
    if transformer is not None:
        read = transformer.states(config.transformer)
        dim += read.dim
    words: WordEmbedding | TwoSources | None = tables.words
    if tables.words is not None and tables.subwords is not None:
        words = TwoSources(tables.words, tables.subwords)
    pools = None
    if model.pools:
        assert words is not None
        assert tables.counts is not None
        pools = WordPools(tables.counts, words.dim, config.pools.dim, config.pools.dropout)
        dim += pools.dim
    encoder = _encoder(config, dim, words, backend, fresh)
    crf = CRF(indexer.tags, indexer.scheme)
    return Tagger(chars, words, encoder, crf, model.dropout, states, tables.beside, pools, read)


def _encoder(config: Config, dim: int, words: WordEmbedding | TwoSources | None, backend: str, fresh: bool) -> Encoder:
    model = config.model
    if model.encoder == "none":
        return NoEncoder(dim)
    if model.encoder == "word":
        assert words is not None
        features = FEATURES[model.char_features](dim, model.char_width) if model.char_features in FEATURES else None
        return WordLSTM(words.dim, model.hidden, features, config.words.dropout, model.layers, model.dropout)
    layers: list[Layer] = []
    for n in range(model.layers):
        width = 2 * model.hidden if n else dim
        if words is None or (n == 0 and model.first_layer == "char"):
            layers.append(_char_layer(model, width, backend, fresh))
        else:
            word_dim = words.dim + (width if n and model.whole_words else 0)
            layers.append(LatticeLSTM(width, word_dim, model.hidden, model.coupled, backend, fresh))
    return layers[0] if len(layers) == 1 else Stack(layers, model.dropout, model.whole_words)


def _char_layer(model: ModelConfig, dim: int, backend: str, fresh: bool) -> Layer:
    if model.coupled:
        return CoupledLSTM(dim, model.hidden, backend, fresh)
    return CharRNN(dim, model.hidden) if model.cell == "tanh" else CharLSTM(dim, model.hidden)


def restore(
    config: Config,
    indexer: Indexer,
    arrays: Mapping[str, Array],
    folder: Path,
    lm: LanguageModel | None,
    backend: str,
    transformer: Transformer | None = None,
) -> Tagger:
    """The tagger of a folder's weights. A LookupError or RuntimeError says what does not fit."""
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in expanded(arrays).items()}
    tables = _tables(config, indexer, tensors)
    check_rows(_counts(tables), indexer, folder)
    make = partial(assemble, config, indexer, tables, lm, backend, fresh=False, transformer=transformer)
    check_fit(make, tensors)
    with torch.random.fork_rng(devices=[]):  # the random numbers of a training do not depend on when this happens
        tagger = make()
    tagger.load_state_dict(tensors)
    return tagger


def _counts(tables: Tables) -> dict[str, int]:
    """How many rows each table has."""
    named = {"chars": tables.chars, "words": tables.words, "subwords": tables.subwords, **tables.beside}
    there = {name: table.vectors if isinstance(table, CharEmbedding) else table for name, table in named.items()}
    return {name: len(table) for name, table in there.items() if table is not None}


def _tables(config: Config, indexer: Indexer, tensors: Mapping[str, Tensor]) -> Tables:
    """The tables of `build`, from the loaded tensors."""
    tables = Tables(tensors["chars.vectors"] if config.reads_characters else None)
    if indexer.subwords is not None:
        tables.words = _word_embedding(tensors, "words.words", config.words.dropout)
        tables.subwords = _word_embedding(tensors, "words.subwords", config.subwords.dropout)
    elif indexer.lexicon is not None or indexer.words is not None:
        source = config.lattice_sources[0] if indexer.words is None else config.words
        tables.words = _word_embedding(tensors, "words", source.dropout)
    if indexer.bichars is not None:
        tables.beside[BICHARS] = _word_embedding(tensors, f"beside.{BICHARS}", config.bichars.dropout)
    tables.counts = tensors["pools.counts"] if config.model.pools else None
    for name, there in ((POSITIONS, config.model.softword), (POS, indexer.pos is not None)):
        if there:
            tables.beside[name] = CharEmbedding(tensors[f"beside.{name}.vectors"], dropout=config.softwords.dropout)
    return tables


def _word_embedding(tensors: Mapping[str, Tensor], name: str, dropout: float) -> WordEmbedding:
    return WordEmbedding(tensors[f"{name}.trained"], tensors[f"{name}.fixed"], dropout)
