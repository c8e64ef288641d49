"""Several encoders on top of each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hanlattice.nn.char_lstm import CharLSTM
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.ops.lattice_lstm import trace
from hanlattice.text.lattice import Lattice

Layer = CharLSTM | LatticeLSTM


class Stack(nn.Module):
    """The first layer reads x, the others what the one below gives, after dropout; all see the same words.

    It has the signature of its layers, so that one layer alone and several in a stack are used alike.
    """

    def __init__(self, layers: Sequence[Layer], dropout: float = 0.0) -> None:
        super().__init__()
        if not layers:
            raise ValueError("a stack needs one layer or more")
        self.layers, self.dropout = nn.ModuleList(layers), nn.Dropout(dropout)
        self.width = layers[-1].width

    def forward(self, x: Tensor, word_x: Tensor | None, lattice: Lattice) -> Tensor:
        for n, layer in enumerate(self.layers):
            x = layer(self.dropout(x) if n else x, word_x, lattice)
        return x

    def traced(self, x: Tensor, word_x: Tensor, lattice: Lattice) -> list[trace.Both]:
        """What each lattice layer mixed its cells of, from the lowest up; without dropout."""
        found: list[trace.Both] = []
        for layer in self.layers:
            if not isinstance(layer, LatticeLSTM):
                raise TypeError(f"a {type(layer).__name__} has no words that could have a share")
            found += layer.traced(x, word_x, lattice)
            x = torch.cat([direction.h for direction in found[-1]], dim=-1)
        return found
