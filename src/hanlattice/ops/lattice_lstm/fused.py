"""The lattice LSTM on a GPU: the whole recurrence, both directions, is one launch forward and one
backward.

The products with the inputs come before the launch and the gradients of the weights after it, as a
few large matrix products. In a launch one program takes a few sentences through one direction, step
by step. Everything that a later phase reads goes through global memory, where the caches hold it; a
barrier follows each phase. README.md has the equations, the phases and what they cost.

Buffers, with R = B·stride rows of characters, N directions and F = 1 if the cell is uncoupled, else
0:

    chars [R, N, 4 + F, H]       before the gates' nonlinearity: i, o, g, link, (f); the gates are
    kept in its place
    words [W, N, 3, H]           the same for words' gates i, f, g
    weights [HP, N, 7 + F, HP]   recurrent weights of i, o, g, words' i, f, g, link, (f), padded
    with 0 from H to HP
    hidden, cells [R, N, H]; word_cells, word_links [N, W, H] in the order in which words end
    d_gates [R, N·(4 + F)·H + N·3·H]   gradients of chars, and of what a character gives to all
    words that start there

A program has M slots: ROWS sentences, each RANKS times. What belongs to characters is the same in
all slots of a sentence, and the first one writes it; of the words that start or end together each
slot takes another.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# (Triton's language only looks like Python: its functions are compiled, and its values have no
# Python types.)
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from hanlattice.ops import gpu
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, gate_count
from hanlattice.ops.packing import inverse
from hanlattice.text.lattice import Ints, Lattice

# Rows of a tile: the fewest that the matrix units take.
SLOTS = 16
# Recurrent matrices are padded to whole multiples of it, so that no tile reads past them.
WHOLE = 64
# Sizes differ from batch to batch, and arrays of the schedule begin anywhere: no version of the
# kernels for each case.
SIZES = ["B", "R", "W", "stride", "ROWS", "RANKS"]
ARRAYS = ["order", "lengths", "starts", "ends", "row", "place"]


def directions(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
    precision: str,
) -> Tensor:
    """Return h [B, T, N·H] of one direction, or of two in one launch; zero after a sentence.

    `precision` is that of the recurrent products' factors: fp32, tf32 or bf16.
    """
    B, T, _ = x.shape
    plan = schedule(lattice, x.device)
    longest = plan.stride - 1
    if B == 0 or longest == 0:
        return x.new_zeros(B, T, len(weights) * weights[0].hidden)
    setting = Setting(plan, coupled, precision, len(weights), weights[0].hidden)
    flat = [tensor for each in weights for tensor in each]
    x = x[:, :longest]
    h: Tensor
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, word_x, *flat)):
        h = FusedRecurrence.apply(setting, x, word_x, *flat)
    else:
        h = run(setting, x, word_x, pack(weights, coupled, precision), keep=False).hidden
        h = h.view(B, plan.stride, -1)[:, :-1]
    return h if longest == T else pad(h, (0, 0, 0, T - longest))


class Setting(NamedTuple):
    """What a call needs besides tensors."""

    plan: Schedule
    coupled: bool
    # fp32, tf32 or bf16: of the recurrent products' factors. Sums and states are float32.
    precision: str
    N: int
    H: int

    @property
    def gates(self) -> int:
        return gate_count(self.coupled)


class Shape(NamedTuple):
    """How a launch divides its work."""

    rows: int  # sentences of a program
    block_n: int  # units of a tile
    block_k: int  # of a product's inner dimension
    warps: int
    stages: int


@lru_cache(maxsize=1024)
def launch_shape(device: torch.device, B: int, N: int, H: int, precision: str) -> Shape:
    """Choose few sentences a program while multiprocessors are idle, and tiles that fit memory."""
    rows = min(SLOTS, triton.next_power_of_2(triton.cdiv(B * N, programs_at_once(device))))
    widest, size = (256, 2) if precision == "bf16" else (128, 4)
    block_n = min(widest, max(16, triton.next_power_of_2(H)))
    block_k = 32
    # Bytes of one stage of the pipeline: the weights of six gates, and the rows.
    stage = 6 * block_k * block_n * size + SLOTS * block_k * 4
    stages = min(3, 1 + _shared_memory(device) // stage)
    return Shape(rows, block_n, block_k, 8, stages)


@cache
def programs_at_once(device: torch.device) -> int:
    """Return the number of multiprocessors; Triton's interpreter on a CPU counts as 128."""
    if device.type != "cuda":
        return 128
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def _shared_memory(device: torch.device) -> int:
    """Bytes that a program may have, less a little for what Triton itself needs."""
    if device.type != "cuda":
        return 1 << 18
    properties: Any = torch.cuda.get_device_properties(device)
    # An older PyTorch does not know it: 48 KiB is what every GPU has.
    return int(getattr(properties, "shared_memory_per_block_optin", 48 << 10)) - 4096


class FusedTrace(NamedTuple):
    """What a forward pass leaves for the backward one."""

    x: Tensor  # [R, D]
    chars: Tensor  # [R, N·(G + 1)·H]: the gates
    words: Tensor  # [W, N·3·H]: words' gates
    hidden: Tensor  # [R, N·H]
    cells: Tensor  # [R, N·H]
    word_cells: Tensor  # [N, W, H], in the order in which words end
    word_links: Tensor  # [N, W, H]


def run(
    setting: Setting, x: Tensor, word_x: Tensor, packed: PackedWeights, keep: bool
) -> FusedTrace:
    N = setting.N
    H = setting.H
    W = len(word_x)
    x = _framed(x, setting.plan)
    with matmul_precision(setting.precision):
        chars = torch.addmm(packed.bias, x, packed.inputs)
        words = torch.addmm(packed.word_bias, word_x, packed.word_inputs)
    hidden = x.new_zeros(len(x), N * H)
    cells = x.new_empty(len(x), N * H)
    trace = FusedTrace(x, chars, words, hidden, cells, x.new_empty(N, W, H), x.new_empty(N, W, H))
    _launch(forward_kernel, [chars, words, packed.recurrent, *trace[3:]], setting, W, KEEP=keep)
    return trace


class FusedRecurrence(torch.autograd.Function):
    """The whole op as one function, so that no buffer is kept twice."""

    @staticmethod
    def forward(ctx: Any, setting: Setting, x: Tensor, word_x: Tensor, *flat: Tensor) -> Tensor:
        weights = [LatticeLSTMWeights(*flat[n * 9 : n * 9 + 9]) for n in range(setting.N)]
        packed = pack(weights, setting.coupled, setting.precision)
        trace = run(setting, x, word_x, packed, keep=True)
        ctx.save_for_backward(word_x, *packed, *trace)
        ctx.setting = setting
        return trace.hidden.view(len(x), setting.plan.stride, -1)[:, :-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        setting = ctx.setting
        word_x, *saved = ctx.saved_tensors
        packed = PackedWeights(*saved[:5])
        trace = FusedTrace(*saved[5:])
        B = len(setting.plan.order)
        stride = setting.plan.stride
        gradients = run_backward(setting, grad, packed.recurrent, trace)
        with matmul_precision(setting.precision):
            d_chars = gradients.chars
            d_words = gradients.words
            d_x = d_chars @ packed.inputs.T
            d_word_x = d_words @ packed.word_inputs.T
            d_weights = weight_gradients(setting, word_x, trace, gradients)
        return None, d_x.view(B, stride, -1)[:, :-1], d_word_x, *d_weights


class Gradients(NamedTuple):
    """What a backward pass finds."""

    chars: Tensor  # [R, N·(G + 1)·H]: of the gates' scores and of the link
    pushed: Tensor  # [R, N·3·H]: of words' gates, summed over the words that start at a character
    words: Tensor  # [W, N·3·H]
    word_links: Tensor  # [N, W, H]


def run_backward(setting: Setting, grad: Tensor, recurrent: Tensor, trace: FusedTrace) -> Gradients:
    N = setting.N
    H = setting.H
    G = setting.gates
    grad = pad(grad, (0, 0, 0, 1))
    d_gates = grad.new_zeros(len(trace.x), N * (G + 4) * H)
    d_words = torch.empty_like(trace.words)
    d_word_cells = torch.empty_like(trace.word_cells)
    d_word_links = torch.empty_like(trace.word_links)
    carry = grad.new_zeros(3, len(grad), N, H)
    buffers = [grad, trace.chars, trace.words, recurrent, *trace[4:]]
    buffers += [d_gates, d_words, d_word_cells, d_word_links, carry]
    _launch(backward_kernel, buffers, setting, len(d_words))
    d_chars, pushed = torch.split(d_gates, [N * (G + 1) * H, N * 3 * H], dim=1)
    return Gradients(d_chars, pushed, d_words, d_word_links)


def weight_gradients(
    setting: Setting, word_x: Tensor, trace: FusedTrace, gradients: Gradients
) -> list[Tensor]:
    """Return the gradients of each direction's nine weights, one product for each matrix."""
    N = setting.N
    H = setting.H
    G = setting.gates
    d_inputs = (trace.x.T @ gradients.chars).view(-1, N, G + 1, H)
    d_bias = gradients.chars.sum(0).view(N, G + 1, H)
    d_word_inputs = (word_x.T @ gradients.words).view(-1, N, 3 * H)
    d_word_bias = gradients.words.sum(0).view(N, 3 * H)
    d_weights = []
    for n in range(N):
        # Below, the free row after each sentence keeps it apart from the next one.
        h = trace.hidden.view(-1, N, H)[:, n]
        gates = gradients.chars.view(-1, N, (G + 1) * H)[:, n]
        d_hidden = h[:-1].T @ gates[1:] if n == 0 else h[1:].T @ gates[:-1]
        d_hidden = _gates(d_hidden.view(H, G + 1, H), G)
        d_word_hidden = h.T @ gradients.pushed.view(-1, N, 3 * H)[:, n]
        d_link_hidden = trace.word_cells[n].T @ gradients.word_links[n]
        d_weights += [_gates(d_inputs[:, n], G), d_hidden, _gates(d_bias[n], G)]
        d_weights += [d_word_inputs[:, n], d_word_hidden, d_word_bias[n]]
        d_weights += [d_inputs[:, n, 3], d_link_hidden, d_bias[n, 3]]
    return d_weights


def _gates(columns: Tensor, G: int) -> Tensor:
    """Bring […, G + 1, H] to the order of the weights, […, G·H], without the link."""
    if G == 3:
        return columns[..., :3, :].flatten(-2)
    return torch.cat([columns[..., k, :] for k in (0, 4, 1, 2)], dim=-1)


def _framed(x: Tensor, plan: Schedule) -> Tensor:
    """x [B, T, D] → [B·stride, D]: padding made 0, one empty row after each sentence."""
    if plan.padded:
        places = torch.arange(x.shape[1], device=x.device)
        x = torch.where((places < plan.sizes[:, None])[:, :, None], x, 0)
    return pad(x, (0, 0, 0, 1)).view(-1, x.shape[2])


def _launch(kernel: Any, buffers: list[Tensor], setting: Setting, W: int, **more: Any) -> None:
    plan = setting.plan
    recurrent = buffers[2] if more else buffers[3]
    B = len(plan.order)
    shape = launch_shape(buffers[0].device, B, setting.N, setting.H, setting.precision)
    with gpu.device_of(buffers[0]):
        kernel[(triton.cdiv(B, shape.rows), setting.N)](
            *buffers,
            plan.order, plan.lengths, plan.starts, plan.ends, plan.row, plan.place,
            B, B * plan.stride, W, plan.stride, shape.rows, SLOTS // shape.rows,
            N=setting.N, F=setting.gates - 3, H=setting.H, HP=recurrent.shape[0],
            M=SLOTS, BN=shape.block_n, BK=shape.block_k,
            PRECISION="ieee" if setting.precision == "fp32" else "tf32",
            num_warps=shape.warps, num_stages=shape.stages, **more,
        )  # fmt: skip


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let torch's own float32 products round their factors to tf32, unless `precision` is fp32."""
    matmul: Any = torch.backends.cuda.matmul
    # The second is the name in an older PyTorch.
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    tf32 = precision != "fp32"
    before = getattr(matmul, name)
    setattr(matmul, name, tf32 if name == "allow_tf32" else "tf32" if tf32 else "ieee")
    try:
        yield
    finally:
        setattr(matmul, name, before)


class Schedule(NamedTuple):
    """Index arrays on a device. Character p of sentence b stands in row b·stride + p; one free row
    follows a sentence.

    Two orders of the words matter: by first and by last character. A direction meets words in the
    one order where they start and in the other where they end; `row` and `place` lead from its
    starting order to the caller's order and to its ending order.
    """

    stride: int  # rows of a sentence: the longest one's characters and one more
    padded: bool  # whether some sentence is shorter than the longest
    sizes: Tensor  # [B]: the sentences' lengths
    order: Tensor  # [B]: sentences, longest first
    lengths: Tensor  # [B], in that order
    # [2, B·stride + 1]: where the words that start (end) at a row stand in that order.
    starts: Tensor
    ends: Tensor
    row: Tensor  # [2, W]: starting order → the caller's order
    place: Tensor  # [2, W]: starting order → ending order


def schedule(lattice: Lattice, device: torch.device) -> Schedule:
    """Return the schedule of a lattice on a device, made once and kept with the lattice."""
    key = ("schedule", device)
    if key not in lattice.cache:
        lattice.cache[key] = make_schedule(lattice, device)
    plan: Schedule = lattice.cache[key]
    return plan


def make_schedule(lattice: Lattice, device: torch.device) -> Schedule:
    """Make a schedule. All arrays travel as one copy, which the host does not wait for."""
    stride = int(lattice.lengths.max(initial=0)) + 1
    B = len(lattice.lengths)
    W = len(lattice)
    order = np.argsort(-lattice.lengths, kind="stable")
    by_first, first_at = _ordered(lattice.sentence * stride + lattice.start, B * stride)
    by_last, last_at = _ordered(lattice.sentence * stride + lattice.end - 1, B * stride)
    parts = [lattice.lengths, order, lattice.lengths[order], first_at, last_at, last_at, first_at]
    parts += [by_first, by_last, inverse(by_last)[by_first], inverse(by_first)[by_last]]
    flat = torch.from_numpy(np.concatenate(parts).astype(np.int32))
    if device.type == "cuda":
        flat = flat.pin_memory()
    flat = flat.to(device, non_blocking=True)
    sizes = [B, B, B, 2 * len(first_at), 2 * len(first_at), 2 * W, 2 * W]
    sentences, rows, lengths, starts, ends, row, place = torch.split(flat, sizes)
    padded = bool((lattice.lengths < stride - 1).any())
    sides = (starts.view(2, -1), ends.view(2, -1), row.view(2, W), place.view(2, W))
    return Schedule(stride, padded, sentences, rows, lengths, *sides)


def _ordered(at: Ints, rows: int) -> tuple[Ints, Ints]:
    """Return the words in the order of their rows, and where each row's words begin and end."""
    counts = np.bincount(at, minlength=rows)
    begins = np.concatenate([[0], np.cumsum(counts)])
    is_sorted = bool((at[1:] >= at[:-1]).all())
    return np.arange(len(at)) if is_sorted else np.argsort(at, kind="stable"), begins


class PackedWeights(NamedTuple):
    """The weights of all directions, joined for the products, with the gates in kernel order."""

    inputs: Tensor  # [D, N·(G + 1)·H]
    bias: Tensor  # [N·(G + 1)·H]
    word_inputs: Tensor  # [E, N·3·H]
    word_bias: Tensor  # [N·3·H]
    recurrent: Tensor  # [HP, N·(G + 4), HP], padded with 0


def pack(weights: Sequence[LatticeLSTMWeights], coupled: bool, precision: str) -> PackedWeights:
    """Join the nine weights of each direction."""
    H = weights[0].hidden
    inputs = []
    biases = []
    recurrent = []
    for w in weights:
        f, rest = _apart(w.char_hidden, H, coupled)
        recurrent += [*rest, w.word_hidden, w.link_hidden, *f]
        f, rest = _apart(w.char_input, H, coupled)
        inputs += [*rest, w.link_input, *f]
        f, rest = _apart(w.char_bias, H, coupled)
        biases += [*rest, w.link_bias, *f]
    side = torch.cat(recurrent, dim=1).view(H, -1, H)
    more = -H % WHOLE
    side = pad(side, (0, more, 0, 0, 0, more)) if more else side
    return PackedWeights(
        inputs=torch.cat(inputs, dim=1),
        bias=torch.cat(biases),
        word_inputs=torch.cat([w.word_input for w in weights], dim=1),
        word_bias=torch.cat([w.word_bias for w in weights]),
        recurrent=side.to(torch.bfloat16) if precision == "bf16" else side,
    )


def _apart(matrix: Tensor, H: int, coupled: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The columns of f, if there are any, and of the other gates."""
    if coupled:
        return [], [matrix]
    return [matrix[..., H : 2 * H]], [matrix[..., :H], matrix[..., 2 * H :]]


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
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
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
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute _product for three gates that stand side by side."""
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
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute _product for six gates that stand side by side."""
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
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """acc [M, BN] + the rows [M, H] times the transposed matrix: rows n of one gate's weights."""
    for k0 in range(0, H, BK):
        k = k0 + tl.arange(0, BK)
        w = tl.load(weights + n[:, None] * STEP + k[None, :], mask=(n < HP)[:, None], other=0.0)
        acc = tl.dot(
            _rows(rows, has, k, H).to(w.dtype), tl.trans(w), acc, input_precision=PRECISION
        )
    return acc


@triton.jit
def _back_products(
    acc, d_gates, of_chars, has_chars, of_words, has_words, gates, weights, n,
    H: tl.constexpr, HP: tl.constexpr, STEP: tl.constexpr,
    BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum _back_product over gates side by side: i, o, g of the character, i, f, g of words."""
    for k0 in range(0, gates * HP, BK):
        gate = k0 // HP
        is_char = gate < 3
        k = k0 - gate * HP + tl.arange(0, BK)
        rows = d_gates + tl.where(is_char, of_chars + gate * H, of_words + (gate - 3) * H)
        has = tl.where(is_char, has_chars, has_words)
        w = tl.load(
            weights + n[:, None] * STEP + gate * HP + k[None, :], mask=(n < HP)[:, None], other=0.0
        )
        acc = tl.dot(
            _rows(rows, has, k, H).to(w.dtype), tl.trans(w), acc, input_precision=PRECISION
        )
    return acc


@triton.jit
def _where(t, direction, base, length):
    """Return whether each sentence runs at step t, and the row of the character it reads then."""
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
    M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    KEEP: tl.constexpr, PRECISION: tl.constexpr,
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
            c = f * tl.load(
                cells + state_before[:, None] + n[None, :],
                mask=goes_on[:, None] & inside,
                other=0.0,
            )
            c += i * g
            if most_ending > 0:
                link = tl.load(gate + 3 * H, mask=real, other=0.0)
                weight = tl.exp(i)
                total = weight * g
                # Two words at a time: while one waits for memory, the other is computed.
                for j in range(0, most_ending, 2):
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

        # Its products, for the next character and for the words that start here; the cells of these
        # words.
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
                z_f = _product(
                    z_f, hidden + state, on_next, weights + 7 * HP, n, H, HP, STEP, BK, PRECISION
                )
                tl.store(gate + 4 * H, z_f, mask=writes[:, None] & real)
            if most_starting > 0:
                q = first_place
                there = begins[:, None] & inside
                word = words + (first_row * N + direction)[:, None] * (3 * H) + n[None, :]
                w_i = tl.load(word, mask=there, other=0.0)
                w_f = tl.load(word + H, mask=there, other=0.0)
                w_g = tl.load(word + 2 * H, mask=there, other=0.0)
                c = tl.load(
                    cells + state[:, None] + n[None, :], mask=on[:, None] & inside, other=0.0
                )
                p_i = tl.zeros((M, BN), dtype=tl.float32)
                p_f = tl.zeros((M, BN), dtype=tl.float32)
                p_g = tl.zeros((M, BN), dtype=tl.float32)
                z_i, z_o, z_g, p_i, p_f, p_g = _product6(
                    z_i, z_o, z_g, p_i, p_f, p_g, hidden + state, on, weights, n, H, HP, STEP, BK,
                    PRECISION,
                )  # fmt: skip
                for j in range(RANKS, most_starting + RANKS, RANKS):
                    i = _sigmoid(w_i + p_i)
                    f = _sigmoid(w_f + p_f)
                    g = _tanh(w_g + p_g)
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
                    v = _product(
                        v, word_cells + q, begins, weights + 6 * HP, n, H, HP, STEP, BK, PRECISION
                    )
                    tl.store(
                        word_links + q[:, None] + n[None, :],
                        v,
                        mask=begins[:, None] & (n < H)[None, :],
                    )
                begins = j + rank < starting
                q = tl.load(place + started + j + rank, mask=begins, other=0).to(tl.int64) * H
            tl.debug_barrier()
        on = on_next
        at = at_next
        started = started_next
        starting = starting_next


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
    # [3, B, N, H]: d c, in turns; what words add to it.
    carry += (sentence * N + direction).to(tl.int64) * H
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
            c_before = tl.load(
                cells + state_before[:, None] + n[None, :],
                mask=goes_on[:, None] & inside,
                other=0.0,
            )
            d_c = tl.load(carried[:, None] + n[None, :], mask=real, other=0.0)
            d_h = tl.load(grad + state[:, None] + n[None, :], mask=real, other=0.0)
            d_h = _back_products(
                d_h, d_gates, d_after, went_on, d_pushed, on, gates, weights, n, H, HP, STEP, BK,
                PRECISION,
            )  # fmt: skip
            if F:
                d_h = _back_product(
                    d_h, d_gates + d_after + 4 * H, went_on, weights + 7 * HP, n, H, HP, STEP, BK,
                    PRECISION,
                )  # fmt: skip
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
                d_w = _back_product(
                    d_w, d_word_links + q, there, weights + 6 * HP, n, H, HP, STEP, BK, PRECISION
                )
                tl.store(at_word, d_w, mask=real)
        tl.debug_barrier()
        on = on_next
        at = at_next
        ended = ended_next
        ending = ending_next
        started = started_next
        starting = starting_next
