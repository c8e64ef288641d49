"""The lattice LSTM as pure functions. README.md beside this file has the equations and the memory layout."""

from __future__ import annotations

import torch
from torch import Tensor

from hanlattice.ops.lattice_lstm import reference
from hanlattice.ops.lattice_lstm.backends import BACKENDS, choose
from hanlattice.ops.lattice_lstm.schedule import schedule
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, gate_count
from hanlattice.text.lattice import Lattice

__all__ = ["BACKENDS", "LatticeLSTMWeights", "bidirectional", "lattice_lstm", "prepare", "reference"]


def lattice_lstm(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    weights: LatticeLSTMWeights,
    coupled: bool = True,
    backend: str = "auto",
) -> Tensor:
    """One direction: x [B, T, D], word_x [W, E] in the lattice's word order → h [B, T, H], zero after a sentence."""
    check(x, word_x, lattice, weights, coupled)
    return choose(backend, x)(x, word_x, lattice, [weights], coupled)


def bidirectional(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    forward: LatticeLSTMWeights,
    backward: LatticeLSTMWeights,
    coupled: bool = True,
    backend: str = "auto",
) -> Tensor:
    """Both directions, side by side: [B, T, 2H]. The backward one reads the mirrored sentences and mirrored words."""
    check(x, word_x, lattice, forward, coupled)
    check_weights(x, word_x, backward, coupled)
    if forward.hidden != backward.hidden:
        raise ValueError(f"both directions must have one H: forward has {forward.hidden}, backward {backward.hidden}")
    return choose(backend, x)(x, word_x, lattice, [forward, backward], coupled)


def prepare(lattice: Lattice, device: torch.device | str) -> None:
    """Make what the GPU needs to know about a lattice and start its copy, so that a later call need not wait for it."""
    device = torch.device(device)
    if device.type == "cuda":
        schedule(lattice, device)


def check(x: Tensor, word_x: Tensor, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool) -> None:
    """Shapes that do not fit are a ValueError here, not a strange message from inside a product."""
    if x.ndim != 3 or word_x.ndim != 2:
        raise ValueError(f"x must be [B, T, D] and word_x [W, E], not {tuple(x.shape)} and {tuple(word_x.shape)}")
    longest = int(lattice.lengths.max(initial=0))
    if len(lattice.lengths) != x.shape[0] or longest > x.shape[1]:
        raise ValueError(
            f"x is {tuple(x.shape)}, but the lattice has {len(lattice.lengths)} sentences, the longest of {longest}"
        )
    if len(lattice) != word_x.shape[0]:
        raise ValueError(f"word_x has {word_x.shape[0]} rows, but the lattice has {len(lattice)} words")
    check_weights(x, word_x, weights, coupled)


def check_weights(x: Tensor, word_x: Tensor, weights: LatticeLSTMWeights, coupled: bool) -> None:
    D, E, H, G = x.shape[2], word_x.shape[1], weights.hidden, gate_count(coupled)
    shapes = ((D, G * H), (H, G * H), (G * H,), (E, 3 * H), (H, 3 * H), (3 * H,), (D, H), (H, H), (H,))
    for name, tensor, shape in zip(weights._fields, weights, shapes, strict=True):
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{name} must be {shape} with coupled={coupled}, not {tuple(tensor.shape)}")
