"""The lattice LSTM as the paper writes it: one sentence, one character, one word at a time. The
specification.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice


def lattice_lstm(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool = True
) -> Tensor:
    """x [B, T, D], word_x [W, E] → h [B, T, H]; zero after a sentence's end."""
    T = x.shape[1]
    words: list[list[tuple[int, int, Tensor]]] = [[] for _ in x]
    for w, (b, start, end) in enumerate(
        zip(lattice.sentence, lattice.start, lattice.end, strict=True)
    ):
        words[b].append((start, end, word_x[w]))
    rows = []
    for b, length in enumerate(lattice.lengths.tolist()):
        h = one_sentence(x[b, :length], words[b], weights, coupled)
        rows.append(torch.cat([h, h.new_zeros(T - length, weights.hidden)]))
    return torch.stack(rows) if rows else x.new_zeros(0, T, weights.hidden)


def one_sentence(
    x: Tensor, words: list[tuple[int, int, Tensor]], weights: LatticeLSTMWeights, coupled: bool
) -> Tensor:
    """x [T, D] and words (start, end, x^w) → h [T, H]."""
    h = c = x.new_zeros(weights.hidden)
    ending: list[list[Tensor]] = [
        [] for _ in x
    ]  # the cells c^w of the words that end at each character
    outputs = []
    for j, x_j in enumerate(x):
        gates = x_j @ weights.char_input + h @ weights.char_hidden + weights.char_bias
        if coupled:
            i, o, g = gates.chunk(3)
            i = i.sigmoid()
            o = o.sigmoid()
            g = g.tanh()
            f = 1 - i
        else:
            i, f, o, g = gates.chunk(4)
            i = i.sigmoid()
            f = f.sigmoid()
            o = o.sigmoid()
            g = g.tanh()
        if ending[j]:
            link = x_j @ weights.link_input + weights.link_bias
            a = [torch.sigmoid(link + c_w @ weights.link_hidden) for c_w in ending[j]]
            alpha = torch.softmax(torch.stack([i, *a]), dim=0)  # over gate values, unit by unit
            c = mix(alpha, [g, *ending[j]])
        else:
            c = mix(torch.stack([i, f]), [g, c])
        h = o * torch.tanh(c)
        outputs.append(h)
        for start, end, x_w in words:
            if start == j:
                ending[end - 1].append(word_cell(x_w, h, c, weights))
    return torch.stack(outputs) if outputs else x.new_zeros(0, weights.hidden)


def mix(shares: Tensor, parts: list[Tensor]) -> Tensor:
    """A cell, [H]: its parts, each with its share [H] of every unit."""
    return (shares * torch.stack(parts)).sum(0)


def word_cell(x_w: Tensor, h: Tensor, c: Tensor, weights: LatticeLSTMWeights) -> Tensor:
    """The cell of a word that begins at the character whose state is (h, c)."""
    i, f, g = (x_w @ weights.word_input + h @ weights.word_hidden + weights.word_bias).chunk(3)
    cell: Tensor = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return cell
