"""The lattice and character encoders of `nn` in NumPy and C.

A character LSTM is a lattice LSTM without words.
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
    """A bidirectional layer: characters [B, T, D] and words [W, E] become [B, T, 2H]."""

    forward: LatticeLSTMWeights
    backward: LatticeLSTMWeights
    coupled: bool
    packed: Sequence[Floats] = ()  # the weights in the layout of the C library, if it is there

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        if self.packed:
            assert word_x is not None
            return native.directions(x, word_x, lattice, self[:2], self.coupled, self.packed)
        h: Floats = bidirectional(x, word_x, lattice, self.forward, self.backward, self.coupled)
        return h

    def traced(self, x: Floats, word_x: Floats, lattice: Lattice) -> list[op.Both]:
        """Return both directions with what went into their cells, as a list of one layer."""
        return [op.bidirectional(x, word_x, lattice, (self.forward, self.backward), self.coupled)]


class NumpyLSTM(NumpyLatticeLSTM):
    """A layer that reads no words: characters [B, T, D] become [B, T, 2H]."""

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        none = np.empty((0, 0), dtype=x.dtype)
        return super().__call__(x, none, lattice.without_words())


class NumpyStack(NamedTuple):
    """Layers that read the same words, and characters from the layer below.

    The torch twin is in `nn.lattice_lstm`.
    """

    layers: Sequence[NumpyLatticeLSTM]
    whole_words: bool = False  # upper layers also read the states at both ends of a word
    fast: Sequence[int8.Int8Layer] = ()  # the same layers with weights of 8 bits

    def __call__(self, x: Floats, word_x: Floats | None, lattice: Lattice) -> Floats:
        if self.fast:
            return int8.run_layers(self.fast, x, word_x, lattice, self.whole_words)
        for n, layer in enumerate(self.layers):
            seen = word_x
            if n and self.whole_words and word_x is not None:
                seen = int8.with_states(word_x, x, lattice)
            x = layer(x, seen, lattice)
        return x

    def traced(self, x: Floats, word_x: Floats, lattice: Lattice) -> list[op.Both]:
        """Return what went into the cells of each lattice layer, from the lowest up."""
        layers: list[op.Both] = []
        for n, layer in enumerate(self.layers):
            seen = int8.with_states(word_x, x, lattice) if n and self.whole_words else word_x
            if isinstance(layer, NumpyLSTM):
                x = layer(x, seen, lattice)
            else:
                layers += layer.traced(x, seen, lattice)
                x = np.concatenate([direction.h for direction in layers[-1]], axis=2)
        return layers


def plain_lstm(forward: Sequence[Floats], backward: Sequence[Floats]) -> NumpyLSTM:
    """Build a layer from the weights of an nn.LSTM.

    Args:
        forward: The weights by input [4H, D] and by state [4H, H], and two biases [4H]; gates are
            in the order i, f, g, o.
        backward: The same for the other direction.
    """
    return NumpyLSTM(_plain(*forward), _plain(*backward), False)


def _plain(by_input: Floats, by_state: Floats, bias: Floats, other: Floats) -> LatticeLSTMWeights:
    H = by_state.shape[1]
    # Ours are in the order i, f, o, g.
    order = np.concatenate([np.arange(2 * H), np.arange(3 * H, 4 * H), np.arange(2 * H, 3 * H)])
    by_input, by_state = (np.ascontiguousarray(part[order].T) for part in (by_input, by_state))
    return without_words(by_input, by_state, (bias + other)[order], coupled=False)


def without_words(
    by_input: Floats, by_state: Floats, bias: Floats, coupled: bool
) -> LatticeLSTMWeights:
    """Return weights of a layer that reads no words: those for words are 0, and never used."""
    shapes = weight_shapes(by_input.shape[0], 0, by_state.shape[0], coupled)
    zeros = (np.zeros(shape, dtype=np.float32) for shape in shapes[3:])
    return LatticeLSTMWeights(by_input, by_state, bias, *zeros)


def packed(encoder: NumpyLatticeLSTM | NumpyStack, fast: bool) -> NumpyLatticeLSTM | NumpyStack:
    """Return the encoder with weights in the layout of the C library, if that is there.

    With `fast` the weights have 8 bits, where the processor and the layers allow it.
    """
    stack = encoder if isinstance(encoder, NumpyStack) else NumpyStack([encoder])
    if fast and all(int8.available(layer[:2]) for layer in stack.layers):
        small = [
            int8.int8_layer(layer[:2], layer.coupled, not isinstance(layer, NumpyLSTM))
            for layer in stack.layers
        ]
        return stack._replace(fast=small)
    layers = []
    for layer in stack.layers:
        if library.available(*layer.forward, *layer.backward):
            layer = layer._replace(packed=native.pack(layer[:2], layer.coupled))
        layers.append(layer)
    return stack._replace(layers=layers) if isinstance(encoder, NumpyStack) else layers[0]
