"""From a configuration and the arrays of a file to the runtime's tagger. `modules.py` is its twin
for torch.
"""

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
    """The arrays of a file by their names, once `layout.check_arrays` has found all of them right."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays
        self.parameters = 0

    def full(self, name: str) -> Array:
        """Expanded to floats."""
        found = expand(self._arrays, name)
        self.parameters += found.size
        return np.ascontiguousarray(found, dtype=np.float32)

    def table(self, name: str, counts: bool = True) -> VectorTable:
        """As it is stored."""
        found = table(self._arrays, name)
        self.parameters += len(found) * found.dim if counts else 0
        return found

    def words(self, name: str) -> WordTable:
        return WordTable(self.table(f"{name}.trained"), self.table(f"{name}.fixed", counts=False))

    def plain(self, name: str) -> Array:
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
    """The tagger of a folder's weights, for the CPU; with `fast` in 8 bits. A LookupError says what
    does not fit.
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
    extra_embeddings: dict[str, VectorTable | WordTable] = {}
    if indexer.bichars is not None:
        extra_embeddings[BICHARS] = weights.words(f"extra_embeddings.{BICHARS}")
    for name, is_read in ((POSITIONS, model.softword), (POS, indexer.pos is not None)):
        if is_read:
            extra_embeddings[name] = weights.table(f"extra_embeddings.{name}.vectors")
    pools = (
        NumpyWordPools(weights.plain(COUNTS), weights.full("pools.maps")) if model.pools else None
    )
    encoder = packed(_encoder(config, weights), fast)
    crf = NumpyCRF(
        indexer.tags,
        indexer.scheme,
        *(weights.full(f"crf.{name}") for name in ("start", "transitions", "end")),
    )
    weight = weights.full("output.weight")
    bias = weights.full("output.bias")
    return NumpyTagger(
        chars, words, encoder, crf, weight, bias, extra_embeddings, pools, weights.parameters
    )


def _encoder(config: Config, weights: Weights) -> NumpyLatticeLSTM | NumpyStack:
    model = config.model
    stack: list[NumpyLatticeLSTM] = []
    for n in range(model.layers):
        name = f"encoder.layers.{n}" if model.layers > 1 else "encoder"
        if model.encoder == "char" or (n == 0 and model.first_layer == "char"):
            stack.append(_char_layer(config, weights, name))
        else:
            parts = LatticeLSTMWeights._fields
            ahead, back = (
                LatticeLSTMWeights(
                    *(weights.full(f"{name}.{way}_weights.{part}") for part in parts)
                )
                for way in ("forward", "backward")
            )
            stack.append(NumpyLatticeLSTM(ahead, back, model.coupled))
    return stack[0] if len(stack) == 1 else NumpyStack(stack, model.whole_words)


def _char_layer(config: Config, weights: Weights, name: str) -> NumpyLSTM:
    if config.model.coupled:
        ahead, back = (
            without_words(
                weights.full(f"{name}.{way}_weights.char_input"),
                weights.full(f"{name}.{way}_weights.char_hidden"),
                weights.full(f"{name}.{way}_weights.char_bias"),
                coupled=True,
            )
            for way in ("forward", "backward")
        )
        return NumpyLSTM(ahead, back, True)
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    forward = [weights.full(f"{name}.lstm.{part}_l0") for part in parts]
    backward = [weights.full(f"{name}.lstm.{part}_l0_reverse") for part in parts]
    return plain_lstm(forward, backward)
