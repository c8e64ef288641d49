"""The weights of one direction of a lattice LSTM as plain tensors, and sentences mirrored for the other direction."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hanlattice.text.lattice import Lattice


class LatticeLSTMWeights(NamedTuple):
    """G is 3 for a coupled character cell (gates i, o, g) and 4 otherwise (i, f, o, g). Word gates are i, f, g."""

    char_input: Tensor  # [D, G·H]
    char_hidden: Tensor  # [H, G·H]
    char_bias: Tensor  # [G·H]
    word_input: Tensor  # [E, 3H]
    word_hidden: Tensor  # [H, 3H]
    word_bias: Tensor  # [3H]
    link_input: Tensor  # [D, H]
    link_hidden: Tensor  # [H, H]
    link_bias: Tensor  # [H]

    @property
    def hidden(self) -> int:
        return self.link_hidden.shape[0]


def gate_count(coupled: bool) -> int:
    return 3 if coupled else 4


def weight_shapes(D: int, E: int, H: int, coupled: bool) -> tuple[tuple[int, ...], ...]:
    """The shapes of the nine weights, in their order."""
    G = gate_count(coupled)
    return (D, G * H), (H, G * H), (G * H,), (E, 3 * H), (H, 3 * H), (3 * H,), (D, H), (H, H), (H,)


def mirror_index(lattice: Lattice, like: Tensor) -> Tensor:
    """[B, T]: for each place the place that it mirrors, inside each sentence's length; padding stays where it is.

    Applying it twice gives back the original.
    """
    lengths = torch.from_numpy(lattice.lengths.copy()).to(like.device)[:, None]
    places = torch.arange(like.shape[1], device=like.device)[None]
    return torch.where(places < lengths, lengths - 1 - places, places)


def take(x: Tensor, index: Tensor) -> Tensor:
    """x [B, T, D] with the rows of each sentence in the order of index [B, T]."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))
