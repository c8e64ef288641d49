"""The lattice LSTM for a whole batch and N directions, one step a character, as `reference`.

README.md beside this file says what is done at once, and why it is exact. Rows of a batch are
sorted by length, so that the sentences still running at step t are always the first ones, and no
mask is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, mirror_places
from hanlattice.text.lattice import Lattice


def directions(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
) -> Tensor:
    """Return h [B, T, N·H] of one direction, or of two in one loop; zero after a sentence."""
    if len(weights) == 1:
        return side_by_side([x], word_x, [lattice], weights, coupled)[0]
    flip = mirror_index(lattice, x)
    xs = [x, take(x, flip)]
    ahead, back = side_by_side(xs, word_x, [lattice, lattice.reversed()], weights, coupled)
    return torch.cat([ahead, take(back, flip)], dim=-1)


def mirror_index(lattice: Lattice, like: Tensor) -> Tensor:
    """Return `mirror_places` for x [B, T, D], on its device."""
    return torch.from_numpy(mirror_places(lattice, like.shape[1])).to(like.device)


def take(x: Tensor, index: Tensor) -> Tensor:
    """Return x [B, T, D] with the rows of each sentence in the order of index [B, T]."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))


def side_by_side(
    xs: Sequence[Tensor],
    word_x: Tensor,
    lattices: Sequence[Lattice],
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
) -> Tensor:
    """Return h [N, B, T, H] of N runs over sentences of the same lengths."""
    plan = make_plan(lattices, xs[0])
    N = len(xs)
    B = xs[0].shape[0]
    T = xs[0].shape[1]
    H = weights[0].hidden
    if B == 0 or T == 0:
        return xs[0].new_zeros(N, B, T, H)
    real = (torch.arange(T, device=xs[0].device)[None] < plan.lengths[:, None])[:, :, None]
    rows = [torch.where(real, x, 0).index_select(0, plan.order).transpose(0, 1) for x in xs]
    x = torch.stack(rows).view(N, T * B, -1)
    # What needs no recurrence is done in few products: [N, T·B, G·H], [N, T·B, H] and [N·W, 3H].
    char_bias, link_bias = _stack(weights, "char_bias"), _stack(weights, "link_bias")
    char = torch.baddbmm(char_bias[:, None], x, _stack(weights, "char_input"))
    link = torch.baddbmm(link_bias[:, None], x, _stack(weights, "link_input"))
    word = torch.cat([torch.addmm(w.word_bias, word_x, w.word_input) for w in weights])
    # [N, H, (G+3)·H]
    recurrent = torch.cat([_stack(weights, "char_hidden"), _stack(weights, "word_hidden")], dim=2)
    gates = char.view(N, T, B, -1).transpose(0, 1).contiguous()
    words = word.index_select(0, plan.word)
    links = link.view(N, T, B, H).transpose(0, 1).reshape(-1, H).index_select(0, plan.end)
    inputs = (gates, words, links, recurrent, _stack(weights, "link_hidden"), plan, coupled)
    h: Tensor  # [T, N, B, H]
    if torch.is_grad_enabled():
        h = BatchedRecurrence.apply(*inputs)  # type: ignore[no-untyped-call]
    else:
        # It may write over its inputs, which are used no more.
        h, _ = run(*inputs)
    return h.permute(1, 2, 0, 3).index_select(1, plan.back)  # [N, B, T, H]


def _stack(weights: Sequence[LatticeLSTMWeights], name: str) -> Tensor:
    return torch.stack([getattr(direction, name) for direction in weights])


class Plan(NamedTuple):
    """Which rows and words each step touches.

    Words of all directions are in one list, by start, then by direction.
    """

    lengths: Tensor  # [B], in the caller's order
    order: Tensor  # [B]: sorted row → the caller's row, longest first
    back: Tensor  # [B]: the caller's row → sorted row
    running: list[int]  # [steps]: how many sorted rows are still running at each step
    word: Tensor  # [NW]: row in the stacked [N·W] table of words
    row: Tensor  # [NW]: row among the n·N that run when the word starts
    end: Tensor  # [NW]: (last character·N + n)·B + sorted row: where the word's cell arrives
    starting: list[int]  # [steps]: how many words start at each step
    # [steps][N + 1]: where the words that start at a step stand, direction by direction
    cuts: list[list[int]]
    closes: Tensor  # [T, N, B, 1]: whether a word ends here
    any_closes: list[bool]  # [steps]: whether a word ends at this step anywhere


def make_plan(lattices: Sequence[Lattice], like: Tensor) -> Plan:
    first = lattices[0]
    N = len(lattices)
    B, T = like.shape[:2]
    lengths, steps = first.lengths, int(first.lengths.max(initial=0))
    order = np.argsort(-lengths, kind="stable")
    back = np.argsort(order, kind="stable")
    running = B - np.searchsorted(np.sort(lengths), np.arange(steps), side="right")
    direction = np.repeat(np.arange(N), len(first))
    start, end, sentence = (
        np.concatenate([getattr(lattice, name) for lattice in lattices])
        for name in ("start", "end", "sentence")
    )
    # A stable sort: words that start together keep the lattice's order.
    sequence = np.lexsort((direction, start))
    direction = direction[sequence]
    start = start[sequence]
    last = end[sequence] - 1
    row = back[sentence[sequence]]
    arrives = (last * N + direction) * B + row
    closes = np.zeros(T * N * B, dtype=bool)
    closes[arrives] = True
    table = closes.reshape(T, N, B, 1)
    edges = np.searchsorted(start * N + direction, np.arange(steps * N + 1)).tolist()

    def tensor(array: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(like.device)

    return Plan(
        lengths=tensor(lengths.copy()),
        order=tensor(order),
        back=tensor(back),
        running=running.tolist(),
        word=tensor(sequence),
        row=tensor(direction * running[start] + row),
        end=tensor(arrives),
        starting=[edges[t * N + N] - edges[t * N] for t in range(steps)],
        cuts=[edges[t * N : t * N + N + 1] for t in range(steps)],
        closes=tensor(table),
        any_closes=[bool(step.any()) for step in table],
    )


class BatchedTrace(NamedTuple):
    """What a forward pass leaves for the backward one. Gates are kept after their nonlinearity."""

    gates: Tensor  # [T, N, B, G·H]
    cells: Tensor  # [T, N, B, H]
    total: Tensor  # [T, N, B, H]: e^i + Σ e^a where words end, 1 elsewhere
    word_gates: Tensor  # [NW, 3H]
    word_cells: Tensor  # [NW, H]
    starts: Tensor  # [NW, H]: the cell of the character where the word starts
    links: Tensor  # [NW, H]: a


class BatchedRecurrence(torch.autograd.Function):
    """The part that must go step by step, with its gradient, which README.md derives."""

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
        hidden, trace = run(
            char.clone(), word.clone(), link.clone(), recurrent, link_hidden, plan, coupled
        )
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(recurrent, link_hidden, hidden, *trace)
            ctx.plan = plan
            ctx.coupled = coupled
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, link_hidden, hidden, *trace = ctx.saved_tensors
        gradients = run_backward(
            grad, hidden, BatchedTrace(*trace), recurrent, link_hidden, ctx.plan, ctx.coupled
        )
        return *gradients, None, None


def run(
    gates: Tensor,
    word: Tensor,
    links: Tensor,
    recurrent: Tensor,
    link_hidden: Tensor,
    plan: Plan,
    coupled: bool,
) -> tuple[Tensor, BatchedTrace]:
    """Run the recurrence; return h [T, N, B, H] and what the backward pass needs.

    gates [T, N, B, G·H], word [NW, 3H] and links [NW, H] come before their nonlinearity and leave
    after it.
    """
    T, N, B, GH = gates.shape
    H = link_hidden.shape[1]
    W = len(word)
    hidden = gates.new_zeros(T, N, B, H)
    cells = gates.new_zeros(T, N, B, H)
    total = gates.new_ones(T, N, B, H)
    word_cells = word.new_empty(W, H)
    starts = word.new_empty(W, H)
    # Σ e^a ⊙ c^w and Σ e^a of the words that end at each character.
    arrived = gates.new_zeros(T * N * B, 2 * H)
    inbox = arrived.view(T, N, B, 2 * H)
    i_o_g = gates[..., :H], gates[..., -2 * H : -H], gates[..., -H:]
    parts = (gates, gates[..., :-H], *i_o_g, hidden, cells)
    merging = inbox[..., :H], inbox[..., H:], plan.closes, total
    starting = [
        torch.split(tensor, plan.starting)
        for tensor in (word, links, word_cells, starts, plan.row, plan.end)
    ]
    cell = cells[0]
    pushed = gates.new_zeros(N, B, recurrent.shape[2])
    for t, n in enumerate(plan.running):
        z, squashed, i, o, g, h, c = (_running(tensor[t], n) for tensor in parts)
        z += _running(pushed, n)[..., :GH]
        squashed.sigmoid_()
        g.tanh_()
        before = _running(cell, n)
        if coupled:
            torch.lerp(before, g, i, out=c)
        else:
            torch.addcmul(z[..., H : 2 * H] * before, i, g, out=c)
        if plan.any_closes[t]:
            numerator, weight, closes, denominator = (_running(tensor[t], n) for tensor in merging)
            mine = i.exp()
            merged = torch.addcmul(numerator, mine, g).div_(mine.add_(weight))
            torch.where(closes, merged, c, out=c)
            torch.where(closes, mine, denominator, out=denominator)
        torch.mul(o, c.tanh(), out=h)
        cell = c
        pushed = torch.bmm(h, recurrent)
        if plan.starting[t]:
            *mine_now, ends = (tensor[t] for tensor in starting)
            sent = word_step(mine_now, pushed, cell, link_hidden, plan.cuts[t])
            arrived.index_add_(0, ends, sent)
    return hidden, BatchedTrace(gates, cells, total, word, word_cells, starts, links)


def _running(tensor: Tensor, n: int) -> Tensor:
    """Return the rows of [N, B, …] that are still running."""
    return tensor if tensor.shape[1] == n else tensor[:, :n]


def word_step(
    words: Sequence[Tensor], pushed: Tensor, cell: Tensor, link_hidden: Tensor, cuts: list[int]
) -> Tensor:
    """Fill in the words that start now; return [w, 2H], e^a ⊙ c^w and e^a, for their ends."""
    gates, links, cells, starts, rows = words
    H = cell.shape[2]
    gates += pushed.view(-1, pushed.shape[2])[:, -3 * H :].index_select(0, rows)
    gates[:, : 2 * H].sigmoid_()
    i, f, g = gates.chunk(3, dim=1)
    torch.index_select(cell.reshape(-1, H), 0, rows, out=starts)
    torch.mul(f, starts, out=cells).addcmul_(i, g.tanh_())
    for low, high, matrix in _by_direction(cuts, link_hidden):
        links[low:high].addmm_(cells[low:high], matrix)
    sent = gates.new_empty(len(gates), 2 * H)
    weight = torch.exp(links.sigmoid_(), out=sent[:, H:])
    torch.mul(weight, cells, out=sent[:, :H])
    return sent


def _by_direction(cuts: list[int], matrices: Tensor) -> list[tuple[int, int, Tensor]]:
    pairs = zip(cuts[:-1], cuts[1:], matrices, strict=True)
    return [(low - cuts[0], high - cuts[0], matrix) for low, high, matrix in pairs if high > low]


def run_backward(
    grad: Tensor,
    hidden: Tensor,
    trace: BatchedTrace,
    recurrent: Tensor,
    link_hidden: Tensor,
    plan: Plan,
    coupled: bool,
) -> tuple[Tensor, ...]:
    """Return the gradients by char, word, link, recurrent and link_hidden.

    What a gradient is multiplied by does not depend on the gradient, so all factors are made before
    the loop.
    """
    T, N, B, H = hidden.shape
    GH = recurrent.shape[2] - 3 * H
    W = len(plan.row)
    to_cell, to_output, to_gates, to_inbox, to_before = _cell_factors(trace, plan, coupled)
    # At t: d gates of character t, then of the words that start at t − 1.
    d_push = hidden.new_zeros(T + 1, N, B, recurrent.shape[2])
    d_arrived = hidden.new_zeros(T * N * B, 2 * H)
    d_word = hidden.new_zeros(W, 3, H)
    d_link = hidden.new_zeros(W, H)
    d_cell = hidden.new_zeros(N, B, H)
    words = (d_word, d_link, *_word_factors(trace), plan.row, plan.end)
    starting = [torch.split(tensor, plan.starting) for tensor in words]
    d_char = d_push[..., :GH].view(T + 1, N, B, -1, H)
    parts = grad, to_cell, to_output, to_gates, to_before, d_char, d_char[..., -2, :]
    merging = to_inbox, d_arrived.view(T, N, B, 2, H)
    back_recurrent = recurrent.transpose(1, 2)
    back_link = link_hidden.transpose(1, 2)
    for t in reversed(range(len(plan.running))):
        n = plan.running[t]
        # Rows that ended before t + 1 are still zero.
        grown = _running(d_cell, n)
        d_next = _running(d_push[t + 1], n)
        if plan.starting[t]:
            *mine, rows, ends = (tensor[t] for tensor in starting)
            d_ends = d_arrived.index_select(0, ends)
            d_start = word_step_backward(mine, d_ends, back_link, plan.cuts[t])
            grown = grown.contiguous()
            grown.view(-1, H).index_add_(0, rows, d_start)
            d_words = hidden.new_zeros(N * n, 3 * H).index_add_(0, rows, mine[0].view(-1, 3 * H))
            d_next[..., GH:] = d_words.view(N, n, 3 * H)
        d_out, cell_factor, output_factor, gate_factors, before_factor, d_gates, d_o = (
            _running(tensor[t], n) for tensor in parts
        )
        d_h = torch.baddbmm(d_out, d_next, back_recurrent)
        grown = torch.addcmul(grown, d_h, cell_factor)
        torch.mul(grown[:, :, None], gate_factors, out=d_gates)
        torch.mul(d_h, output_factor, out=d_o)
        if plan.any_closes[t]:
            inbox_factors, d_inbox = (_running(tensor[t], n) for tensor in merging)
            torch.mul(grown[:, :, None], inbox_factors, out=d_inbox)
        torch.mul(grown, before_factor, out=_running(d_cell, n))
    flat = hidden.permute(1, 3, 0, 2).reshape(N, H, T * B)
    d_recurrent = torch.bmm(flat, d_push[1:].transpose(0, 1).reshape(N, T * B, -1))
    d_link_hidden = _link_gradient(trace.word_cells, d_link, plan)
    return d_push[:T, ..., :GH], d_word.view(W, 3 * H), d_link, d_recurrent, d_link_hidden


def _cell_factors(trace: BatchedTrace, plan: Plan, coupled: bool) -> tuple[Tensor, ...]:
    """Return the factors of d h (to c and o) and of d c (to gates, arrived and the last cell).

    c is f ⊙ c' + i ⊙ g, or, where words end, (Σ e^a ⊙ c^w + e^i ⊙ g) / total, which does not look
    at c'.
    """
    gates = trace.gates
    cells = trace.cells
    total = trace.total
    H = cells.shape[3]
    i = gates[..., :H]
    o = gates[..., -2 * H : -H]
    g = gates[..., -H:]
    before = torch.cat([torch.zeros_like(cells[:1]), cells[:-1]])
    squashed = cells.tanh()
    # The share of c that each unit of what arrived has.
    share = torch.where(plan.closes, total.reciprocal(), 0)
    mine = share * i.exp()
    on_i = torch.where(plan.closes, mine * (g - cells), (g - before) if coupled else g)
    on_i = on_i * i * (1 - i)
    on_g = torch.where(plan.closes, mine, i) * (1 - g * g)
    f = 1 - i if coupled else gates[..., H : 2 * H]
    to_before = torch.where(plan.closes, 0, f)
    # The place of o, which d h fills.
    nothing = torch.zeros_like(on_i)
    on_f = [] if coupled else [torch.where(plan.closes, 0, before) * f * (1 - f)]
    to_gates = torch.stack([on_i, *on_f, nothing, on_g], dim=3)
    to_inbox = torch.stack([share, -share * cells], dim=3)
    return o * (1 - squashed * squashed), squashed * o * (1 - o), to_gates, to_inbox, to_before


def _word_factors(trace: BatchedTrace) -> tuple[Tensor, ...]:
    """Return the factors of a word's gradients: to a, c^w, its gates and the cell of its start."""
    i, f, g = trace.word_gates.chunk(3, dim=1)
    weight = trace.links.exp()
    to_gates = torch.stack([g * i * (1 - i), trace.starts * f * (1 - f), i * (1 - g * g)], dim=1)
    return weight * trace.links * (1 - trace.links), weight, trace.word_cells, to_gates, f


def word_step_backward(
    words: Sequence[Tensor], arrived: Tensor, back_link: Tensor, cuts: list[int]
) -> Tensor:
    """Fill in d gates [w, 3, H] and d a of words; return d of the cells where they start."""
    d_gates, d_a, slope, weight, cells, to_gates, to_start = words
    d_sum, d_total = arrived.chunk(2, dim=1)
    torch.addcmul(d_total, d_sum, cells, out=d_a).mul_(slope)
    d_cells = weight * d_sum
    for low, high, matrix in _by_direction(cuts, back_link):
        d_cells[low:high].addmm_(d_a[low:high], matrix)
    torch.mul(d_cells[:, None], to_gates, out=d_gates)
    return d_cells.mul_(to_start)


def _link_gradient(cells: Tensor, d_link: Tensor, plan: Plan) -> Tensor:
    """Return one product for each direction, after the loop."""
    N = plan.closes.shape[1]
    counts = torch.tensor([np.diff(cut).tolist() for cut in plan.cuts], dtype=torch.int64)
    direction = torch.arange(N).repeat(len(plan.cuts)).repeat_interleave(counts.flatten())
    direction = direction.to(cells.device)
    return torch.stack([cells[direction == n].T @ d_link[direction == n] for n in range(N)])
