"""Layers of the lattice LSTM with weights of 8 bits, in C: for inference, several times as fast as
`native`.

A matrix has whole numbers from −127 to 127 and a scale for each column; inputs and states are
rounded too, to 8 bits where the processor multiplies bytes (AVX512-VNNI, ARM's dot product), else
to 14. A layer leaves its states in that form for the layer above.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops import library
from hanlattice.ops.lattice_lstm import native
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, gate_count
from hanlattice.text.lattice import Lattice

Floats = npt.NDArray[np.float32]

SLACK = 4  # bytes that C may read after the last row


class Int8Rows(NamedTuple):
    """Rows of whole numbers, each with its scale. States of a layer have none: they lie between −1
    and 1.
    """

    numbers: npt.NDArray[np.uint8]  # the bytes
    scale: Floats | None
    shape: tuple[int, ...]  # of the numbers


class SmallLayer(NamedTuple):
    """Both directions of a layer. One that does not read words has none to read."""

    weights: Sequence[LatticeLSTMWeights]
    packed: Sequence[npt.NDArray[Any]]
    coupled: bool
    reads_words: bool


def small_layer(
    weights: Sequence[LatticeLSTMWeights], coupled: bool, reads_words: bool = True
) -> SmallLayer:
    return SmallLayer(weights, native.pack(weights, coupled, "small_pack"), coupled, reads_words)


def available(weights: Sequence[LatticeLSTMWeights]) -> bool:
    """Whether there is a library that is faster so, and these weights are of a kind and size that
    it takes.
    """
    if not library.available(*(part for each in weights for part in each)):
        return False
    first = weights[0].char_input
    most = library.function("small_most", np.dtype(np.float32))()
    rows = max(len(part) for each in weights for part in each if part.ndim == 2)
    return first.dtype == np.float32 and rows <= most


def run_layers(
    layers: Sequence[SmallLayer],
    x: Floats,
    word_x: Floats | None,
    lattice: Lattice,
    whole_words: bool = False,
) -> Floats:
    """One layer after the other: x [B, T, D], word_x [W, E] → [B, T, 2H]. `whole_words` is that of
    `Stack`.
    """
    rows = round_rows(x)
    nothing = np.empty((0, 0), dtype=np.float32)
    words = round_rows(nothing if word_x is None else word_x)
    for n, layer in enumerate(layers):
        if n and whole_words and word_x is not None:
            words = round_rows(with_states(word_x, x, lattice))
        read = (
            (words, lattice)
            if layer.reads_words
            else (round_rows(nothing), lattice.without_words())
        )
        rows, x = Int8KernelCall(rows, *read, layer).run(floats=whole_words or n == len(layers) - 1)
    return x


def with_states(word_x: Floats, x: Floats, lattice: Lattice) -> Floats:
    """A word's vector beside the states that have just read all of it, in both directions."""
    H = x.shape[2] // 2
    b = lattice.sentence
    return np.concatenate([word_x, x[b, lattice.end - 1, :H], x[b, lattice.start, H:]], axis=1)


def round_rows(values: Floats) -> Int8Rows:
    """[…, K]: every row by itself."""
    values = np.ascontiguousarray(values)
    kinds = (ctypes.c_void_p, ctypes.c_int64)
    count = math.prod(
        values.shape[:-1]
    )  # also of rows without numbers: C writes and reads the scale of each
    round_ = library.function("small_round", values.dtype, *kinds, kinds[1], kinds[0], kinds[0])
    numbers = np.empty(values.size * number_bytes() + SLACK, dtype=np.uint8)
    scale = np.empty(count, dtype=np.float32)
    round_(values.ctypes.data, count, values.shape[-1], numbers.ctypes.data, scale.ctypes.data)
    return Int8Rows(numbers, scale, values.shape)


def number_bytes() -> int:
    """How many bytes a number of a row has: 1 or 2."""
    return library.function("small_bytes", np.dtype(np.float32))()


class Int8KernelCall(native.KernelCall):
    """One layer: its plan and tasks are those of `native`."""

    def __init__(self, x: Int8Rows, word_x: Int8Rows, lattice: Lattice, layer: SmallLayer) -> None:
        self.inputs = (x, word_x)
        self.dtype = np.dtype(np.float32)
        self.lattice = lattice
        self.packed = layer.packed
        self.N = len(layer.weights)
        self.G = gate_count(layer.coupled)
        self.H = layer.weights[0].hidden
        self._read(x.shape, word_x.shape)

    def run(self, floats: bool) -> tuple[Int8Rows, Floats]:
        """The states [B, T, N·H] as the layer above reads them, and as floats if these are wanted."""
        shape = (self.B, self.T, self.N * self.H)
        size = number_bytes()
        numbers = np.empty(np.prod(shape, dtype=np.int64) * size + SLACK, dtype=np.uint8)
        h = np.zeros(shape if floats else 0, dtype=np.float32)
        x, word_x = self.inputs
        shared = {
            "x": x.numbers.ctypes.data,
            "word_x": word_x.numbers.ctypes.data,
            "x_scale": None if x.scale is None else x.scale.ctypes.data,
            "word_scale": None if word_x.scale is None else word_x.scale.ctypes.data,
        }
        tasks = [
            self._new_task(
                n,
                **shared,
                h=h.ctypes.data + n * self.H * h.itemsize if floats else None,
                h_small=numbers.ctypes.data + n * self.H * size,
            )
            for n in range(self.N)
        ]
        if self.C:
            self._run("small_forward", tasks)
        return Int8Rows(numbers, None, shape), h
