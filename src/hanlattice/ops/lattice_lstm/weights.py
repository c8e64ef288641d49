"""The weights of one direction of a lattice LSTM, and sentences mirrored for the other direction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hanlattice.text.lattice import Ints, Lattice

Values = Any  # arrays of numpy, or tensors


class LatticeLSTMWeights(NamedTuple):
    """G is 3 for a coupled character cell (gates i, o, g) and 4 otherwise (i, f, o, g). Word gates
    are i, f, g.
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
    return 3 if coupled else 4


def weight_shapes(D: int, E: int, H: int, coupled: bool) -> tuple[tuple[int, ...], ...]:
    """The shapes of the nine weights, in their order."""
    G = gate_count(coupled)
    return (D, G * H), (H, G * H), (G * H,), (E, 3 * H), (H, 3 * H), (3 * H,), (D, H), (H, H), (H,)


def mirror_places(lattice: Lattice, T: int) -> Ints:
    """[B, T]: for each place the place that it mirrors, inside each sentence's length; padding
    stays where it is.

    Applying it twice gives back the original.
    """
    lengths = lattice.lengths[:, None]
    places = np.arange(T)[None]
    return np.where(places < lengths, lengths - 1 - places, places)
