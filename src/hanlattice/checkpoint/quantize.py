"""Store weights in fewer bytes: a byte for each number, half a byte for those of fixed vectors.

Numbers are rounded to integers, from −127 to 127 or from −7 to 7, times a scale: one for each row
of a table of vectors, one for each column of a matrix. The scales are stored under the tensor's
name with `.scale`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hanlattice.inference.tables import VectorTable

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

PRECISIONS = ("small", "half", "full")
SCALE = ".scale"
_FIXED = ".fixed"
# The endings of the names of tables of vectors.
_TABLES = (".vectors", ".trained", _FIXED, "_embeddings.weight")
# The beginning of the names of the arrays that give new words their vectors.
COMPOSER = "composer."
COUNTS = "pools.counts"
# Arrays that are not weights, with the types that they may have.
_KINDS = {
    COUNTS: ("int32", "int64"),
    f"{COMPOSER}characters": ("int32",),
    f"{COMPOSER}table": ("int8",),
}
_FLOATS = ("float16", "float32")
_BYTE = 127
_NIBBLE = 7
# A tensor with larger numbers, or NaN, is not compressed: half precision might not hold it.
_LARGEST = 2.0**15
# Shares of the largest number: clipping a few numbers can reduce the total error.
_TRIES = (1.0, 0.9, 0.8, 0.7)


def compressed(tensors: Mapping[str, Array], precision: str) -> dict[str, Array]:
    """Return the tensors with compressed matrices. Biases and CRF scores are few, and stay."""
    small: dict[str, Array] = {}
    for name, tensor in tensors.items():
        if precision == "full" or name.startswith("crf.") or not _can_be_small(tensor):
            small[name] = tensor
        elif precision == "half":
            small[name] = tensor.astype(np.float16)
        elif not name.endswith(_TABLES):
            # A matrix has a scale for each column, so round its columns as rows.
            rows, scale = _rounded(tensor.T, _BYTE)
            small[name] = np.ascontiguousarray(rows.T)
            small[name + SCALE] = np.ascontiguousarray(scale.T)
        elif name.endswith(_FIXED) and tensor.shape[1] % 2 == 0:
            rows, small[name + SCALE] = _rounded(tensor, _NIBBLE)
            # From −7 … 7 to 1 … 15: the left half of a row in the low bits, the right in the high.
            left, right = np.split((rows + 8).astype(np.uint8), 2, axis=1)
            small[name] = left | (right << 4)
        else:
            small[name], small[name + SCALE] = _rounded(tensor, _BYTE)
    return small


def expanded(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return what `compressed` was given, up to rounding; fixed vectors stay in half precision."""
    scales = {name + SCALE for name in tensors}
    return {name: expand(tensors, name) for name in tensors if name not in scales}


def expand(tensors: Mapping[str, Array], name: str) -> Array:
    """Return the tensor of this name as numbers."""
    return table(tensors, name).rows(slice(None))


class Typed(Protocol):
    """Anything with a type and a shape: an array of NumPy, or a tensor of torch."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> Sequence[int]: ...


def is_small(tensors: Mapping[str, Typed], name: str) -> bool:
    """Tell whether a tensor is stored as bytes with a scale."""
    return name not in _KINDS and _kind(tensors[name]) in ("int8", "uint8")


def stored_shape(tensors: Mapping[str, Typed], name: str) -> Shape:
    """Return the shape of a tensor once it is expanded; a LookupError says why it cannot be."""
    # Check before anything is multiplied: numbers and scales that do not belong together could grow
    # to any size.
    if name not in tensors:
        raise LookupError(f"missing {name}")
    shape = tuple(tensors[name].shape)
    kind = _kind(tensors[name])
    if not is_small(tensors, name):
        wanted = _KINDS.get(name, _FLOATS)
        if kind not in wanted:
            raise LookupError(f"{name} must be of {' or '.join(wanted)}, not {kind}")
        return shape
    is_paired = kind == "uint8"
    if name.startswith("crf.") or len(shape) != 2 or (is_paired and not name.endswith(_FIXED)):
        raise LookupError(
            f"{name} must be of {' or '.join(_FLOATS)}, not {kind} of shape {list(shape)}"
        )
    if name + SCALE not in tensors:
        raise LookupError(f"missing {name}{SCALE}")
    scale = tensors[name + SCALE]
    fitting = (shape[0], 1) if name.endswith(_TABLES) else (1, shape[1])
    if tuple(scale.shape) != fitting:
        raise LookupError(f"{name}{SCALE} must be {list(fitting)}, not {list(scale.shape)}")
    if _kind(scale) not in _FLOATS:
        raise LookupError(f"{name}{SCALE} must be of {' or '.join(_FLOATS)}, not {_kind(scale)}")
    return (shape[0], 2 * shape[1]) if is_paired else shape


def _kind(tensor: Typed) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def check_values(tensors: Mapping[str, Array]) -> None:
    """Raise a LookupError for a negative count, or a scale that half precision cannot hold."""
    for name, tensor in tensors.items():
        if name == COUNTS and tensor.min(initial=0) < 0:
            raise LookupError(f"{name} must be 0 or more")
        if name + SCALE in tensors:
            scale = tensors[name + SCALE]
            # With room for rounding.
            most = _LARGEST / (_NIBBLE if tensor.dtype == np.uint8 else _BYTE) * 1.01
            if scale.size and float(np.abs(scale).max()) > most:
                raise LookupError(f"{name}{SCALE} has numbers above {most:,.0f}")


def table(tensors: Mapping[str, Array], name: str) -> VectorTable:
    """Return the table of this name, which is expanded row by row when it is read."""
    return VectorTable(tensors[name], tensors.get(name + SCALE), name.endswith(_FIXED))


def _can_be_small(tensor: Array) -> bool:
    is_matrix = tensor.ndim == 2 and tensor.dtype.kind == "f"
    return is_matrix and (not tensor.size or float(np.abs(tensor).max()) <= _LARGEST)


def _rounded(table: Array, most: int) -> tuple[Array, Array]:
    """Round [R, E] to integers, [R, E], int8, with a scale for each row, [R, 1], half precision."""
    table = table.astype(np.float32)
    largest = np.abs(table).max(1, keepdims=True, initial=0)
    best = np.zeros(table.shape, dtype=np.int8)
    error = np.full(largest.shape, np.inf, dtype=np.float32)
    kept = largest.astype(np.float16)
    for share in _TRIES:
        # 2**-24 is the smallest number of half precision.
        scale = (largest * np.float32(share) / np.float32(most)).clip(2**-24, 2**15)
        scale = scale.astype(np.float16)
        rows = np.rint(table / scale.astype(np.float32)).clip(-most, most)
        off = np.square(rows * scale.astype(np.float32) - table).sum(1, keepdims=True)
        nearer = off < error
        best = np.where(nearer, rows.astype(np.int8), best)
        error = np.where(nearer, off, error)
        kept = np.where(nearer, scale, kept)
    return best, kept
