"""The lattice LSTM on the CPU by a small C library: the same numbers as `batched`, faster.

C does the products with the inputs and the recurrence, for some sentences in one direction a call; calls are
independent, so threads meet only at the end. The gradients of weights and inputs are products by torch, after C has
found those of the gates. `ops/library.py` loads the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops import library
from hanlattice.ops.lattice_lstm.native_call import GateGradients, Problem, Trace
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice


def available(x: Tensor) -> bool:
    """Whether the library is loaded and x is of a kind that it takes: float32 or float64, on the CPU."""
    return library.available(x)


def directions(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: Sequence[LatticeLSTMWeights], coupled: bool
) -> Tensor:
    """The first direction, and the mirrored one if there are two: [B, T, N·H]. The caller has checked the shapes."""
    flat = [tensor for each in weights for tensor in each]
    if not library.available(x, word_x, *flat):
        why = library.missing() or "inputs and weights must be on the CPU, all of them float32 or all float64"
        raise RuntimeError(f"the native backend cannot run: {why}")
    if not lattice.lengths.any():
        return x.new_zeros(*x.shape[:2], len(weights) * weights[0].hidden)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, word_x, *flat)):
        h: Tensor = Recurrence.apply(x, word_x, lattice, coupled, *flat)  # type: ignore[no-untyped-call]
        return h
    return Problem(x, word_x, lattice, weights, coupled).run_forward(keep=False)[0]


class Recurrence(torch.autograd.Function):
    """The whole op as one node: the gates' gradients by C, then a product for each input and weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, word_x: Tensor, lattice: Lattice, coupled: bool, *flat: Tensor) -> Tensor:
        h, traces = Problem(x, word_x, lattice, _unflatten(flat), coupled).run_forward(keep=True)
        ctx.save_for_backward(x, word_x, h, *flat, *(tensor for trace in traces for tensor in trace))
        ctx.lattice, ctx.coupled, ctx.flat = lattice, coupled, len(flat)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_h: Tensor) -> tuple[Tensor | None, ...]:
        x, word_x, h, *rest = ctx.saved_tensors
        problem = Problem(x, word_x, ctx.lattice, _unflatten(rest[: ctx.flat]), ctx.coupled)
        kept, each = rest[ctx.flat :], len(Trace._fields)
        traces = [Trace(*kept[n : n + each]) for n in range(0, len(kept), each)]
        gates = problem.run_backward(d_h.contiguous(), traces)
        wants_x, wants_words, _, _, *wants_weights = ctx.needs_input_grad
        d_x = x_gradient(problem, gates) if wants_x else None
        d_words = word_gradient(problem, gates) if wants_words else None
        if not any(wants_weights):
            return d_x, d_words, None, None, *[None] * ctx.flat
        characters = Characters(problem, h)
        weights = [weight_gradients(problem, characters, n, traces[n], gates[n]) for n in range(problem.N)]
        return d_x, d_words, None, None, *(gradient for direction in weights for gradient in direction)


def _unflatten(flat: Sequence[Tensor]) -> list[LatticeLSTMWeights]:
    each = len(LatticeLSTMWeights._fields)
    return [LatticeLSTMWeights(*flat[n : n + each]) for n in range(0, len(flat), each)]


def x_gradient(problem: Problem, gates: Sequence[GateGradients]) -> Tensor:
    """[B, T, D]; zero after a sentence's end."""
    wide = problem.G * problem.H
    d_x = problem.x.new_zeros(problem.C, problem.D)
    for weights, d in zip(problem.weights, gates, strict=True):
        d_x.addmm_(d.d_char[:, :wide], weights.char_input.T).addmm_(d.d_char[:, wide:], weights.link_input.T)
    if problem.C == problem.B * problem.T:
        return d_x.view_as(problem.x)
    full = problem.x.new_zeros(problem.B * problem.T, problem.D)
    return full.index_copy_(0, problem.places(), d_x).view_as(problem.x)


def word_gradient(problem: Problem, gates: Sequence[GateGradients]) -> Tensor:
    """[W, E]"""
    d_words = problem.word_x.new_zeros(problem.W, problem.E)
    for weights, d in zip(problem.weights, gates, strict=True):
        d_words.addmm_(d.d_word, weights.word_input.T)
    return d_words


class Characters:
    """x and h of the characters, without padding, which may hold anything."""

    def __init__(self, problem: Problem, h: Tensor) -> None:
        self.x, self.h = problem.x.view(-1, problem.D), h.view(-1, problem.N * problem.H)  # [C, D], [C, N·H]
        if problem.C < problem.B * problem.T:
            places = problem.places()
            self.x, self.h = self.x.index_select(0, places), self.h.index_select(0, places)

    def before(self, problem: Problem, n: int) -> Tensor:
        """[C, H]: h of the character before, in direction n; zero at the start."""
        own = self.h[:, n * problem.H : (n + 1) * problem.H]
        firsts, lengths = torch.from_numpy(problem.offsets), torch.from_numpy(problem.lattice.lengths.copy())
        edges = firsts if n == 0 else firsts + lengths - 1
        return own.roll(-1 if n else 1, dims=0).index_fill_(0, edges[lengths > 0], 0)


def weight_gradients(
    problem: Problem, characters: Characters, n: int, trace: Trace, d: GateGradients
) -> LatticeLSTMWeights:
    """One product for each matrix of direction n, over all characters or words."""
    H, wide = problem.H, problem.G * problem.H
    h = characters.h[:, n * H : (n + 1) * H]
    by_input, by_bias = characters.x.T @ d.d_char, d.d_char.sum(0)
    return LatticeLSTMWeights(
        char_input=by_input[:, :wide],
        char_hidden=characters.before(problem, n).T @ d.d_char[:, :wide],
        char_bias=by_bias[:wide],
        word_input=problem.word_x.T @ d.d_word,
        word_hidden=h.index_select(0, problem.starting(n)).T @ d.d_start,
        word_bias=d.d_word.sum(0),
        link_input=by_input[:, wide:],
        link_hidden=trace.word_cells[:, :H].T @ d.d_link,
        link_bias=by_bias[wide:],
    )
