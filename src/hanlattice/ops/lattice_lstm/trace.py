"""The lattice LSTM, watched: the same cell as `reference`, with what share of each cell came from where.

Plain torch, one step a character for the whole batch. It is for looking at a few sentences, so nothing is tuned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, mirror_index, take
from hanlattice.text.lattice import Ints, Lattice


class Traced(NamedTuple):
    """The states of one direction, and the shares of which each cell was mixed; zero after a sentence's end.

    Where words end, a cell is own ⊙ g + Σ words ⊙ c^w, and `before` is zero. Elsewhere it is i ⊙ g + f ⊙ c_{j−1}: own
    and before are i and f over their sum, which is 1 in a coupled cell. So shares sum to one at each character.
    """

    h: Tensor  # [B, T, H]
    own: Tensor  # [B, T, H]: of the character's own input
    before: Tensor  # [B, T, H]: of the cell before
    words: Tensor  # [W, H]: of each word, at the character where it arrives


class Both(NamedTuple):
    forward: Traced
    backward: Traced


def lattice_lstm(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool = True
) -> Traced:
    """One direction: x [B, T, D], word_x [W, E] in the lattice's word order."""
    (B, T, _), H = x.shape, weights.hidden
    real = torch.arange(T)[None] < torch.from_numpy(lattice.lengths.copy())[:, None]
    real = real[:, :, None].to(x.device)  # [B, T, 1]
    x = torch.where(real, x, 0)
    starting, ending = _by_step(lattice.start, T), _by_step(lattice.end - 1, T)
    row = torch.from_numpy(lattice.sentence.copy()).to(x.device)
    word_cells, word_shares = x.new_zeros(len(lattice), H), x.new_zeros(len(lattice), H)
    h = c = x.new_zeros(B, H)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []
    for t in range(T):
        i, f, o, g = _gates(x[:, t], h, weights, coupled)
        both = (i + f).clamp_min(torch.finfo(x.dtype).tiny)
        own, before = i / both, f / both
        mixed = f * c + i * g
        if len(here := ending[t].to(x.device)):
            b, cells = row[here], word_cells[here]
            a = torch.sigmoid(x[b, t] @ weights.link_input + cells @ weights.link_hidden + weights.link_bias)
            total = i.exp().index_add(0, b, a.exp())  # [B, H]
            closes = torch.zeros(B, 1, dtype=torch.bool, device=x.device).index_fill(0, b, True)
            own, before = torch.where(closes, i.exp() / total, own), torch.where(closes, 0, before)
            word_shares[here] = a.exp() / total[b]
            mixed = torch.where(closes, (own * g).index_add(0, b, word_shares[here] * cells), mixed)
        c = mixed
        h = o * torch.tanh(c)
        steps.append((h, own, before))
        if len(here := starting[t].to(x.device)):
            word_cells[here] = _word_cells(word_x[here], h[row[here]], c[row[here]], weights)
    if not steps:
        empty = x.new_zeros(B, 0, H)
        return Traced(empty, empty, empty, word_shares)
    h, own, before = (torch.where(real, torch.stack(each, dim=1), 0) for each in zip(*steps, strict=True))
    return Traced(h, own, before, word_shares)


def bidirectional(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: Iterable[LatticeLSTMWeights], coupled: bool = True
) -> Both:
    """Both directions, each with its characters in the text's order. The backward one's words arrive at their first."""
    forward, backward = weights
    flip = mirror_index(lattice, x)
    back = lattice_lstm(take(x, flip), word_x, lattice.reversed(), backward, coupled)
    turned = Traced(take(back.h, flip), take(back.own, flip), take(back.before, flip), back.words)
    return Both(lattice_lstm(x, word_x, lattice, forward, coupled), turned)


def _by_step(places: Ints, steps: int) -> list[Tensor]:
    """For each step the words that have it for their place."""
    order = np.argsort(places, kind="stable")
    edges = np.searchsorted(places[order], np.arange(1, steps))
    return [torch.from_numpy(part) for part in np.split(order, edges)] if steps else []


def _gates(x: Tensor, h: Tensor, weights: LatticeLSTMWeights, coupled: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """i, f, o, g of one character of each sentence, [B, H] each."""
    gates = x @ weights.char_input + h @ weights.char_hidden + weights.char_bias
    if coupled:
        i, o, g = gates.chunk(3, dim=1)
        return i.sigmoid(), 1 - i.sigmoid(), o.sigmoid(), g.tanh()
    i, f, o, g = gates.chunk(4, dim=1)
    return i.sigmoid(), f.sigmoid(), o.sigmoid(), g.tanh()


def _word_cells(word_x: Tensor, h: Tensor, c: Tensor, weights: LatticeLSTMWeights) -> Tensor:
    """c^w [N, H] of words that begin at characters whose states are (h, c)."""
    i, f, g = (word_x @ weights.word_input + h @ weights.word_hidden + weights.word_bias).chunk(3, dim=1)
    return f.sigmoid() * c + i.sigmoid() * g.tanh()
