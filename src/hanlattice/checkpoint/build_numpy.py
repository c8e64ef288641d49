"""Build the tagger of NumPy and C from settings and arrays; `build_torch` does so for torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.checkpoint.plan import check_arrays
from hanlattice.checkpoint.quantize import COUNTS, check_values, expand, table
from hanlattice.config import Config
from hanlattice.features import Indexer
from hanlattice.features.indexer import BICHARS, POS, POSITIONS
from hanlattice.inference.crf import NumpyCRF
from hanlattice.inference.encoders import (
    NumpyLatticeLSTM,
    NumpyLSTM,
    NumpyStack,
    packed,
    plain_lstm,
    without_words,
)
from hanlattice.inference.tables import NumpyTwoSources, NumpyWordPools, VectorTable, WordTable
from hanlattice.inference.tagger import NumpyTagger
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights

Array = npt.NDArray[Any]


class Weights:
    """The arrays of a file by their names, which `plan.check_arrays` has checked."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        # How many trained numbers were taken.
        self.parameters = 0

    def full(self, name: str) -> Array:
        """Return an array expanded to float32."""
        array = expand(self._arrays, name)
        self.parameters += array.size
        return np.ascontiguousarray(array, dtype=np.float32)

    def table(self, name: str, counts: bool = True) -> VectorTable:
        """Return a table as it is stored; `counts` tells whether it was trained."""
        rows = table(self._arrays, name)
        self.parameters += len(rows) * rows.dim if counts else 0
        return rows

    def words(self, name: str) -> WordTable:
        """Return a table of trained and fixed rows."""
        return WordTable(self.table(f"{name}.trained"), self.table(f"{name}.fixed", counts=False))

    def plain(self, name: str) -> Array:
        """Return an array that is no weight, unchanged."""
        return self._arrays[name]


def runs_in_numpy(config: Config) -> bool:
    """Tell whether NumPy and C have all parts of a model.

    Word models, tanh cells, language models and transformers need torch.
    """
    model = config.model
    has_encoder = model.encoder in ("char", "lattice") and (model.coupled or model.cell == "lstm")
    return has_encoder and not (config.lm.model or config.transformer.model)


def restore_arrays(
    config: Config, indexer: Indexer, arrays: Mapping[str, Array], fast: bool = False
) -> NumpyTagger:
    """Build the tagger of a folder's weights; a LookupError names one that does not fit.

    With `fast` it multiplies in 8 bits.
    """
    check_arrays(config, indexer, arrays)
    check_values(arrays)
    model = config.model
    weights = Weights(arrays)
    chars = weights.table("chars.vectors")
    words: WordTable | NumpyTwoSources | None = None
    if indexer.subwords is not None:
        words = NumpyTwoSources(weights.words("words.words"), weights.words("words.subwords"))
    elif indexer.lexicon is not None:
        words = weights.words("words")
    extra: dict[str, VectorTable | WordTable] = {}
    if indexer.bichars is not None:
        extra[BICHARS] = weights.words(f"extra_embeddings.{BICHARS}")
    for name, is_read in ((POSITIONS, model.softword), (POS, indexer.pos is not None)):
        if is_read:
            extra[name] = weights.table(f"extra_embeddings.{name}.vectors")
    pools = None
    if model.pools:
        pools = NumpyWordPools(weights.plain(COUNTS), weights.full("pools.maps"))
    encoder = packed(_encoder(config, weights), fast)
    scores = [weights.full(f"crf.{name}") for name in ("start", "transitions", "end")]
    crf = NumpyCRF(indexer.tags, indexer.scheme, *scores)
    weight = weights.full("output.weight")
    bias = weights.full("output.bias")
    return NumpyTagger(chars, words, encoder, crf, weight, bias, extra, pools, weights.parameters)


def _encoder(config: Config, weights: Weights) -> NumpyLatticeLSTM | NumpyStack:
    model = config.model
    stack: list[NumpyLatticeLSTM] = []
    for n in range(model.layers):
        name = f"encoder.layers.{n}" if model.layers > 1 else "encoder"
        if model.encoder == "char" or (n == 0 and model.first_layer == "char"):
            stack.append(_char_layer(model.coupled, weights, name))
        else:
            parts = LatticeLSTMWeights._fields
            ahead, back = (
                LatticeLSTMWeights(*(weights.full(f"{name}.{way}.{part}") for part in parts))
                for way in ("forward_weights", "backward_weights")
            )
            stack.append(NumpyLatticeLSTM(ahead, back, model.coupled))
    return stack[0] if len(stack) == 1 else NumpyStack(stack, model.whole_words)


def _char_layer(coupled: bool, weights: Weights, name: str) -> NumpyLSTM:
    if coupled:
        # A lattice LSTM that finds no words, so it has the weights of characters alone.
        directions = []
        for way in ("forward_weights", "backward_weights"):
            by_input = weights.full(f"{name}.{way}.char_input")
            by_state = weights.full(f"{name}.{way}.char_hidden")
            bias = weights.full(f"{name}.{way}.char_bias")
            directions.append(without_words(by_input, by_state, bias, coupled=True))
        ahead, back = directions
        return NumpyLSTM(ahead, back, True)
    # The names of torch's nn.LSTM.
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    forward = [weights.full(f"{name}.lstm.{part}_l0") for part in parts]
    backward = [weights.full(f"{name}.lstm.{part}_l0_reverse") for part in parts]
    return plain_lstm(forward, backward)
