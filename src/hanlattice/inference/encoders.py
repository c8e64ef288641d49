"""The lattice and character encoders of `nn` in NumPy and C.

A character LSTM is the lattice LSTM without words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops import library
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, int8, native
from hanlattice.ops.lattice_lstm import trace as op
from hanlattice.ops.lattice_lstm.weights import weight_shapes
from hanlattice.text.lattice import Lattice

Floats = npt.NDArray[np.float32]


class NumpyLatticeLSTM(NamedTuple):
    """x [B, T, D], word_x [W, E] → [B, T, 2H]."""

    forward: LatticeLSTMWeights
    backward: LatticeLSTMWeights
    coupled: bool
    packed: Sequence[Floats] = ()  # the weights as C reads them, where there is a library

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        if self.packed:
            assert word_x is not None
            return native.directions(x, word_x, lattice, self[:2], self.coupled, self.packed)
        h: Floats = bidirectional(x, word_x, lattice, self.forward, self.backward, self.coupled)
        return h

    def traced(self, x: Floats, word_x: Floats, lattice: Lattice) -> list[op.Both]:
        """Both directions with the shares that made up their cells: a list of one layer."""
        return [op.bidirectional(x, word_x, lattice, (self.forward, self.backward), self.coupled)]


class NumpyLSTM(NumpyLatticeLSTM):
    """The same without words: x [B, T, D] → [B, T, 2H]."""

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        none = np.empty((0, 0), dtype=x.dtype)
        return super().__call__(x, none, lattice.without_words())


class NumpyStack(NamedTuple):
    """The first layer reads x, the others what the one below gives; all see the same words. See
    `nn.lattice_lstm`.
    """

    layers: Sequence[NumpyLatticeLSTM]
    whole_words: bool = False
    fast: Sequence[int8.Int8Layer] = ()  # the same layers with weights of 8 bits

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        if self.fast:
            return int8.run_layers(self.fast, x, word_x, lattice, self.whole_words)
        for n, layer in enumerate(self.layers):
            x = layer(x, self._seen(n, x, word_x, lattice), lattice)
        return x

    def _seen(self, n: int, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats | None:
        """The words as layer n sees them."""
        if word_x is None or not n or not self.whole_words:
            return word_x
        return int8.with_states(word_x, x, lattice)

    def traced(self, x: Floats, word_x: Floats, lattice: Lattice) -> list[op.Both]:
        """What each lattice layer mixed its cells of, from the lowest up."""
        found: list[op.Both] = []
        for n, layer in enumerate(self.layers):
            seen = self._seen(n, x, word_x, lattice)
            if isinstance(layer, NumpyLSTM):
                x = layer(x, seen, lattice)
            else:
                assert seen is not None
                found += layer.traced(x, seen, lattice)
                x = np.concatenate([direction.h for direction in found[-1]], axis=2)
        return found


def plain_lstm(forward: Sequence[Floats], backward: Sequence[Floats]) -> NumpyLSTM:
    """Of nn.LSTM's weights for each direction: by input [4H, D], by state [4H, H], two biases;
    gates are i, f, g, o.
    """
    return NumpyLSTM(_plain(*forward), _plain(*backward), False)


def _plain(by_input: Floats, by_state: Floats, bias: Floats, other: Floats) -> LatticeLSTMWeights:
    H = by_state.shape[1]
    order = np.concatenate([np.arange(2 * H), np.arange(3 * H, 4 * H), np.arange(2 * H, 3 * H)])
    by_input, by_state = (np.ascontiguousarray(part[order].T) for part in (by_input, by_state))
    return without_words(by_input, by_state, (bias + other)[order], coupled=False)


def without_words(
    by_input: Floats, by_state: Floats, bias: Floats, coupled: bool
) -> LatticeLSTMWeights:
    """Weights of characters alone; those of words are zero, and never used."""
    shapes = weight_shapes(by_input.shape[0], 0, by_state.shape[0], coupled)
    return LatticeLSTMWeights(
        by_input, by_state, bias, *(np.zeros(shape, dtype=np.float32) for shape in shapes[3:])
    )


def packed(encoder: NumpyLatticeLSTM | NumpyStack, fast: bool) -> NumpyLatticeLSTM | NumpyStack:
    """The encoder with its weights as C reads them, if there is a library; with `fast`, in 8 bits
    where it can be.
    """
    stack = encoder if isinstance(encoder, NumpyStack) else NumpyStack([encoder])
    if fast and all(int8.available(layer[:2]) for layer in stack.layers):
        layers = []
        for layer in stack.layers:
            reads_words = not isinstance(layer, NumpyLSTM)
            layers.append(int8.int8_layer(layer[:2], layer.coupled, reads_words))
        return stack._replace(fast=layers)
    ready = stack._replace(layers=[_packed(layer) for layer in stack.layers])
    return ready if isinstance(encoder, NumpyStack) else ready.layers[0]


def _packed(layer: NumpyLatticeLSTM) -> NumpyLatticeLSTM:
    has_library = library.available(*layer.forward, *layer.backward)
    return layer._replace(packed=native.pack(layer[:2], layer.coupled)) if has_library else layer
