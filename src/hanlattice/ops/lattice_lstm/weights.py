"""The weights of one direction of a lattice LSTM, and mirrored sentences for the other one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hanlattice.text.lattice import Ints, Lattice

# An array of NumPy, or a tensor.
Values = Any


class LatticeLSTMWeights(NamedTuple):
    """The nine weights of one direction.

    A coupled character cell has G = 3 gates (i, o, g), another one 4 (i, f, o, g). The gates of a
    word are i, f, g.
    """

    char_input: Values  # [D, G·H]
    char_hidden: Values  # [H, G·H]
    char_bias: Values  # [G·H]
    word_input: Values  # [E, 3H]
    word_hidden: Values  # [H, 3H]
    word_bias: Values  # [3H]
    link_input: Values  # [D, H]
    link_hidden: Values  # [H, H]
    link_bias: Values  # [H]

    @property
    def hidden(self) -> int:
        """H, the width of a state."""
        return int(self.link_hidden.shape[0])


def gate_count(coupled: bool) -> int:
    """Return G, the number of gates of a character."""
    return 3 if coupled else 4


def weight_shapes(D: int, E: int, H: int, coupled: bool) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the nine weights, in their order."""
    G = gate_count(coupled)
    return (D, G * H), (H, G * H), (G * H,), (E, 3 * H), (H, 3 * H), (3 * H,), (D, H), (H, H), (H,)


def mirror_places(lattice: Lattice, T: int) -> Ints:
    """Return [B, T]: the place in the mirrored sentence of each place.

    Padding keeps its place, so applying the mirror twice gives back the original.
    """
    lengths = lattice.lengths[:, None]
    places = np.arange(T)[None]
    return np.where(places < lengths, lengths - 1 - places, places)
