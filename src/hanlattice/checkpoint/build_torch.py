"""Build a tagger of torch from settings and tables of vectors, fresh or with a file's weights.

`build_numpy` does so for NumPy and C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from hanlattice.checkpoint.build_numpy import Array
from hanlattice.checkpoint.language_model import BREAK, DIRECTIONS, LanguageModel
from hanlattice.checkpoint.plan import check_arrays, check_shapes
from hanlattice.checkpoint.quantize import COMPOSER, COUNTS, check_values, expanded
from hanlattice.checkpoint.transformer import Transformer
from hanlattice.config import Config
from hanlattice.features import Indexer
from hanlattice.features.indexer import BICHARS, POS, POSITIONS
from hanlattice.nn.baselines import FEATURES, CharLSTM, CharRNN, NoEncoder, WordLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding, WordPools
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import CoupledLSTM, LatticeLSTM, Layer, Stack
from hanlattice.nn.tagger import Encoder, TorchTagger
from hanlattice.nn.transformer import TransformerStates


@dataclass
class Tables:
    """The vectors of a model's symbols, kind by kind."""

    chars: Tensor | None = None
    words: WordEmbedding | None = None
    subwords: WordEmbedding | None = None
    extra_embeddings: dict[str, CharEmbedding | WordEmbedding] = field(default_factory=dict)
    # How often training met the lattice's first words, for their pools.
    counts: Tensor | None = None


def assemble(
    config: Config,
    indexer: Indexer,
    tables: Tables,
    lm: LanguageModel | None,
    backend: str = "auto",
    fresh: bool = True,
    transformer: Transformer | None = None,
) -> TorchTagger:
    """Build the modules around tables of vectors and pre-trained models.

    Without `fresh` no initial weights are drawn, since a file's are loaded afterwards.
    """
    model = config.model
    chars = None
    dim = sum(table.dim for table in tables.extra_embeddings.values())
    if tables.chars is not None:
        chars = CharEmbedding(tables.chars, config.chars.fine_tune, config.chars.dropout)
        dim += chars.dim
    pretrained = _pretrained(config, lm, transformer)
    dim += pretrained.width
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
    lm_states, transformer_states = pretrained
    extra = tables.extra_embeddings
    return TorchTagger(
        chars, words, encoder, crf, model.dropout, lm_states, extra, pools, transformer_states
    )


class _Pretrained(NamedTuple):
    """The modules that give a tagger the states of pre-trained models."""

    lm: LanguageModelStates | None
    transformer: TransformerStates | None

    @property
    def width(self) -> int:
        """How many numbers they add to each character."""
        lm = 0 if self.lm is None else self.lm.project.out_features
        return lm + (0 if self.transformer is None else self.transformer.dim)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of their weights, by the names that these have in a tagger."""
        return {
            f"{part}.{name}": tuple(tensor.shape)
            for part, module in self._asdict().items()
            if module is not None
            for name, tensor in module.state_dict().items()
        }


def _pretrained(
    config: Config, lm: LanguageModel | None, transformer: Transformer | None
) -> _Pretrained:
    states = None
    if lm is not None:
        ahead, back = (lm.directions[direction] for direction in DIRECTIONS)
        states = LanguageModelStates(
            ahead, back, config.lm.dim, config.lm.norm, config.lm.dropout, lm.vocab[BREAK]
        )
    inputs = None if transformer is None else transformer.states(config.transformer)
    return _Pretrained(states, inputs)


def check_tagger(config: Config, indexer: Indexer, tagger: TorchTagger) -> None:
    """Raise a LookupError unless a folder with the weights of this tagger can be loaded."""
    pretrained = _Pretrained(tagger.lm, tagger.transformer)
    check_arrays(config, indexer, tagger.state_dict(), pretrained.shapes, pretrained.width)


def check_transformer(arrays: Mapping[str, Array], outline: nn.Module) -> None:
    """Raise a LookupError unless the arrays of a tagger have the weights of this transformer."""
    weights = outline.state_dict().items()
    shapes = {f"transformer.model.{name}": tuple(weight.shape) for name, weight in weights}
    check_shapes(shapes, arrays)


def _encoder(
    config: Config, dim: int, words: WordEmbedding | TwoSources | None, backend: str, fresh: bool
) -> Encoder:
    model = config.model
    if model.encoder == "none":
        return NoEncoder(dim)
    if model.encoder == "word":
        assert words is not None
        features = None
        if model.char_features in FEATURES:
            features = FEATURES[model.char_features](dim, model.char_width)
        dropout = config.words.dropout
        return WordLSTM(words.dim, model.hidden, features, dropout, model.layers, model.dropout)
    layers: list[Layer] = []
    for n in range(model.layers):
        width = 2 * model.hidden if n else dim
        if words is None or (n == 0 and model.first_layer == "char"):
            if model.coupled:
                layers.append(CoupledLSTM(width, model.hidden, backend, fresh))
            else:
                kind = CharRNN if model.cell == "tanh" else CharLSTM
                layers.append(kind(width, model.hidden))
        else:
            # Words of later layers may be read with the states of their characters, too.
            word_dim = words.dim + (width if n and model.whole_words else 0)
            layers.append(LatticeLSTM(width, word_dim, model.hidden, model.coupled, backend, fresh))
    return layers[0] if len(layers) == 1 else Stack(layers, model.dropout, model.whole_words)


def restore(
    config: Config,
    indexer: Indexer,
    arrays: Mapping[str, Array],
    lm: LanguageModel | None,
    backend: str,
    transformer: Transformer | None = None,
) -> TorchTagger:
    """Build the tagger of a folder's weights; a LookupError or RuntimeError tells a misfit."""
    # A training's random numbers must not depend on when a model is loaded.
    with torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            pretrained = _pretrained(config, lm, transformer)
        check_arrays(config, indexer, arrays, pretrained.shapes, pretrained.width)
        check_values(arrays)
        weights = {name: array for name, array in arrays.items() if not name.startswith(COMPOSER)}
        full = expanded(weights).items()
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in full}
        tables = _tables(config, indexer, tensors)
        tagger = assemble(config, indexer, tables, lm, backend, False, transformer)
    tagger.load_state_dict(tensors)
    return tagger


def _tables(config: Config, indexer: Indexer, tensors: Mapping[str, Tensor]) -> Tables:
    """The tables of vectors among the loaded tensors."""

    def words(name: str, dropout: float) -> WordEmbedding:
        return WordEmbedding(tensors[f"{name}.trained"], tensors[f"{name}.fixed"], dropout)

    tables = Tables(tensors["chars.vectors"] if config.reads_characters else None)
    extra = tables.extra_embeddings
    if indexer.subwords is not None:
        tables.words = words("words.words", config.words.dropout)
        tables.subwords = words("words.subwords", config.subwords.dropout)
    elif indexer.lexicon is not None or indexer.words is not None:
        source = config.lattice_sources[0] if indexer.words is None else config.words
        tables.words = words("words", source.dropout)
    if indexer.bichars is not None:
        extra[BICHARS] = words(f"extra_embeddings.{BICHARS}", config.bichars.dropout)
    tables.counts = tensors[COUNTS] if config.model.pools else None
    dropout = config.softwords.dropout
    for name, is_read in ((POSITIONS, config.model.softword), (POS, indexer.pos is not None)):
        if is_read:
            vectors = tensors[f"extra_embeddings.{name}.vectors"]
            extra[name] = CharEmbedding(vectors, dropout=dropout)
    return tables
