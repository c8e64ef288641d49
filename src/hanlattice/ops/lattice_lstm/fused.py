"""The lattice LSTM on a GPU: the whole recurrence, both directions, is one launch forward and one backward.

The products with the inputs come before the launch and the gradients of the weights after it, as a few large matrix
products. `kernels.py` has the launches' code; README.md what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from hanlattice.ops import gpu
from hanlattice.ops.lattice_lstm import kernels
from hanlattice.ops.lattice_lstm.packed import Packed, pack
from hanlattice.ops.lattice_lstm.schedule import Schedule, schedule
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice

SLOTS = 16  # rows of a tile, the fewest that the matrix units take


def directions(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
    precision: str,
) -> Tensor:
    """One direction, or the two in one launch → [B, T, N·H]; zero after a sentence's end."""
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
        h = Recurrence.apply(setting, x, word_x, *flat)  # type: ignore[no-untyped-call]
    else:
        h = run(setting, x, word_x, pack(weights, coupled, precision), keep=False).hidden
        h = h.view(B, plan.stride, -1)[:, :-1]
    return h if longest == T else F.pad(h, (0, 0, 0, T - longest))


class Setting(NamedTuple):
    """What is no tensor to be differentiated."""

    plan: Schedule
    coupled: bool
    precision: str  # fp32, tf32 or bf16: of the recurrent products' factors; sums and states are float32
    N: int
    H: int

    @property
    def gates(self) -> int:
        return 3 if self.coupled else 4


class Shape(NamedTuple):
    """How a launch divides its work."""

    rows: int  # sentences of a program
    block_n: int  # units of a tile
    block_k: int  # of a product's inner dimension
    warps: int
    stages: int


@lru_cache(maxsize=1024)
def launch_shape(device: torch.device, B: int, N: int, H: int, precision: str) -> Shape:
    """Few sentences a program while there are multiprocessors to spare; tiles that fit the shared memory."""
    rows = min(SLOTS, triton.next_power_of_2(triton.cdiv(B * N, programs_at_once(device))))
    widest, size = (256, 2) if precision == "bf16" else (128, 4)
    block_n, block_k = min(widest, max(16, triton.next_power_of_2(H))), 32
    stage = 6 * block_k * block_n * size + SLOTS * block_k * 4  # bytes: six gates' weights and the rows
    stages = min(3, 1 + _shared_memory(device) // stage)
    return Shape(rows, block_n, block_k, 8, stages)


@cache
def programs_at_once(device: torch.device) -> int:
    """One for each multiprocessor."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 128


@cache
def _shared_memory(device: torch.device) -> int:
    """Bytes that a program may have, less a little for what Triton itself needs."""
    if device.type != "cuda":
        return 1 << 18
    properties: Any = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 48 << 10)) - 4096  # older PyTorch does not say


class Trace(NamedTuple):
    """What a forward pass leaves for the backward one."""

    x: Tensor  # [R, D]
    chars: Tensor  # [R, N·(G + 1)·H]: the gates
    words: Tensor  # [W, N·3·H]: words' gates
    hidden: Tensor  # [R, N·H]
    cells: Tensor  # [R, N·H]
    word_cells: Tensor  # [N, W, H], in the order in which words end
    word_links: Tensor  # [N, W, H]


def run(setting: Setting, x: Tensor, word_x: Tensor, packed: Packed, keep: bool) -> Trace:
    N, H, W = setting.N, setting.H, len(word_x)
    x = _framed(x, setting.plan)
    with matmul_precision(setting.precision):
        chars = torch.addmm(packed.bias, x, packed.inputs)
        words = torch.addmm(packed.word_bias, word_x, packed.word_inputs)
    hidden, cells = x.new_zeros(len(x), N * H), x.new_empty(len(x), N * H)
    trace = Trace(x, chars, words, hidden, cells, x.new_empty(N, W, H), x.new_empty(N, W, H))
    _launch(kernels.forward_kernel, [chars, words, packed.recurrent, *trace[3:]], setting, W, KEEP=keep)
    return trace


class Recurrence(torch.autograd.Function):
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
        setting, (word_x, *saved) = ctx.setting, ctx.saved_tensors
        packed, trace = Packed(*saved[:5]), Trace(*saved[5:])
        B, stride = len(setting.plan.order), setting.plan.stride
        gradients = run_backward(setting, grad, packed.recurrent, trace)
        with matmul_precision(setting.precision):
            d_chars, d_words = gradients.chars, gradients.words
            d_x, d_word_x = d_chars @ packed.inputs.T, d_words @ packed.word_inputs.T
            d_weights = weight_gradients(setting, word_x, trace, gradients)
        return None, d_x.view(B, stride, -1)[:, :-1], d_word_x, *d_weights


class Gradients(NamedTuple):
    """What a backward pass finds."""

    chars: Tensor  # [R, N·(G + 1)·H]: of the gates' scores and of the link
    pushed: Tensor  # [R, N·3·H]: of words' gates, summed over the words that start at a character
    words: Tensor  # [W, N·3·H]
    word_links: Tensor  # [N, W, H]


def run_backward(setting: Setting, grad: Tensor, recurrent: Tensor, trace: Trace) -> Gradients:
    N, H, G = setting.N, setting.H, setting.gates
    grad = F.pad(grad, (0, 0, 0, 1))
    d_gates = grad.new_zeros(len(trace.x), N * (G + 4) * H)
    d_words = torch.empty_like(trace.words)
    d_word_cells, d_word_links = torch.empty_like(trace.word_cells), torch.empty_like(trace.word_links)
    carry = grad.new_zeros(3, len(grad), N, H)
    buffers = [grad, trace.chars, trace.words, recurrent, *trace[4:]]
    buffers += [d_gates, d_words, d_word_cells, d_word_links, carry]
    _launch(kernels.backward_kernel, buffers, setting, len(d_words))
    d_chars, pushed = torch.split(d_gates, [N * (G + 1) * H, N * 3 * H], dim=1)
    return Gradients(d_chars, pushed, d_words, d_word_links)


def weight_gradients(setting: Setting, word_x: Tensor, trace: Trace, gradients: Gradients) -> list[Tensor]:
    """Of each direction's nine weights, in their order: one product each, over all characters or all words."""
    N, H, G = setting.N, setting.H, setting.gates
    d_inputs = (trace.x.T @ gradients.chars).view(-1, N, G + 1, H)
    d_bias = gradients.chars.sum(0).view(N, G + 1, H)
    d_word_inputs = (word_x.T @ gradients.words).view(-1, N, 3 * H)
    d_word_bias = gradients.words.sum(0).view(N, 3 * H)
    found = []
    for n in range(N):
        h = trace.hidden.view(-1, N, H)[:, n]  # a free row between sentences keeps them apart below
        gates = gradients.chars.view(-1, N, (G + 1) * H)[:, n]
        d_hidden = h[:-1].T @ gates[1:] if n == 0 else h[1:].T @ gates[:-1]
        found += [_gates(d_inputs[:, n], G), _gates(d_hidden.view(H, G + 1, H), G), _gates(d_bias[n], G)]
        found += [d_word_inputs[:, n], h.T @ gradients.pushed.view(-1, N, 3 * H)[:, n], d_word_bias[n]]
        found += [d_inputs[:, n, 3], trace.word_cells[n].T @ gradients.word_links[n], d_bias[n, 3]]
    return found


def _gates(columns: Tensor, G: int) -> Tensor:
    """[…, G + 1, H] in the order of kernels.py → […, G·H] in the order of the weights, without the link."""
    if G == 3:
        return columns[..., :3, :].flatten(-2)
    return torch.cat([columns[..., k, :] for k in (0, 4, 1, 2)], dim=-1)


def _framed(x: Tensor, plan: Schedule) -> Tensor:
    """x [B, T, D] → [B·stride, D]: padding made 0, one empty row after each sentence."""
    if plan.padded:
        places = torch.arange(x.shape[1], device=x.device)
        x = torch.where((places < plan.sizes[:, None])[:, :, None], x, 0)
    return F.pad(x, (0, 0, 0, 1)).view(-1, x.shape[2])


def _launch(kernel: Any, buffers: list[Tensor], setting: Setting, W: int, **more: Any) -> None:
    plan, recurrent = setting.plan, buffers[2] if more else buffers[3]
    B = len(plan.order)
    shape = launch_shape(buffers[0].device, B, setting.N, setting.H, setting.precision)
    with gpu.device_of(buffers[0]):
        kernel[(triton.cdiv(B, shape.rows), setting.N)](
            *buffers,
            plan.order, plan.lengths, plan.starts, plan.ends, plan.row, plan.place,
            B, B * plan.stride, W, plan.stride, shape.rows, SLOTS // shape.rows,
            N=setting.N, F=setting.gates - 3, H=setting.H, HP=recurrent.shape[0],
            M=SLOTS, BN=shape.block_n, BK=shape.block_k, PRECISION="ieee" if setting.precision == "fp32" else "tf32",
            num_warps=shape.warps, num_stages=shape.stages, **more,
        )  # fmt: skip


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Inside, torch's own float32 products round their factors to tf32, unless float32 was asked for."""
    matmul: Any = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"  # the older name, for older PyTorch
    tf32 = precision != "fp32"
    before = getattr(matmul, name)
    setattr(matmul, name, tf32 if name == "allow_tf32" else "tf32" if tf32 else "ieee")
    try:
        yield
    finally:
        setattr(matmul, name, before)
