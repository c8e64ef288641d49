"""The weights of one direction of a lattice LSTM, as plain tensors."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
