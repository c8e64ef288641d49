"""The lattice LSTM in C for tensors of the CPU, with its gradient.

The gradients of weights and inputs are products by torch, after C has found those of the gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops.lattice_lstm.native import GateGradients, KernelCall, NativeTrace, check_types
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice


def directions(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
) -> Tensor:
    """The first direction, and the mirrored one if there are two: [B, T, N·H]. The caller has
    checked the shapes.
    """
    flat = [tensor for each in weights for tensor in each]
    check_types(x, word_x, *flat)
    if not lattice.lengths.any():
        return x.new_zeros(*x.shape[:2], len(weights) * weights[0].hidden)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, word_x, *flat)):
        h: Tensor = NativeRecurrence.apply(x, word_x, lattice, coupled, *flat)  # type: ignore[no-untyped-call]
        return h
    return torch.from_numpy(_problem(x, word_x, lattice, flat, coupled).run_forward(keep=False)[0])


def _problem(
    x: Tensor, word_x: Tensor, lattice: Lattice, flat: Sequence[Tensor], coupled: bool
) -> KernelCall:
    characters, words, *weights = (tensor.detach().numpy() for tensor in (x, word_x, *flat))
    return KernelCall(characters, words, lattice, _unflatten(weights), coupled)


class NativeRecurrence(torch.autograd.Function):
    """The whole op as one node: the gates' gradients by C, then a product for each input and
    weight.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, word_x: Tensor, lattice: Lattice, coupled: bool, *flat: Tensor
    ) -> Tensor:
        found, traces = _problem(x, word_x, lattice, flat, coupled).run_forward(keep=True)
        h = torch.from_numpy(found)
        ctx.save_for_backward(
            x, word_x, h, *flat, *(torch.from_numpy(array) for trace in traces for array in trace)
        )
        ctx.lattice = lattice
        ctx.coupled = coupled
        ctx.flat = len(flat)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor) -> tuple[Tensor | None, ...]:
        x, word_x, h, *rest = ctx.saved_tensors
        problem = _problem(x, word_x, ctx.lattice, rest[: ctx.flat], ctx.coupled)
        kept = rest[ctx.flat :]
        each = len(NativeTrace._fields)
        traces = [
            NativeTrace(*(tensor.numpy() for tensor in kept[n : n + each]))
            for n in range(0, len(kept), each)
        ]
        gates = [
            GateGradients(*map(torch.from_numpy, each))
            for each in problem.run_backward(d_h.contiguous().numpy(), traces)
        ]
        wants_x, wants_words, _, _, *wants_weights = ctx.needs_input_grad
        d_x = x_gradient(problem, gates) if wants_x else None
        d_words = word_gradient(problem, gates) if wants_words else None
        if not any(wants_weights):
            return d_x, d_words, None, None, *[None] * ctx.flat
        characters = Characters(problem, h)
        weights = [
            weight_gradients(problem, characters, n, traces[n], gates[n]) for n in range(problem.N)
        ]
        return (
            d_x,
            d_words,
            None,
            None,
            *(gradient for direction in weights for gradient in direction),
        )


def _unflatten(flat: Sequence[Any]) -> list[LatticeLSTMWeights]:
    each = len(LatticeLSTMWeights._fields)
    return [LatticeLSTMWeights(*flat[n : n + each]) for n in range(0, len(flat), each)]


def x_gradient(problem: KernelCall, gates: Sequence[GateGradients]) -> Tensor:
    """[B, T, D]; zero after a sentence's end."""
    wide = problem.G * problem.H
    x = torch.from_numpy(problem.x)
    d_x = x.new_zeros(problem.C, problem.D)
    for weights, d in zip(problem.weights, gates, strict=True):
        by_gates, by_link = (
            torch.from_numpy(part).T for part in (weights.char_input, weights.link_input)
        )
        d_x.addmm_(d.d_char[:, :wide], by_gates).addmm_(d.d_char[:, wide:], by_link)
    if problem.C == problem.B * problem.T:
        return d_x.view_as(x)
    full = x.new_zeros(problem.B * problem.T, problem.D)
    return full.index_copy_(0, torch.from_numpy(problem.places()), d_x).view_as(x)


def word_gradient(problem: KernelCall, gates: Sequence[GateGradients]) -> Tensor:
    """[W, E]"""
    d_words = torch.zeros_like(torch.from_numpy(problem.word_x))
    for weights, d in zip(problem.weights, gates, strict=True):
        d_words.addmm_(d.d_word, torch.from_numpy(weights.word_input).T)
    return d_words


class Characters:
    """x and h of the characters, without padding, which may hold anything."""

    def __init__(self, problem: KernelCall, h: Tensor) -> None:
        self.x = torch.from_numpy(problem.x).view(-1, problem.D)  # [C, D]
        self.h = h.view(-1, problem.N * problem.H)  # [C, N·H]
        if problem.C < problem.B * problem.T:
            places = torch.from_numpy(problem.places())
            self.x, self.h = self.x.index_select(0, places), self.h.index_select(0, places)

    def before(self, problem: KernelCall, n: int) -> Tensor:
        """[C, H]: h of the character before, in direction n; zero at the start."""
        own = self.h[:, n * problem.H : (n + 1) * problem.H]
        firsts = torch.from_numpy(problem.offsets)
        lengths = torch.from_numpy(problem.lattice.lengths.copy())
        edges = firsts if n == 0 else firsts + lengths - 1
        return own.roll(-1 if n else 1, dims=0).index_fill_(0, edges[lengths > 0], 0)


def weight_gradients(
    problem: KernelCall, characters: Characters, n: int, trace: NativeTrace, d: GateGradients
) -> LatticeLSTMWeights:
    """One product for each matrix of direction n, over all characters or words."""
    H, wide = problem.H, problem.G * problem.H
    h = characters.h[:, n * H : (n + 1) * H]
    by_input = characters.x.T @ d.d_char
    by_bias = d.d_char.sum(0)
    return LatticeLSTMWeights(
        char_input=by_input[:, :wide],
        char_hidden=characters.before(problem, n).T @ d.d_char[:, :wide],
        char_bias=by_bias[:wide],
        word_input=torch.from_numpy(problem.word_x).T @ d.d_word,
        word_hidden=h.index_select(0, torch.from_numpy(problem.starting(n))).T @ d.d_start,
        word_bias=d.d_word.sum(0),
        link_input=by_input[:, wide:],
        link_hidden=torch.from_numpy(trace.word_cells[:, :H]).T @ d.d_link,
        link_bias=by_bias[wide:],
    )
