"""Flat arrays: whole numbers that nobody changes, and rows of different lengths one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Value = TypeVar("Value")


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


def taken_as_they_are(kind: type[Value], names: Sequence[str], arrays: Sequence[Ints]) -> Value:
    """A frozen value of arrays of int64 that follow from checked ones: without its checks, and with nothing kept."""
    value = object.__new__(kind)
    for name, array in zip(names, arrays, strict=True):
        array.flags.writeable = False
        object.__setattr__(value, name, array)
    object.__setattr__(value, "kept", {})
    return value


def refuse_words(bad: npt.NDArray[np.bool_], why: str, *places: Ints) -> None:
    """A ValueError with the first word that is bad, by its sentence, start, end and id."""
    if bad.any():
        at = int(bad.argmax())
        values = tuple(int(place[at]) for place in places)
        raise ValueError(f"word {at}, (sentence, start, end, id) = {values}: {why}")


def cells(lengths: Ints) -> tuple[Ints, Ints]:
    """(row, column) of everything in rows of these lengths, row by row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]
