"""Weights in fewer bytes on disk: a byte for each number, and half a byte for those of fixed vectors.

Numbers are rounded to integers, from −127 to 127 or from −7 to 7, times a scale: one for each row of a table of
vectors, one for each column of a matrix. The scales are stored under the tensor's name with `.scale`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.runtime.tables import Table

Array = npt.NDArray[Any]

PRECISIONS = ("small", "half", "full")
SCALE = ".scale"
_FIXED = ".fixed"
_TABLES = (".vectors", ".trained", _FIXED, "_embeddings.weight")  # the endings of the names of tables of vectors
_WHOLE = ("pools.counts",)  # numbers that are no weights
_BYTE, _NIBBLE = 127, 7
_LARGEST = 2.0**15  # a tensor with larger numbers, or NaN, is not compressed: half precision might not hold it
_TRIES = (1.0, 0.9, 0.8, 0.7)  # shares of the largest number: clipping a few numbers can reduce the total error


def compressed(tensors: Mapping[str, Array], precision: str) -> dict[str, Array]:
    """The tensors with compressed matrices. Biases and the CRF's scores stay: they are few."""
    small: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if precision == "full" or name.startswith("crf.") or not _can_be_small(tensor):
            small[name] = tensor
        elif precision == "half":
            small[name] = tensor.astype(np.float16)
        elif not name.endswith(_TABLES):
            small[name], small[name + SCALE] = (np.ascontiguousarray(part.T) for part in _rounded(tensor.T, _BYTE))
        elif name.endswith(_FIXED) and tensor.shape[1] % 2 == 0:
            rows, small[name + SCALE] = _rounded(tensor, _NIBBLE)
            small[name] = _in_pairs(rows)
        else:
            small[name], small[name + SCALE] = _rounded(tensor, _BYTE)
    return small


def expanded(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors that `compressed` was given, up to rounding. Fixed vectors stay in half precision."""
    names = [name for name in tensors if not (name.endswith(SCALE) and name.removesuffix(SCALE) in tensors)]
    return {name: expand(tensors, name) for name in names}


def expand(tensors: Mapping[str, Array], name: str) -> Array:
    """One of them."""
    return table(tensors, name).rows(slice(None))


def check_types(tensors: Mapping[str, Array]) -> None:
    """A LookupError unless all are floats, or bytes with a scale whose products half precision can hold."""
    for name, tensor in tensors.items():
        scale = tensors.get(name + SCALE)
        wanted = ("float16", "float32") if scale is None else ("int8", "uint8")
        if name in _WHOLE:
            if tensor.dtype.kind not in "iu" or tensor.ndim != 1 or tensor.min(initial=0) < 0:
                raise LookupError(f"{name} must be a row of counts")
        elif tensor.dtype.name not in wanted:
            raise LookupError(f"{name} must be of {' or '.join(wanted)}, not {tensor.dtype}")
        most = _LARGEST / (_NIBBLE if tensor.dtype == np.uint8 else _BYTE) * 1.01  # with room for rounding
        if scale is not None and scale.size and float(np.abs(scale).max()) > most:
            raise LookupError(f"{name}{SCALE} has numbers above {most:,.0f}")


def table(tensors: Mapping[str, Array], name: str) -> Table:
    """The table of this name as it is, to be expanded row by row."""
    return Table(tensors[name], tensors.get(name + SCALE), name.endswith(_FIXED))


def _can_be_small(tensor: Array) -> bool:
    is_matrix = tensor.ndim == 2 and tensor.dtype.kind == "f"
    return is_matrix and (not tensor.size or float(np.abs(tensor).max()) <= _LARGEST)


def _rounded(table: Array, most: int) -> tuple[Array, Array]:
    """[R, E] → integers [R, E], int8, and each row's scale, [R, 1], in half precision: the best of a few."""
    table = table.astype(np.float32)
    largest = np.abs(table).max(1, keepdims=True, initial=0)
    best, error, kept = (
        np.zeros(table.shape, dtype=np.int8),
        np.full(largest.shape, np.inf, dtype=np.float32),
        largest.astype(np.float16),
    )
    for share in _TRIES:
        scale = (largest * np.float32(share) / np.float32(most)).clip(2**-24, 2**15).astype(np.float16)
        rows = np.rint(table / scale.astype(np.float32)).clip(-most, most)
        off = np.square(rows * scale.astype(np.float32) - table).sum(1, keepdims=True)
        nearer = off < error
        best = np.where(nearer, rows.astype(np.int8), best)
        error, kept = np.where(nearer, off, error), np.where(nearer, scale, kept)
    return best, kept


def _in_pairs(rows: Array) -> Array:
    """[R, E] from −7 to 7 → [R, E / 2], uint8: a row's left half in the low bits, its right half in the high ones."""
    left, right = np.split((rows + 8).astype(np.uint8), 2, axis=1)
    return left | (right << 4)
