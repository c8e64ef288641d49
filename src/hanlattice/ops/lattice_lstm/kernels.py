"""The recurrence of the lattice LSTM in Triton: one program takes a few sentences through one direction, step by step.

Everything that a later phase reads goes through global memory, where the caches hold it; a barrier follows each phase.
README.md beside this file has the equations, the phases and what was measured.

Buffers, with R = B·stride rows of characters, N directions and F = 1 if the cell is uncoupled, else 0:

    chars [R, N, 4 + F, H]       before the gates' nonlinearity: i, o, g, link, (f); the gates are kept in its place
    words [W, N, 3, H]           the same for words' gates i, f, g
    weights [HP, N, 7 + F, HP]   recurrent weights of i, o, g, words' i, f, g, link, (f), padded with 0 from H to HP
    hidden, cells [R, N, H]; word_cells, word_links [N, W, H] in the order in which words end
    d_gates [R, N·(4 + F)·H + N·3·H]   gradients of chars, and of what a character gives to all words that start there

A program has M slots: ROWS sentences, each RANKS times. What belongs to characters is the same in all slots of a
sentence, and the first one writes it; of the words that start or end together each slot takes another.
"""

# mypy: ignore-errors
# (Triton's language only looks like Python: its functions are compiled, and its values have no Python types.)
from __future__ import annotations

import triton
import triton.language as tl

# Sizes differ from batch to batch, and arrays of the schedule begin anywhere: no version of the kernels for each case.
SIZES = ["B", "R", "W", "stride", "ROWS", "RANKS"]
ARRAYS = ["order", "lengths", "starts", "ends", "row", "place"]


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0)


@triton.jit
def _rows(rows, has, k, H: tl.constexpr):
    """Columns k of the rows [M, H] at these pointers."""
    return tl.load(rows[:, None] + k[None, :], mask=has[:, None] & (k < H)[None, :], other=0.0)


@triton.jit
def _product(
    acc, rows, has, weights, n,
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """acc [M, BN] + the rows [M, H] at these pointers times the columns n of one gate's weights."""
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        w = tl.load(weights + k[:, None] * STEP + n[None, :], mask=(n < HP)[None, :], other=0.0)
        acc = tl.dot(_rows(rows, has, k, H).to(w.dtype), w, acc, input_precision=PRECISION)
    return acc


@triton.jit
def _product3(
    acc0, acc1, acc2, rows, has, weights, n,
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The same for three gates that stand side by side."""
    inside = (n < HP)[None, :]
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        w = weights + k[:, None] * STEP + n[None, :]
        w0 = tl.load(w, mask=inside, other=0.0)
        w1 = tl.load(w + HP, mask=inside, other=0.0)
        w2 = tl.load(w + 2 * HP, mask=inside, other=0.0)
        a = _rows(rows, has, k, H).to(w0.dtype)
        acc0 = tl.dot(a, w0, acc0, input_precision=PRECISION)
        acc1 = tl.dot(a, w1, acc1, input_precision=PRECISION)
        acc2 = tl.dot(a, w2, acc2, input_precision=PRECISION)
    return acc0, acc1, acc2


@triton.jit
def _product6(
    acc0, acc1, acc2, acc3, acc4, acc5, rows, has, weights, n,
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The same for six."""
    inside = (n < HP)[None, :]
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        w = weights + k[:, None] * STEP + n[None, :]
        w0 = tl.load(w, mask=inside, other=0.0)
        w1 = tl.load(w + HP, mask=inside, other=0.0)
        w2 = tl.load(w + 2 * HP, mask=inside, other=0.0)
        w3 = tl.load(w + 3 * HP, mask=inside, other=0.0)
        w4 = tl.load(w + 4 * HP, mask=inside, other=0.0)
        w5 = tl.load(w + 5 * HP, mask=inside, other=0.0)
        a = _rows(rows, has, k, H).to(w0.dtype)
        acc0 = tl.dot(a, w0, acc0, input_precision=PRECISION)
        acc1 = tl.dot(a, w1, acc1, input_precision=PRECISION)
        acc2 = tl.dot(a, w2, acc2, input_precision=PRECISION)
        acc3 = tl.dot(a, w3, acc3, input_precision=PRECISION)
        acc4 = tl.dot(a, w4, acc4, input_precision=PRECISION)
        acc5 = tl.dot(a, w5, acc5, input_precision=PRECISION)
    return acc0, acc1, acc2, acc3, acc4, acc5


@triton.jit
def _back_product(
    acc, rows, has, weights, n,
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """acc [M, BN] + the rows [M, H] times the rows n of one gate's weights: the product with the transposed matrix."""
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        w = tl.load(weights + n[:, None] * STEP + k[None, :], mask=(n < HP)[:, None], other=0.0)
        acc = tl.dot(_rows(rows, has, k, H).to(w.dtype), tl.trans(w), acc, input_precision=PRECISION)
    return acc


@triton.jit
def _back_products(
    acc, d_gates, of_chars, has_chars, of_words, has_words, gates, weights, n,
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The same, summed over gates that stand side by side: i, o, g of the character, i, f, g of words."""
    for k0 in range(0, gates * HP, BK):
        gate = k0 // HP
        is_char = gate < 3
        k = k0 - gate * HP + tl.arange(0, BK)
        rows = d_gates + tl.where(is_char, of_chars + gate * H, of_words + (gate - 3) * H)
        has = tl.where(is_char, has_chars, has_words)
        w = tl.load(weights + n[:, None] * STEP + gate * HP + k[None, :], mask=(n < HP)[:, None], other=0.0)
        acc = tl.dot(_rows(rows, has, k, H).to(w.dtype), tl.trans(w), acc, input_precision=PRECISION)
    return acc


@triton.jit
def _where(t, direction, base, length):
    """Whether each sentence is running at step t, and the row of the character that it then reads."""
    on = (t < length) & (length - t <= length)  # t ≥ 0
    return on, base + tl.where(on, t + direction * (length - 1 - 2 * t), 0)


@triton.jit
def _listed(begins, at, on):
    """Where the words of a row begin in their order, and how many there are."""
    first = tl.load(begins + at, mask=on, other=0)
    return first, tl.load(begins + at + 1, mask=on, other=0) - first


@triton.jit(do_not_specialize=SIZES, do_not_specialize_on_alignment=ARRAYS)
def forward_kernel(
    chars, words, weights, hidden, cells, word_cells, word_links,
    order, lengths, starts, ends, row, place,
    B, R, W, stride, ROWS, RANKS,
    N: tl.constexpr, F: tl.constexpr, H: tl.constexpr, HP: tl.constexpr,
    M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    direction = tl.program_id(1)
    m = tl.arange(0, M)
    sentence = tl.program_id(0) * ROWS + m // RANKS
    rank = m % RANKS
    has = (m < ROWS * RANKS) & (sentence < B)
    writes = has & (rank == 0)
    base = tl.load(order + sentence, mask=has, other=0).to(tl.int64) * stride
    length = tl.load(lengths + sentence, mask=has, other=0)
    STEP: tl.constexpr = N * (7 + F) * HP
    weights += direction * (7 + F) * HP
    starts += direction * (R + 1)
    ends += direction * (R + 1)
    row += direction * W
    place += direction * W
    word_cells += direction.to(tl.int64) * W * H
    word_links += direction.to(tl.int64) * W * H
    on, at = _where(0, direction, base, length)
    ended, ending = _listed(ends, at, on)
    started, starting = _listed(starts, at, on)
    for t in range(tl.max(length, 0)):
        most_ending = tl.max(ending, 0)
        most_starting = tl.max(starting, 0)
        state = (at * N + direction) * H
        state_before = ((at - 1 + 2 * direction) * N + direction) * H
        mine = chars + (at * N + direction) * ((4 + F) * H)
        goes_on = on & (length - t < length)  # t > 0

        # The character: gates, cell, state.
        for n0 in range(0, H, BN):
            n = n0 + tl.arange(0, BN)
            inside = (n < H)[None, :]
            real = on[:, None] & inside
            gate = mine[:, None] + n[None, :]
            i = _sigmoid(tl.load(gate, mask=real, other=0.0))
            o = _sigmoid(tl.load(gate + H, mask=real, other=0.0))
            g = _tanh(tl.load(gate + 2 * H, mask=real, other=0.0))
            f = 1.0 - i
            if F:
                f = _sigmoid(tl.load(gate + 4 * H, mask=real, other=0.0))
            c = f * tl.load(cells + state_before[:, None] + n[None, :], mask=goes_on[:, None] & inside, other=0.0)
            c += i * g
            if most_ending > 0:
                link = tl.load(gate + 3 * H, mask=real, other=0.0)
                weight = tl.exp(i)
                total = weight * g
                for j in range(0, most_ending, 2):  # two at a time, so that one waits for memory while the other does
                    at_word = (ended + j).to(tl.int64)[:, None] * H + n[None, :]
                    there = (j < ending)[:, None] & real
                    too = (j + 1 < ending)[:, None] & real
                    v = tl.load(word_links + at_word, mask=there, other=0.0)
                    v_too = tl.load(word_links + at_word + H, mask=too, other=0.0)
                    c_w = tl.load(word_cells + at_word, mask=there, other=0.0)
                    c_too = tl.load(word_cells + at_word + H, mask=too, other=0.0)
                    e = tl.where(there, tl.exp(_sigmoid(link + v)), 0.0)
                    e_too = tl.where(too, tl.exp(_sigmoid(link + v_too)), 0.0)
                    weight = weight + e + e_too
                    total = total + e * c_w + e_too * c_too
                c = tl.where((ending > 0)[:, None], total / weight, c)
            written = writes[:, None] & real
            tl.store(cells + state[:, None] + n[None, :], c, mask=written)
            tl.store(hidden + state[:, None] + n[None, :], o * _tanh(c), mask=written)
            if KEEP:
                tl.debug_barrier()  # other slots may still have to read what stands there
                tl.store(gate, i, mask=written)
                tl.store(gate + H, o, mask=written)
                tl.store(gate + 2 * H, g, mask=written)
                if F:
                    tl.store(gate + 4 * H, f, mask=written)
        tl.debug_barrier()

        # Its products, for the next character and for the words that start here; the cells of these words.
        on_next, at_next = _where(t + 1, direction, base, length)
        ended, ending = _listed(ends, at_next, on_next)
        started_next, starting_next = _listed(starts, at_next, on_next)
        begins = rank < starting
        first_place = tl.load(place + started + rank, mask=begins, other=0).to(tl.int64) * H
        first_row = tl.load(row + started + rank, mask=begins, other=0).to(tl.int64)
        for n0 in range(0, H, BN):
            n = n0 + tl.arange(0, BN)
            inside = (n < H)[None, :]
            real = on_next[:, None] & inside
            gate = chars + ((at_next * N + direction) * ((4 + F) * H))[:, None] + n[None, :]
            z_i = tl.load(gate, mask=real, other=0.0)
            z_o = tl.load(gate + H, mask=real, other=0.0)
            z_g = tl.load(gate + 2 * H, mask=real, other=0.0)
            if F:
                z_f = tl.load(gate + 4 * H, mask=real, other=0.0)
                z_f = _product(z_f, hidden + state, on_next, weights + 7 * HP, n, H, HP, STEP, BK, PRECISION)
                tl.store(gate + 4 * H, z_f, mask=writes[:, None] & real)
            if most_starting > 0:
                q = first_place
                there = begins[:, None] & inside
                word = words + (first_row * N + direction)[:, None] * (3 * H) + n[None, :]
                w_i = tl.load(word, mask=there, other=0.0)
                w_f = tl.load(word + H, mask=there, other=0.0)
                w_g = tl.load(word + 2 * H, mask=there, other=0.0)
                c = tl.load(cells + state[:, None] + n[None, :], mask=on[:, None] & inside, other=0.0)
                p_i = tl.zeros((M, BN), dtype=tl.float32)
                p_f = tl.zeros((M, BN), dtype=tl.float32)
                p_g = tl.zeros((M, BN), dtype=tl.float32)
                z_i, z_o, z_g, p_i, p_f, p_g = _product6(
                    z_i, z_o, z_g, p_i, p_f, p_g, hidden + state, on, weights, n, H, HP, STEP, BK, PRECISION
                )
                for j in range(RANKS, most_starting + RANKS, RANKS):
                    i, f, g = _sigmoid(w_i + p_i), _sigmoid(w_f + p_f), _tanh(w_g + p_g)
                    tl.store(word_cells + q[:, None] + n[None, :], f * c + i * g, mask=there)
                    if KEEP:
                        tl.debug_barrier()
                        tl.store(word, i, mask=there)
                        tl.store(word + H, f, mask=there)
                        tl.store(word + 2 * H, g, mask=there)
                    more = j + rank < starting
                    there = more[:, None] & inside
                    q = tl.load(place + started + j + rank, mask=more, other=0).to(tl.int64) * H
                    r = tl.load(row + started + j + rank, mask=more, other=0).to(tl.int64)
                    word = words + (r * N + direction)[:, None] * (3 * H) + n[None, :]
                    w_i = tl.load(word, mask=there, other=0.0)
                    w_f = tl.load(word + H, mask=there, other=0.0)
                    w_g = tl.load(word + 2 * H, mask=there, other=0.0)
            else:
                z_i, z_o, z_g = _product3(
                    z_i, z_o, z_g, hidden + state, on_next, weights, n, H, HP, STEP, BK, PRECISION
                )
            tl.store(gate, z_i, mask=writes[:, None] & real)
            tl.store(gate + H, z_o, mask=writes[:, None] & real)
            tl.store(gate + 2 * H, z_g, mask=writes[:, None] & real)
        tl.debug_barrier()

        # What these words say to the gate at their end.
        if most_starting > 0:
            q = first_place
            for j in range(RANKS, most_starting + RANKS, RANKS):
                for n0 in range(0, H, BN):
                    n = n0 + tl.arange(0, BN)
                    v = tl.zeros((M, BN), dtype=tl.float32)
                    v = _product(v, word_cells + q, begins, weights + 6 * HP, n, H, HP, STEP, BK, PRECISION)
                    tl.store(word_links + q[:, None] + n[None, :], v, mask=begins[:, None] & (n < H)[None, :])
                begins = j + rank < starting
                q = tl.load(place + started + j + rank, mask=begins, other=0).to(tl.int64) * H
            tl.debug_barrier()
        on, at = on_next, at_next
        started, starting = started_next, starting_next


@triton.jit(do_not_specialize=SIZES, do_not_specialize_on_alignment=ARRAYS)
def backward_kernel(
    grad, chars, words, weights, cells, word_cells, word_links,
    d_gates, d_words, d_word_cells, d_word_links, carry,
    order, lengths, starts, ends, row, place,
    B, R, W, stride, ROWS, RANKS,
    N: tl.constexpr, F: tl.constexpr, H: tl.constexpr, HP: tl.constexpr,
    M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    direction = tl.program_id(1)
    m = tl.arange(0, M)
    sentence = tl.program_id(0) * ROWS + m // RANKS
    rank = m % RANKS
    has = (m < ROWS * RANKS) & (sentence < B)
    writes = has & (rank == 0)
    base = tl.load(order + sentence, mask=has, other=0).to(tl.int64) * stride
    length = tl.load(lengths + sentence, mask=has, other=0)
    STEP: tl.constexpr = N * (7 + F) * HP
    WIDTH: tl.constexpr = N * (7 + F) * H  # of d_gates
    weights += direction * (7 + F) * HP
    starts += direction * (R + 1)
    ends += direction * (R + 1)
    row += direction * W
    place += direction * W
    of_direction = direction.to(tl.int64) * W * H
    word_cells += of_direction
    word_links += of_direction
    d_word_cells += of_direction
    d_word_links += of_direction
    carry += (sentence * N + direction).to(tl.int64) * H  # [3, B, N, H]: d c, in turns; what words add to it
    turn = B.to(tl.int64) * N * H
    steps = tl.max(length, 0)
    on, at = _where(steps - 1, direction, base, length)
    ended, ending = _listed(ends, at, on)
    started, starting = _listed(starts, at, on)
    for s in range(steps):
        t = steps - 1 - s
        most_ending = tl.max(ending, 0)
        most_starting = tl.max(starting, 0)
        gates_at = (at * N + direction) * ((4 + F) * H)
        d_at = at * WIDTH + direction * ((4 + F) * H)
        d_after = (at + 1 - 2 * direction) * WIDTH + direction * ((4 + F) * H)
        d_pushed = at * WIDTH + N * (4 + F) * H + direction * (3 * H)
        state = (at * N + direction) * H
        state_before = ((at - 1 + 2 * direction) * N + direction) * H
        goes_on = on & (length - t < length)  # t > 0
        went_on = has & (t + 1 < length)
        carried = carry + (t % 2) * turn
        carries = carry + ((t + 1) % 2) * turn
        from_words = carry + 2 * turn

        # The words that start here: d of their gates, one by one and summed.
        if most_starting > 0:
            for n0 in range(0, H, BN):
                n = n0 + tl.arange(0, BN)
                inside = (n < H)[None, :]
                real = on[:, None] & inside
                c = tl.load(cells + state[:, None] + n[None, :], mask=real, other=0.0)
                d_c = tl.zeros((M, BN), dtype=tl.float32)
                d_i = tl.zeros((M, BN), dtype=tl.float32)
                d_f = tl.zeros((M, BN), dtype=tl.float32)
                d_g = tl.zeros((M, BN), dtype=tl.float32)
                r = tl.load(row + started, mask=starting > 0, other=0).to(tl.int64)
                q = tl.load(place + started, mask=starting > 0, other=0).to(tl.int64)
                for j in range(1, most_starting + 1):
                    there = (j <= starting)[:, None] & inside
                    word = (r * N + direction)[:, None] * (3 * H) + n[None, :]
                    i = tl.load(words + word, mask=there, other=0.0)
                    f = tl.load(words + word + H, mask=there, other=0.0)
                    g = tl.load(words + word + 2 * H, mask=there, other=0.0)
                    d_w = tl.load(d_word_cells + q[:, None] * H + n[None, :], mask=there, other=0.0)
                    r = tl.load(row + started + j, mask=j < starting, other=0).to(tl.int64)
                    q = tl.load(place + started + j, mask=j < starting, other=0).to(tl.int64)
                    w_i = d_w * g * i * (1.0 - i)
                    w_f = d_w * c * f * (1.0 - f)
                    w_g = d_w * i * (1.0 - g * g)
                    written = there & writes[:, None]
                    tl.store(d_words + word, w_i, mask=written)
                    tl.store(d_words + word + H, w_f, mask=written)
                    tl.store(d_words + word + 2 * H, w_g, mask=written)
                    d_i += w_i
                    d_f += w_f
                    d_g += w_g
                    d_c += d_w * f
                pushed = d_gates + d_pushed[:, None] + n[None, :]
                written = real & writes[:, None]
                tl.store(pushed, d_i, mask=written)
                tl.store(pushed + H, d_f, mask=written)
                tl.store(pushed + 2 * H, d_g, mask=written)
                tl.store(from_words[:, None] + n[None, :], d_c, mask=written)
            tl.debug_barrier()

        # The character: d h, d c, d of its gates; what goes to the words that end here.
        on_next, at_next = _where(t - 1, direction, base, length)
        ended_next, ending_next = _listed(ends, at_next, on_next)
        started_next, starting_next = _listed(starts, at_next, on_next)
        gates = tl.where(most_starting > 0, 6, 3)
        for n0 in range(0, H, BN):
            n = n0 + tl.arange(0, BN)
            inside = (n < H)[None, :]
            real = on[:, None] & inside
            gate = chars + gates_at[:, None] + n[None, :]
            i = tl.load(gate, mask=real, other=0.0)
            o = tl.load(gate + H, mask=real, other=0.0)
            g = tl.load(gate + 2 * H, mask=real, other=0.0)
            c = tl.load(cells + state[:, None] + n[None, :], mask=real, other=0.0)
            c_before = tl.load(cells + state_before[:, None] + n[None, :], mask=goes_on[:, None] & inside, other=0.0)
            d_c = tl.load(carried[:, None] + n[None, :], mask=real, other=0.0)
            d_h = tl.load(grad + state[:, None] + n[None, :], mask=real, other=0.0)
            d_h = _back_products(
                d_h, d_gates, d_after, went_on, d_pushed, on, gates, weights, n, H, HP, STEP, BK, PRECISION
            )
            if F:
                d_h = _back_product(
                    d_h, d_gates + d_after + 4 * H, went_on, weights + 7 * HP, n, H, HP, STEP, BK, PRECISION
                )
            if most_starting > 0:
                d_c += tl.load(from_words[:, None] + n[None, :], mask=real, other=0.0)
            squashed = _tanh(c)
            d_c += d_h * o * (1.0 - squashed * squashed)
            f = 1.0 - i
            on_i = g - c_before  # by which d c is multiplied on its way to i
            if F:
                f = tl.load(gate + 4 * H, mask=real, other=0.0)
                on_i = g
            share = i  # of g in c
            closes = (ending > 0)[:, None]
            d_gate = d_gates + d_at[:, None] + n[None, :]
            written = real & writes[:, None]
            if most_ending > 0:
                link = tl.load(gate + 3 * H, mask=real, other=0.0)
                own = tl.exp(i)
                weight = own
                for j in range(0, most_ending, 2):
                    at_word = (ended + j).to(tl.int64)[:, None] * H + n[None, :]
                    there = (j < ending)[:, None] & real
                    too = (j + 1 < ending)[:, None] & real
                    v = tl.load(word_links + at_word, mask=there, other=0.0)
                    v_too = tl.load(word_links + at_word + H, mask=too, other=0.0)
                    weight += tl.where(there, tl.exp(_sigmoid(link + v)), 0.0)
                    weight += tl.where(too, tl.exp(_sigmoid(link + v_too)), 0.0)
                d_sum = d_c / weight
                d_link = tl.zeros((M, BN), dtype=tl.float32)
                for j in range(most_ending):
                    at_word = (ended + j).to(tl.int64)[:, None] * H + n[None, :]
                    there = (j < ending)[:, None] & real
                    v = tl.load(word_links + at_word, mask=there, other=0.0)
                    c_w = tl.load(word_cells + at_word, mask=there, other=0.0)
                    a = _sigmoid(link + v)
                    e = tl.where(there, tl.exp(a), 0.0)
                    d_v = d_sum * e * (c_w - c) * a * (1.0 - a)
                    tl.store(d_word_links + at_word, d_v, mask=there & writes[:, None])
                    tl.store(d_word_cells + at_word, d_sum * e, mask=there & writes[:, None])
                    d_link += d_v
                tl.store(d_gate + 3 * H, d_link, mask=written)
                share = tl.where(closes, own / weight, share)
                on_i = tl.where(closes, (g - c) * share, on_i)
            d_before = tl.where(closes, 0.0, d_c)
            tl.store(d_gate, d_c * on_i * i * (1.0 - i), mask=written)
            tl.store(d_gate + H, d_h * squashed * o * (1.0 - o), mask=written)
            tl.store(d_gate + 2 * H, d_c * share * (1.0 - g * g), mask=written)
            if F:
                tl.store(d_gate + 4 * H, d_before * c_before * f * (1.0 - f), mask=written)
            tl.store(carries[:, None] + n[None, :], d_before * f, mask=written)
        tl.debug_barrier()

        # What these words get through the link gate.
        for j in range(0, most_ending, RANKS):
            there = j + rank < ending
            q = (ended + j + rank).to(tl.int64) * H
            for n0 in range(0, H, BN):
                n = n0 + tl.arange(0, BN)
                at_word = d_word_cells + q[:, None] + n[None, :]
                real = there[:, None] & (n < H)[None, :]
                d_w = tl.load(at_word, mask=real, other=0.0)
                d_w = _back_product(d_w, d_word_links + q, there, weights + 6 * HP, n, H, HP, STEP, BK, PRECISION)
                tl.store(at_word, d_w, mask=real)
        tl.debug_barrier()
        on, at = on_next, at_next
        ended, ending = ended_next, ending_next
        started, starting = started_next, starting_next
