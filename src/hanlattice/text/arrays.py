"""Flat arrays: whole numbers that nobody changes, and rows of different lengths one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def whole_numbers(name: str, values: Any) -> Ints:
    """A read-only copy with one dimension: the caller's own stays writable. `name` is for the errors."""
    array = np.array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, not {array.dtype}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    array.flags.writeable = False
    return array


def cells(lengths: Ints) -> tuple[Ints, Ints]:
    """(row, column) of everything in rows of these lengths, row by row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
