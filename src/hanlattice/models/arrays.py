"""From a configuration and the arrays of a file to the runtime's tagger. `modules.py` is its twin for torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.batch import Indexer
from hanlattice.batch.indexer import BICHARS, POS, POSITIONS
from hanlattice.config import Config
from hanlattice.errors import ModelError
from hanlattice.models.compress import SCALE, expand, table
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights
from hanlattice.ops.lattice_lstm.weights import weight_shapes
from hanlattice.runtime.crf import CRF
from hanlattice.runtime.encoders import (
    LSTM,
    RNN,
    CharCNN,
    Features,
    LatticeLSTM,
    Layer,
    SentenceCharLSTM,
    Stack,
    WordCharLSTM,
    WordLSTM,
    packed,
    plain_lstm,
    without_words,
)
from hanlattice.runtime.tables import Table, TwoSources, WordPools, WordTable
from hanlattice.runtime.tagger import ArrayTagger
from hanlattice.text.segmenter import PLACES

Array = npt.NDArray[Any]


class Weights:
    """The arrays of a file by their names: each is asked for once, with its shape, and none may be left over."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays, self._left, self.parameters = arrays, set(arrays), 0

    def full(self, name: str, *shape: int) -> Array:
        """Expanded to floats."""
        found = expand(self._arrays, self._take(name))
        if found.shape != shape:
            raise LookupError(f"{name} must be {list(shape)}, not {list(found.shape)}")
        self.parameters += found.size
        return np.ascontiguousarray(found, dtype=np.float32)

    def table(self, name: str, counts: bool = True) -> Table:
        """As it is."""
        found = table(self._arrays, self._take(name))
        if found.numbers.ndim != 2 or (found.scale is not None and found.scale.shape != (len(found), 1)):
            raise LookupError(f"{name} must be a table, not {list(found.numbers.shape)}")
        self.parameters += len(found) * found.dim if counts else 0
        return found

    def words(self, name: str) -> WordTable:
        trained, fixed = self.table(f"{name}.trained"), self.table(f"{name}.fixed", counts=False)
        if trained.dim != fixed.dim:
            raise LookupError(f"{name}.trained has {trained.dim} columns, and {name}.fixed {fixed.dim}")
        return WordTable(trained, fixed)

    def plain(self, name: str) -> Array:
        return self._arrays[self._take(name)]

    def finish(self) -> None:
        if self._left:
            raise LookupError(f"unexpected {', '.join(sorted(self._left))}")

    def _take(self, name: str) -> str:
        if name not in self._left:
            raise LookupError(f"missing {name}")
        self._left -= {name, name + SCALE}
        return name


def restore_arrays(
    config: Config, indexer: Indexer, arrays: Mapping[str, Array], folder: Path, fast: bool = False
) -> ArrayTagger:
    """The tagger of a folder's weights, for the CPU; with `fast` in 8 bits. A LookupError says what does not fit."""
    model, weights, counts = config.model, Weights(arrays), dict[str, int]()
    chars: Table | None = None
    words: WordTable | TwoSources | None = None
    if config.reads_characters:
        chars = weights.table("chars.vectors")
        counts["chars"] = len(chars)
    if indexer.subwords is not None:
        words = TwoSources(weights.words("words.words"), weights.words("words.subwords"))
        counts |= {"words": len(words.words), "subwords": len(words.subwords)}
    elif indexer.lexicon is not None or indexer.words is not None:
        words = weights.words("words")
        counts["words"] = words.known
    beside: dict[str, Table | WordTable] = {}
    if indexer.bichars is not None:
        beside[BICHARS] = weights.words(f"beside.{BICHARS}")
    for name, there in ((POSITIONS, model.softword), (POS, indexer.pos is not None)):
        if there:
            beside[name] = weights.table(f"beside.{name}.vectors")
    check_rows(counts | {name: len(each) for name, each in beside.items()}, indexer, folder)
    dim = (0 if chars is None else chars.dim) + sum(each.dim for each in beside.values())
    pools = None
    if model.pools:
        assert words is not None
        pools = WordPools(weights.plain("pools.counts"), weights.full("pools.maps", words.dim, 3 * config.pools.dim))
        dim += pools.dim
    encoder = packed(_encoder(config, weights, dim, None if words is None else words.dim), fast)
    K, width = len(indexer.tags), 2 * model.hidden
    parts = [
        weights.full(f"crf.{name}", *shape) for name, shape in (("start", (K,)), ("transitions", (K, K)), ("end", (K,)))
    ]
    crf = CRF(indexer.tags, indexer.scheme, *parts)
    weight, bias = weights.full("output.weight", K, width), weights.full("output.bias", K)
    weights.finish()
    return ArrayTagger(chars, words, encoder, crf, weight, bias, beside, pools, weights.parameters)


def check_rows(counts: Mapping[str, int], indexer: Indexer, folder: Path) -> None:
    """Each vocabulary must have as many symbols as vectors; else the files belong to different models."""
    words = indexer.lexicon if indexer.words is None else indexer.words
    known = {"chars": indexer.vocab, "words": words, "subwords": indexer.subwords}
    known |= {BICHARS: indexer.bichars, POS: indexer.pos}
    for name, called in _CALLED.items():
        symbols = PLACES if name == POSITIONS else known[name]
        if name in counts and symbols is not None and counts[name] != len(symbols):
            raise ModelError(f"{folder}: {counts[name]} rows of vectors for {len(symbols)} {called}")


_CALLED = {"chars": "characters", "words": "words", "subwords": "subwords"}
_CALLED |= {BICHARS: "bigrams", POS: "parts of speech", POSITIONS: "places in a word"}


def _encoder(config: Config, weights: Weights, dim: int, words: int | None) -> Layer | Stack | WordLSTM:
    model = config.model
    if model.encoder == "word":
        assert words is not None
        features = _features(config, weights, dim)
        width = words + (0 if features is None else model.char_width)
        layers = [
            _torch_lstm(weights, "encoder.lstm", width if n == 0 else 2 * model.hidden, model.hidden, n)
            for n in range(model.layers)
        ]
        return WordLSTM(layers, features)
    stack: list[Layer] = []
    for n in range(model.layers):
        name, width = f"encoder.layers.{n}" if model.layers > 1 else "encoder", 2 * model.hidden if n else dim
        if words is None or (n == 0 and model.first_layer == "char"):
            stack.append(_char_layer(config, weights, name, width))
        else:
            word_dim = words + (width if n and model.whole_words else 0)
            shapes = weight_shapes(width, word_dim, model.hidden, model.coupled)
            named = list(zip(LatticeLSTMWeights._fields, shapes, strict=True))
            ahead, back = (
                LatticeLSTMWeights(*(weights.full(f"{name}.{way}_weights.{part}", *shape) for part, shape in named))
                for way in ("forward", "backward")
            )
            stack.append(LatticeLSTM(ahead, back, model.coupled))
    return stack[0] if len(stack) == 1 else Stack(stack, model.whole_words)


def _char_layer(config: Config, weights: Weights, name: str, dim: int) -> Layer:
    model, H = config.model, config.model.hidden
    if model.coupled:
        by_input, by_state, bias = weight_shapes(dim, 0, H, True)[:3]
        ahead, back = (
            without_words(
                weights.full(f"{name}.{way}_weights.char_input", *by_input),
                weights.full(f"{name}.{way}_weights.char_hidden", *by_state),
                weights.full(f"{name}.{way}_weights.char_bias", *bias),
                coupled=True,
            )
            for way in ("forward", "backward")
        )
        return LSTM(ahead, back, True)
    if model.cell != "tanh":
        return _torch_lstm(weights, f"{name}.lstm", dim, H)
    ahead_rnn, back_rnn = (
        (np.ascontiguousarray(by_input.T), np.ascontiguousarray(by_state.T), bias + other)
        for by_input, by_state, bias, other in _torch_weights(weights, f"{name}.lstm", dim, H, gates=1)
    )
    return RNN(ahead_rnn, back_rnn)


def _torch_lstm(weights: Weights, name: str, dim: int, hidden: int, layer: int = 0) -> LSTM:
    return plain_lstm(*_torch_weights(weights, name, dim, hidden, 4, layer))


def _torch_weights(
    weights: Weights, name: str, dim: int, hidden: int, gates: int, layer: int = 0
) -> tuple[list[Array], list[Array]]:
    """Those of a bidirectional nn.LSTM or nn.RNN, by its names for them: of each direction four."""
    wide = gates * hidden
    shapes = {"weight_ih": (wide, dim), "weight_hh": (wide, hidden), "bias_ih": (wide,), "bias_hh": (wide,)}
    ahead, back = (
        [weights.full(f"{name}.{part}_l{layer}{way}", *shape) for part, shape in shapes.items()]
        for way in ("", "_reverse")
    )
    return ahead, back


def _features(config: Config, weights: Weights, dim: int) -> Features | None:
    kind, width, name = config.model.char_features, config.model.char_width, "encoder.features"
    if kind == "cnn":
        return CharCNN(
            weights.full(f"{name}.filter.weight", width, 3 * dim), weights.full(f"{name}.filter.bias", width)
        )
    if kind == "lstm":
        return WordCharLSTM(_torch_lstm(weights, f"{name}.lstm", dim, width // 2))
    if kind == "sentence-lstm":
        boundary = weights.full(f"{name}.boundary", dim)
        return SentenceCharLSTM(_torch_lstm(weights, f"{name}.lstm", dim, width // 2), boundary)
    return None
