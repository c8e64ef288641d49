"""What the fused kernels need to know about a lattice: which words start and end at each character, as index arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hanlattice.ops.packing import inverse
from hanlattice.text.lattice import Ints, Lattice


class Schedule(NamedTuple):
    """Index arrays on a device. Character p of sentence b stands in row b·stride + p; one free row follows a sentence.

    Two orders of the words matter: by first and by last character. A direction meets words in the one order where they
    start and in the other where they end; `row` and `place` lead from its starting order to the caller's order and to
    its ending order.
    """

    stride: int  # rows of a sentence: the longest one's characters and one more
    padded: bool  # whether some sentence is shorter than the longest
    sizes: Tensor  # [B]: the sentences' lengths
    order: Tensor  # [B]: sentences, longest first
    lengths: Tensor  # [B], in that order
    starts: Tensor  # [2, B·stride + 1]: where the words that start at a row stand in the starting order
    ends: Tensor  # [2, B·stride + 1]: where the words that end at a row stand in the ending order
    row: Tensor  # [2, W]: starting order → the caller's order
    place: Tensor  # [2, W]: starting order → ending order


def schedule(lattice: Lattice, device: torch.device) -> Schedule:
    """The schedule of a lattice on a device, made once and kept with the lattice."""
    key = ("schedule", device)
    if key not in lattice.cache:
        lattice.cache[key] = make_schedule(lattice, device)
    found: Schedule = lattice.cache[key]
    return found


def make_schedule(lattice: Lattice, device: torch.device) -> Schedule:
    """All arrays travel as one copy, which the host does not wait for."""
    stride, B, W = int(lattice.lengths.max(initial=0)) + 1, len(lattice.lengths), len(lattice)
    order = np.argsort(-lattice.lengths, kind="stable")
    by_first, first_at = _ordered(lattice.sentence * stride + lattice.start, B * stride)
    by_last, last_at = _ordered(lattice.sentence * stride + lattice.end - 1, B * stride)
    parts = [lattice.lengths, order, lattice.lengths[order], first_at, last_at, last_at, first_at]
    parts += [by_first, by_last, inverse(by_last)[by_first], inverse(by_first)[by_last]]
    flat = torch.from_numpy(np.concatenate(parts).astype(np.int32))
    if device.type == "cuda":
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    sizes = [B, B, B, 2 * len(first_at), 2 * len(first_at), 2 * W, 2 * W]
    sentences, rows, lengths, starts, ends, row, place = torch.split(flat, sizes)
    padded = bool((lattice.lengths < stride - 1).any())
    return Schedule(
        stride, padded, sentences, rows, lengths, starts.view(2, -1), ends.view(2, -1), row.view(2, W), place.view(2, W)
    )


def _ordered(at: Ints, rows: int) -> tuple[Ints, Ints]:
    """The words in the order of their rows, and where each row's words begin; the last entry is the end of all."""
    counts = np.bincount(at, minlength=rows)
    begins = np.concatenate([[0], np.cumsum(counts)])
    is_sorted = bool((at[1:] >= at[:-1]).all())
    return np.arange(len(at)) if is_sorted else np.argsort(at, kind="stable"), begins
