"""Sentences read from right to left: each sentence is mirrored inside its own length, padding stays where it is."""

from __future__ import annotations

import torch
from torch import Tensor

from hanlattice.text.lattice import Lattice


def mirror_index(lattice: Lattice, like: Tensor) -> Tensor:
    """[B, T]: for each place the place that it mirrors. Applying it twice gives back the original."""
    lengths = torch.from_numpy(lattice.lengths.copy()).to(like.device)[:, None]
    places = torch.arange(like.shape[1], device=like.device)[None]
    return torch.where(places < lengths, lengths - 1 - places, places)


def take(x: Tensor, index: Tensor) -> Tensor:
    """x [B, T, D] with the rows of each sentence in the order of index [B, T]."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))
