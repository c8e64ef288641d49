"""The lattice LSTM for a whole batch and N directions at once: the same numbers as `reference`, one step a character.

What is done at once, and why it is exact, is in README.md beside this file. Rows of a batch are sorted by length, so
that the sentences still running at step t are always the first ones, and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops.lattice_lstm.mirror import mirror_index, take
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice


def lattice_lstm(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool = True
) -> Tensor:
    """x [B, T, D], word_x [W, E] → h [B, T, H]; zero after a sentence's end."""
    return directions([x], word_x, [lattice], [weights], coupled)[0]


def bidirectional(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    forward: LatticeLSTMWeights,
    backward: LatticeLSTMWeights,
    coupled: bool = True,
) -> Tensor:
    """Both directions in one loop: [B, T, 2H]."""
    flip = mirror_index(lattice, x)
    h = directions([x, take(x, flip)], word_x, [lattice, lattice.reversed()], [forward, backward], coupled)
    return torch.cat([h[0], take(h[1], flip)], dim=-1)


def directions(
    xs: Sequence[Tensor],
    word_x: Tensor,
    lattices: Sequence[Lattice],
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
) -> Tensor:
    """N directions over the same sentences → h [N, B, T, H]. What needs no recurrence is done here, in few products."""
    plan = make_plan(lattices, xs[0])
    N, B, T, H = len(xs), xs[0].shape[0], xs[0].shape[1], weights[0].hidden
    if B == 0 or T == 0:
        return xs[0].new_zeros(N, B, T, H)
    real = (torch.arange(T, device=xs[0].device)[None] < plan.lengths[:, None])[:, :, None]
    x = torch.stack([torch.where(real, x, 0)[plan.order].transpose(0, 1) for x in xs]).reshape(N, T * B, -1)
    char = torch.baddbmm(_bias(weights, "char_bias"), x, _each(weights, "char_input"))  # [N, T·B, G·H]
    link = torch.baddbmm(_bias(weights, "link_bias"), x, _each(weights, "link_input"))  # [N, T·B, H]
    word = torch.cat([torch.addmm(w.word_bias, word_x, w.word_input) for w in weights])  # [N·W, 3H]
    recurrent = torch.cat([_each(weights, "char_hidden"), _each(weights, "word_hidden")], dim=2)  # [N, H, (G+3)·H]
    h: Tensor = Recurrence.apply(  # type: ignore[no-untyped-call]
        char.view(N, T, B, -1),
        word[plan.word],
        link.reshape(N * T * B, H)[plan.end],
        recurrent,
        _each(weights, "link_hidden"),
        plan,
        coupled,
    )
    return h.transpose(1, 2)[:, plan.back]  # [N, B, T, H]


def _each(weights: Sequence[LatticeLSTMWeights], name: str) -> Tensor:
    return torch.stack([getattr(w, name) for w in weights])


def _bias(weights: Sequence[LatticeLSTMWeights], name: str) -> Tensor:
    return _each(weights, name)[:, None]


class Plan(NamedTuple):
    """Which rows and words each step touches. Words of all directions are in one list, by start, then by direction."""

    lengths: Tensor  # [B], in the caller's order
    order: Tensor  # [B]: sorted row → the caller's row, longest first
    back: Tensor  # [B]: the caller's row → sorted row
    running: list[int]  # [T]: how many sorted rows are still running at step t
    word: Tensor  # [NW]: row in the stacked [N·W] table of words
    row: Tensor  # [NW]: n·B + sorted row of the sentence
    end: Tensor  # [NW]: (n·T + last character)·B + sorted row: where the word's cell arrives
    cuts: list[list[int]]  # [T][N + 1]: where the words that start at t stand, direction by direction
    closes: Tensor  # [N, T, B, 1]: whether a word ends here
    any_closes: list[bool]  # [T]: whether a word ends at step t anywhere


def make_plan(lattices: Sequence[Lattice], like: Tensor) -> Plan:
    first, N, (B, T) = lattices[0], len(lattices), like.shape[:2]
    lengths, W = first.lengths, len(first)
    order = np.argsort(-lengths, kind="stable")
    back = np.argsort(order, kind="stable")
    direction = np.repeat(np.arange(N), W)
    start, end, sentence = (
        np.concatenate([getattr(lattice, name) for lattice in lattices]) for name in ("start", "end", "sentence")
    )
    row = back[sentence] if W else sentence
    sequence = np.lexsort((direction, start))  # by start, then by direction; stable, so the lattice's order stays
    direction, start, last, row = direction[sequence], start[sequence], end[sequence] - 1, row[sequence]
    arrives = (direction * T + last) * B + row
    closes = np.zeros(N * T * B, dtype=bool)
    closes[arrives] = True
    edges = np.searchsorted(start * N + direction, np.arange(T * N + 1)).tolist()
    table = closes.reshape(N, T, B, 1)

    def tensor(array: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(like.device)

    return Plan(
        lengths=tensor(lengths.copy()),
        order=tensor(order),
        back=tensor(back),
        running=(B - np.searchsorted(np.sort(lengths), np.arange(T), side="right")).tolist(),
        word=tensor(sequence),
        row=tensor(direction * B + row),
        end=tensor(arrives),
        cuts=[edges[t * N : t * N + N + 1] for t in range(T)],
        closes=tensor(table),
        any_closes=[bool(table[:, t].any()) for t in range(T)],
    )


class Steps(NamedTuple):
    """What the backward pass needs of each step t."""

    gates: list[Tensor]  # [N, n, G·H] after their nonlinearity
    cells: list[Tensor]  # [N, n, H]
    total: list[Tensor | None]  # [N, n, H]: e^i + Σ e^a, the softmax's denominator, where words end
    words: list[tuple[Tensor, ...] | None]  # gates [w, 3H], cells [w, H], link a [w, H], e^a [w, H]


class Recurrence(torch.autograd.Function):
    """The part that must go step by step, with its gradient written out (README.md has the derivation)."""

    @staticmethod
    def forward(
        ctx: Any,
        char: Tensor,
        word: Tensor,
        link: Tensor,
        recurrent: Tensor,
        link_hidden: Tensor,
        plan: Plan,
        coupled: bool,
    ) -> Tensor:
        keep = any(ctx.needs_input_grad)
        hidden, steps = run(char, word, link, recurrent, link_hidden, plan, coupled, keep)
        if keep:
            ctx.save_for_backward(recurrent, link_hidden, hidden)
            ctx.plan, ctx.steps, ctx.coupled = plan, steps, coupled
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, link_hidden, hidden = ctx.saved_tensors
        gradients = run_backward(grad, hidden, ctx.steps, recurrent, link_hidden, ctx.plan, ctx.coupled)
        return *gradients, None, None


def run(
    char: Tensor,
    word: Tensor,
    link: Tensor,
    recurrent: Tensor,
    link_hidden: Tensor,
    plan: Plan,
    coupled: bool,
    keep: bool,
) -> tuple[Tensor, Steps]:
    """char [N, T, B, G·H], word [NW, 3H], link [NW, H] → h [N, T, B, H], and the steps when they are kept."""
    N, T, B, GH = char.shape
    H = link_hidden.shape[1]
    hidden = char.new_zeros(N, T, B, H)
    arrived = char.new_zeros(N * T * B, 2 * H)  # Σ e^a ⊙ c^w and Σ e^a of the words that end at each character
    inbox = arrived.view(N, T, B, 2 * H)
    pushed = char.new_zeros(N, B, recurrent.shape[2])  # h · [char_hidden | word_hidden]
    cell = char.new_zeros(N, B, H)
    steps = Steps([], [], [], [])
    for t in range(T):
        n = plan.running[t]
        if n == 0:
            break
        gates = char[:, t, :n] + pushed[:, :n, :GH]
        gates[..., :-H].sigmoid_()
        gates[..., -H:].tanh_()
        i, o, g = gates[..., :H], gates[..., -2 * H : -H], gates[..., -H:]
        before = cell[:, :n]
        cell = torch.lerp(before, g, i) if coupled else torch.addcmul(gates[..., H : 2 * H] * before, i, g)
        total = None
        if plan.any_closes[t]:
            mine = i.exp()
            total = inbox[:, t, :n, H:] + mine
            cell = torch.where(plan.closes[:, t, :n], torch.addcmul(inbox[:, t, :n, :H], mine, g) / total, cell)
        h = torch.mul(o, cell.tanh(), out=hidden[:, t, :n])
        pushed = torch.bmm(h, recurrent)
        words = None
        low, high = plan.cuts[t][0], plan.cuts[t][N]
        if high > low:
            rows = _compact(plan.row[low:high], n, B, N)
            words = _word_cells(word[low:high], link[low:high], rows, pushed[..., GH:], cell, link_hidden, plan.cuts[t])
            _, cells, _, weight = words
            arrived.index_add_(0, plan.end[low:high], torch.cat([weight * cells, weight], dim=1))
        if keep:
            steps.gates.append(gates)
            steps.cells.append(cell)
            steps.total.append(total)
            steps.words.append(words)
    return hidden, steps


def _compact(row: Tensor, n: int, B: int, N: int) -> Tensor:
    """Rows of [N, B] as rows of [N, n]."""
    return row if n == B or N == 1 else row // B * n + row % B


def _word_cells(
    word: Tensor, link: Tensor, rows: Tensor, pushed: Tensor, cell: Tensor, link_hidden: Tensor, cuts: list[int]
) -> tuple[Tensor, ...]:
    """The cells of the words that start now, and their gate at the character where they end."""
    H = cell.shape[2]
    gates = word + pushed.reshape(-1, 3 * H).index_select(0, rows)  # [w, 3H]: i, f, g
    gates[:, : 2 * H].sigmoid_()
    gates[:, 2 * H :].tanh_()
    i, f, g = gates.chunk(3, dim=1)
    cells = torch.addcmul(f * cell.reshape(-1, H).index_select(0, rows), i, g)
    a = torch.cat([torch.addmm(link[lo:hi], cells[lo:hi], m) for lo, hi, m in _by_direction(cuts, link_hidden)])
    a.sigmoid_()
    return gates, cells, a, a.exp()


def _by_direction(cuts: list[int], matrices: Tensor) -> list[tuple[int, int, Tensor]]:
    return [
        (low - cuts[0], high - cuts[0], matrix)
        for low, high, matrix in zip(cuts[:-1], cuts[1:], matrices, strict=True)
        if high > low
    ]


def run_backward(
    grad: Tensor, hidden: Tensor, steps: Steps, recurrent: Tensor, link_hidden: Tensor, plan: Plan, coupled: bool
) -> tuple[Tensor, ...]:
    """The gradients of char, word, link, recurrent and link_hidden, from that of h [N, T, B, H]."""
    N, T, B, H = hidden.shape
    GH = recurrent.shape[2] - 3 * H
    W = len(plan.row)
    d_push = hidden.new_zeros(N, T + 1, B, recurrent.shape[2])  # at t: d gates of character t | of words from t − 1
    d_word, d_link = hidden.new_zeros(W, 3 * H), hidden.new_zeros(W, H)
    d_arrived = hidden.new_zeros(N * T * B, 2 * H)
    d_inbox = d_arrived.view(N, T, B, 2 * H)
    d_cell_next = hidden.new_zeros(N, 0, H)
    back_recurrent, back_link = recurrent.transpose(1, 2), link_hidden.transpose(1, 2)
    for t in reversed(range(len(steps.cells))):
        gates, cell = steps.gates[t], steps.cells[t]
        n = cell.shape[1]
        d_cell = torch.cat([d_cell_next, cell.new_zeros(N, n - d_cell_next.shape[1], H)], dim=1)
        words = steps.words[t]
        if words is not None:
            low, high = plan.cuts[t][0], plan.cuts[t][N]
            rows = _compact(plan.row[low:high], n, B, N)
            arrived = d_arrived.index_select(0, plan.end[low:high])
            from_words = _word_cells_backward(arrived, words, rows, cell, back_link, plan.cuts[t])
            d_word[low:high], d_link[low:high], d_start_cell = from_words
            d_cell.view(-1, H).index_add_(0, rows, d_start_cell)
            d_words = cell.new_zeros(N * n, 3 * H).index_add_(0, rows, d_word[low:high])
            d_push[:, t + 1, :n, GH:] = d_words.view(N, n, 3 * H)
        d_h = torch.baddbmm(grad[:, t, :n], d_push[:, t + 1, :n], back_recurrent)
        before = steps.cells[t - 1][:, :n] if t else torch.zeros_like(cell)
        d_gates = d_push[:, t, :n, :GH]
        d_cell_next = _cell_backward(d_h, d_cell, gates, cell, before, coupled, d_gates)
        total = steps.total[t]
        if total is not None:
            closes = plan.closes[:, t, :n]
            d_cell_next = _merge_backward(d_cell, d_cell_next, gates, cell, total, closes, d_gates, d_inbox[:, t, :n])
    d_recurrent = torch.bmm(
        hidden.reshape(N, T * B, H).transpose(1, 2), d_push[:, 1:].reshape(N, T * B, recurrent.shape[2])
    )
    d_link_hidden = _link_gradient(steps, d_link, plan, link_hidden)
    return d_push[:, :T, :, :GH], d_word, d_link, d_recurrent, d_link_hidden


def _cell_backward(
    d_h: Tensor, d_cell: Tensor, gates: Tensor, cell: Tensor, before: Tensor, coupled: bool, d_gates: Tensor
) -> Tensor:
    """Through h = o ⊙ tanh(c) and c = f ⊙ c' + i ⊙ g. Writes d_gates; d_cell becomes the whole gradient of c."""
    H = cell.shape[2]
    i, o, g = gates[..., :H], gates[..., -2 * H : -H], gates[..., -H:]
    squashed = cell.tanh()
    d_cell += d_h * o * (1 - squashed * squashed)
    d_gates[..., -2 * H : -H] = d_h * squashed * o * (1 - o)
    d_gates[..., -H:] = d_cell * i * (1 - g * g)
    if coupled:
        d_gates[..., :H] = d_cell * (g - before) * i * (1 - i)
        return d_cell * (1 - i)
    f = gates[..., H : 2 * H]
    d_gates[..., :H] = d_cell * g * i * (1 - i)
    d_gates[..., H : 2 * H] = d_cell * before * f * (1 - f)
    return d_cell * f


def _merge_backward(
    d_cell: Tensor,
    d_before: Tensor,
    gates: Tensor,
    cell: Tensor,
    total: Tensor,
    closes: Tensor,
    d_gates: Tensor,
    d_inbox: Tensor,
) -> Tensor:
    """Where words end, c = (Σ e^a ⊙ c^w + e^i ⊙ g) / total instead: overwrite the gradients there."""
    H = cell.shape[2]
    i, g = gates[..., :H], gates[..., -H:]
    share = torch.where(closes, d_cell / total, 0)
    mine = share * i.exp()
    d_inbox[..., :H] = share
    d_inbox[..., H:] = -share * cell
    d_gates[..., : -2 * H] = torch.where(closes, 0, d_gates[..., : -2 * H])  # i, and f where there is one
    d_gates[..., :H] += mine * (g - cell) * i * (1 - i)
    d_gates[..., -H:] = torch.where(closes, mine * (1 - g * g), d_gates[..., -H:])
    return torch.where(closes, 0, d_before)


def _word_cells_backward(
    arrived: Tensor, words: tuple[Tensor, ...], rows: Tensor, cell: Tensor, back_link: Tensor, cuts: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient of (Σ e^a ⊙ c^w, Σ e^a) to those of the word's gates, its link gate, and the start's cell."""
    gates, cells, a, weight = words
    H = cells.shape[1]
    i, f, g = gates.chunk(3, dim=1)
    d_sum, d_total = arrived.chunk(2, dim=1)
    d_a = weight * torch.addcmul(d_total, d_sum, cells) * a * (1 - a)
    d_cells = torch.cat(
        [torch.addmm((weight * d_sum)[lo:hi], d_a[lo:hi], m) for lo, hi, m in _by_direction(cuts, back_link)]
    )
    start = cell.reshape(-1, H).index_select(0, rows)
    d_gates = torch.cat([d_cells * g * i * (1 - i), d_cells * start * f * (1 - f), d_cells * i * (1 - g * g)], dim=1)
    return d_gates, d_a, d_cells * f


def _link_gradient(steps: Steps, d_link: Tensor, plan: Plan, link_hidden: Tensor) -> Tensor:
    """One product a direction, after the loop."""
    kept = [words[1] for words in steps.words if words is not None]
    if not kept:
        return torch.zeros_like(link_hidden)
    cells, N = torch.cat(kept), len(link_hidden)
    direction = plan.row // (plan.closes.shape[2])
    return torch.stack([cells[direction == n].T @ d_link[direction == n] for n in range(N)])
