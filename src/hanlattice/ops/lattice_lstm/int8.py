"""The lattice LSTM with weights of 8 bits, in C: for inference, much faster than `native`.

A matrix has integers from −127 to 127 and a scale for each column. Inputs and states are rounded
too: to 8 bits where the processor multiplies bytes (AVX512-VNNI, ARM's dot product), else to 14. A
layer leaves its states in that form for the layer above. The C functions are called `small_…`.
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

# C loads whole words of memory, so it may read so many bytes after the last row.
SLACK = 4


class Int8Rows(NamedTuple):
    """Rows of integers, each with its scale. States lie between −1 and 1 and need no scale."""

    # Bytes, of which an integer has `number_bytes()`.
    numbers: npt.NDArray[np.uint8]
    scale: Floats | None
    # The shape as integers.
    shape: tuple[int, ...]


class Int8Layer(NamedTuple):
    """Both directions of a layer, and whether it reads words."""

    weights: Sequence[LatticeLSTMWeights]
    packed: Sequence[npt.NDArray[Any]]
    coupled: bool
    reads_words: bool


def int8_layer(
    weights: Sequence[LatticeLSTMWeights], coupled: bool, reads_words: bool = True
) -> Int8Layer:
    """Round the weights of both directions of a layer."""
    return Int8Layer(weights, native.pack(weights, coupled, "small_pack"), coupled, reads_words)


def available(weights: Sequence[LatticeLSTMWeights]) -> bool:
    """Return whether 8 bits are faster on this machine and the C library takes these weights."""
    parts = [part for direction in weights for part in direction]
    if not library.available(*parts) or parts[0].dtype != np.float32:
        return False
    # A longer row could overflow the integer that sums its products. It is 0 where floats are as
    # fast.
    longest = library.function("small_most", np.dtype(np.float32))()
    return max(len(part) for part in parts if part.ndim == 2) <= longest


def run_layers(
    layers: Sequence[Int8Layer],
    x: Floats,
    word_x: Floats | None,
    lattice: Lattice,
    whole_words: bool = False,
) -> Floats:
    """Compute one layer after the other.

    Args:
        layers: From the lowest up.
        x: [B, T, D].
        word_x: [W, E], or None if no layer reads words.
        lattice: The words of each sentence.
        whole_words: Whether layers above the first read words `with_states`.

    Returns:
        The states of the last layer, [B, T, 2H].
    """
    rows = round_rows(x)
    nothing = np.empty((0, 0), dtype=np.float32)
    words = round_rows(nothing if word_x is None else word_x)
    for n, layer in enumerate(layers):
        if n and whole_words and word_x is not None:
            words = round_rows(with_states(word_x, x, lattice))
        if layer.reads_words:
            call = Int8KernelCall(rows, words, lattice, layer)
        else:
            call = Int8KernelCall(rows, round_rows(nothing), lattice.without_words(), layer)
        rows, x = call.run(floats=whole_words or n == len(layers) - 1)
    return x


def with_states(word_x: Floats, x: Floats, lattice: Lattice) -> Floats:
    """Return each word's vector beside the states that have just read it, in both directions."""
    H = x.shape[2] // 2
    b = lattice.sentence
    return np.concatenate([word_x, x[b, lattice.end - 1, :H], x[b, lattice.start, H:]], axis=1)


def round_rows(values: Floats) -> Int8Rows:
    """Round values [..., K], each row with a scale of its own."""
    values = np.ascontiguousarray(values)
    # Not values.size // K: C also writes and reads the scale of a row without numbers.
    count = math.prod(values.shape[:-1])
    numbers = np.empty(values.size * number_bytes() + SLACK, dtype=np.uint8)
    scale = np.empty(count, dtype=np.float32)
    pointer = ctypes.c_void_p
    number = ctypes.c_int64
    write = library.function("small_round", values.dtype, pointer, number, number, pointer, pointer)
    write(values.ctypes.data, count, values.shape[-1], numbers.ctypes.data, scale.ctypes.data)
    return Int8Rows(numbers, scale, values.shape)


def number_bytes() -> int:
    """Return how many bytes an integer of a row has: 1 or 2."""
    return library.function("small_bytes", np.dtype(np.float32))()


class Int8KernelCall(native.KernelCall):
    """One layer. Plan and groups of sentences are those of a `KernelCall`."""

    def __init__(self, x: Int8Rows, word_x: Int8Rows, lattice: Lattice, layer: Int8Layer) -> None:
        self.inputs: dict[str, npt.NDArray[Any]] = {"x": x.numbers, "word_x": word_x.numbers}
        if x.scale is not None:
            self.inputs["x_scale"] = x.scale
        if word_x.scale is not None:
            self.inputs["word_scale"] = word_x.scale
        self.dtype = np.dtype(np.float32)
        self.packed = layer.packed
        self.N = len(layer.weights)
        self.G = gate_count(layer.coupled)
        self.H = layer.weights[0].hidden
        self._read(lattice, x.shape, word_x.shape)

    def run(self, floats: bool) -> tuple[Int8Rows, Floats]:
        """Return the states [B, T, N·H] for the layer above, and as floats if these are wanted."""
        shape = (self.B, self.T, self.N * self.H)
        size = number_bytes()
        numbers = np.empty(math.prod(shape) * size + SLACK, dtype=np.uint8)
        h = np.zeros(shape if floats else 0, dtype=np.float32)
        inputs = native.addresses(self.inputs)
        tasks = []
        for n in range(self.N):
            # A direction has H columns of its own in both results.
            column = n * self.H
            outputs = {"h_small": numbers.ctypes.data + column * size}
            if floats:
                outputs["h"] = h.ctypes.data + column * h.itemsize
            tasks.append(self._task(n, **inputs, **outputs))
        if self.C:
            self._run("small_forward", tasks)
        return Int8Rows(numbers, None, shape), h
