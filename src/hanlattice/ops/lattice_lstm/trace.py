"""The lattice LSTM in numpy, watched: the same cell as `reference`, with what share of each cell
came from where.

One step a character for the whole batch. It shows `explain` the shares, and computes the states
where there is no C library.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, mirror_places
from hanlattice.text.lattice import Ints, Lattice

Array = npt.NDArray[Any]


class Traced(NamedTuple):
    """The states of one direction, and the shares of which each cell was mixed; zero after a
    sentence's end.

    Where words end, a cell is own ⊙ g + Σ words ⊙ c^w, and `before` is zero. Elsewhere it is i ⊙ g
    + f ⊙ c_{j−1}: own and before are i and f over their sum, which is 1 in a coupled cell. So
    shares sum to one at each character.
    """

    h: Array  # [B, T, H]
    own: Array  # [B, T, H]: of the character's own input
    before: Array  # [B, T, H]: of the cell before
    words: Array  # [W, H]: of each word, at the character where it arrives


class Both(NamedTuple):
    forward: Traced
    backward: Traced


def lattice_lstm(
    x: Array, word_x: Array, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool = True
) -> Traced:
    """One direction: x [B, T, D], word_x [W, E] in the lattice's word order."""
    B, T, _ = x.shape
    H = weights.hidden
    real = (np.arange(T) < lattice.lengths[:, None])[:, :, None]  # [B, T, 1]
    x = np.where(real, x, x.dtype.type(0))
    char = x @ weights.char_input + weights.char_bias
    link = x @ weights.link_input + weights.link_bias
    word_gates = word_x @ weights.word_input + weights.word_bias  # [W, 3H]
    starting = _by_step(lattice.start, T)
    ending = _by_step(lattice.end - 1, T)
    row = lattice.sentence
    word_cells, word_shares = (np.zeros((len(lattice), H), dtype=x.dtype) for _ in range(2))
    h = c = np.zeros((B, H), dtype=x.dtype)
    states, owns, befores = (np.zeros((B, T, H), dtype=x.dtype) for _ in range(3))
    for t in range(T):
        i, f, o, g = _gates(char[:, t] + h @ weights.char_hidden, coupled)
        both = np.maximum(i + f, np.finfo(x.dtype).tiny)
        own = i / both
        before = f / both
        mixed = f * c + i * g
        if len(here := ending[t]):
            b = row[here]
            cells = word_cells[here]
            weight = np.exp(sigmoid(link[b, t] + cells @ weights.link_hidden))
            total = np.exp(i)  # [B, H]
            np.add.at(total, b, weight)
            closes = np.zeros((B, 1), dtype=bool)
            closes[b] = True
            own = np.where(closes, np.exp(i) / total, own)
            before = np.where(closes, 0, before)
            word_shares[here] = weight / total[b]
            arrived = own * g
            np.add.at(arrived, b, word_shares[here] * cells)
            mixed = np.where(closes, arrived, mixed)
        c = mixed
        h = o * np.tanh(c)
        states[:, t], owns[:, t], befores[:, t] = h, own, before
        if len(here := starting[t]):
            gates = word_gates[here] + h[row[here]] @ weights.word_hidden
            i = sigmoid(gates[:, :H])
            f = sigmoid(gates[:, H : 2 * H])
            word_cells[here] = f * c[row[here]] + i * np.tanh(gates[:, 2 * H :])
    h, own, before = (np.where(real, each, x.dtype.type(0)) for each in (states, owns, befores))
    return Traced(h, own, before, word_shares)


def bidirectional(
    x: Array,
    word_x: Array,
    lattice: Lattice,
    weights: Iterable[LatticeLSTMWeights],
    coupled: bool = True,
) -> Both:
    """Both directions, each with its characters in the text's order. The backward one's words
    arrive at their first.
    """
    forward, backward = weights
    flip = mirror_places(lattice, x.shape[1])[:, :, None]
    back = lattice_lstm(
        np.take_along_axis(x, flip, 1), word_x, lattice.reversed(), backward, coupled
    )
    h, own, before = (np.take_along_axis(each, flip, 1) for each in back[:3])
    return Both(
        lattice_lstm(x, word_x, lattice, forward, coupled), Traced(h, own, before, back.words)
    )


def sigmoid(x: Array) -> Array:
    return 1 / (
        1 + np.exp(-np.maximum(x, -80))
    )  # below, exp() would overflow, and nothing be left of it anyway


def _by_step(places: Ints, steps: int) -> list[Ints]:
    """For each step the words that have it for their place."""
    order = np.argsort(places, kind="stable")
    return np.split(order, np.searchsorted(places[order], np.arange(1, steps))) if steps else []


def _gates(gates: Array, coupled: bool) -> tuple[Array, Array, Array, Array]:
    """i, f, o, g of one character of each sentence, [B, H] each."""
    parts = np.split(gates, 3 if coupled else 4, axis=1)
    i = sigmoid(parts[0])
    o = sigmoid(parts[-2])
    g = np.tanh(parts[-1])
    return i, 1 - i if coupled else sigmoid(parts[1]), o, g
