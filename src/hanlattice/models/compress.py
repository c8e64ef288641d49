"""Weights in fewer bytes on disk: a byte for each number, and half a byte for those of fixed vectors.

Numbers are rounded to integers, from −127 to 127 or from −7 to 7, times a scale: one for each row of a table of
vectors, one for each column of a matrix. The scales are stored under the tensor's name with `.scale`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

PRECISIONS = ("small", "half", "full")
SCALE = ".scale"
_TABLES = (".vectors", ".trained", ".fixed")  # the endings of the names of tables of vectors
_BYTE, _NIBBLE = 127, 7
_LARGEST = 2.0**15  # a tensor with larger numbers, or NaN, is not compressed: half precision might not hold it
_TRIES = (1.0, 0.9, 0.8, 0.7)  # shares of the largest number: clipping a few numbers can reduce the total error


def compressed(tensors: Mapping[str, Tensor], precision: str) -> dict[str, Tensor]:
    """The tensors with compressed matrices. Biases and the CRF's scores stay: they are few."""
    small: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if precision == "full" or name.startswith("crf.") or not _can_be_small(tensor):
            small[name] = tensor
        elif precision == "half":
            small[name] = tensor.half()
        elif not name.endswith(_TABLES):
            small[name], small[name + SCALE] = (part.T.contiguous() for part in _rounded(tensor.T, _BYTE))
        elif name.endswith(".fixed") and tensor.shape[1] % 2 == 0:
            rows, small[name + SCALE] = _rounded(tensor, _NIBBLE)
            small[name] = _in_pairs(rows)
        else:
            small[name], small[name + SCALE] = _rounded(tensor, _BYTE)
    return small


def expanded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that `compressed` was given, up to rounding. Fixed vectors stay in half precision."""
    full: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in tensors:
            continue
        if name + SCALE in tensors:
            numbers = _out_of_pairs(tensor) if tensor.dtype == torch.uint8 else tensor
            scale = tensors[name + SCALE]
            full[name] = numbers * scale if name.endswith(".fixed") else numbers.float() * scale.float()
        else:
            stays = tensor.dtype != torch.half or name.endswith(".fixed")
            full[name] = tensor if stays else tensor.float()
    return full


def _can_be_small(tensor: Tensor) -> bool:
    is_matrix = tensor.ndim == 2 and tensor.is_floating_point()
    return is_matrix and (not tensor.numel() or float(tensor.abs().amax()) <= _LARGEST)


def _rounded(table: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """[R, E] → integers [R, E], int8, and each row's scale, [R, 1], in half precision: the best of a few."""
    table = table.float()
    largest = table.abs().amax(1, keepdim=True) if table.shape[1] else table.new_zeros(len(table), 1)
    best, error, kept = table.to(torch.int8), torch.full_like(largest, torch.inf), largest.half()
    for share in _TRIES:
        scale = (largest * share / most).clamp(min=2**-24, max=2**15).half()
        rows = (table / scale.float()).round_().clamp_(-most, most)
        off = (rows * scale.float() - table).square_().sum(1, keepdim=True)
        nearer = off < error
        best = torch.where(nearer, rows.to(torch.int8), best)
        error, kept = torch.where(nearer, off, error), torch.where(nearer, scale, kept)
    return best, kept


def _in_pairs(rows: Tensor) -> Tensor:
    """[R, E] from −7 to 7 → [R, E / 2], uint8: a row's left half in the low bits, its right half in the high ones."""
    left, right = (rows + 8).to(torch.uint8).chunk(2, dim=1)
    return left | (right << 4)


def _out_of_pairs(pairs: Tensor) -> Tensor:
    return torch.cat([pairs & 15, pairs >> 4], dim=1).to(torch.int8) - 8
