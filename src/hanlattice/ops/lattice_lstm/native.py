"""The lattice LSTM on the CPU by a small C library: the same numbers as `batched`, faster.

C does the products with the inputs and the recurrence, for some sentences in one direction a call; calls are
independent, so threads meet only at the end. The gradients of weights and inputs are products by torch, after C has
found those of the gates. `ops/library.py` loads the library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops import library
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, gate_count
from hanlattice.ops.threads import run_calls
from hanlattice.text.lattice import Lattice

MOST_ROWS = 32  # sentences a call: enough for the products, and their state stays in the cache


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


def _each(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class Task(ctypes.Structure):
    """One call: some sentences in one direction. The twin of Task in native_task.h, which says what each number is."""

    _fields_ = (
        *_each(ctypes.c_int64, "size B T C W D E H G mirrored stride rows"),
        *_each(ctypes.c_void_p, "sentence lengths plan x word_x"),
        *_each(ctypes.c_void_p, " ".join(LatticeLSTMWeights._fields)),
        *_each(ctypes.c_void_p, "h arrived gates cells squashed word_gates word_cells links"),
        *_each(ctypes.c_void_p, "d_h d_arrived d_char d_word d_link d_start"),
    )


class Trace(NamedTuple):
    """What one direction leaves for its backward pass. Hp is H in whole vectors; words end at P characters."""

    arrived: Tensor  # [P, 3Hp]
    gates: Tensor  # [C, G·Hp]
    cells: Tensor  # [C, Hp]
    squashed: Tensor  # [C, Hp]
    word_gates: Tensor  # [W, 3Hp]
    word_cells: Tensor  # [W, Hp]
    links: Tensor  # [W, Hp]


class GateGradients(NamedTuple):
    """Of one direction, all before the nonlinearity. Words start at S characters, whose words' gradients are summed."""

    d_char: Tensor  # [C, (G+1)·H]: the character's gates, then x · link_input
    d_word: Tensor  # [W, 3H]
    d_link: Tensor  # [W, H]
    d_start: Tensor  # [S, 3H]


class Problem:
    """Inputs, weights of N directions and lattice, as the C functions want them. C counts no padding."""

    def __init__(
        self, x: Tensor, word_x: Tensor, lattice: Lattice, weights: Sequence[LatticeLSTMWeights], coupled: bool
    ) -> None:
        self.x, self.word_x, self.lattice = x.contiguous(), word_x.contiguous(), lattice
        self.weights = [LatticeLSTMWeights(*(tensor.contiguous() for tensor in each)) for each in weights]
        self.N, self.G, self.H = len(weights), gate_count(coupled), weights[0].hidden
        self.B, self.T, self.D = x.shape
        self.W, self.E = word_x.shape
        self.lengths = _plain(lattice.lengths)
        self.C = int(self.lengths.sum())
        self.plan = self._plan()
        self.order = np.argsort(-self.lengths, kind="stable")  # longest first

    def _plan(self) -> npt.NDArray[np.int64]:
        """Where words start and end, by native_plan.c: 2 counts, B offsets, and two sides of 2W + 2C + 1 numbers."""
        plan = np.empty(2 + self.B + 2 * (2 * self.W + 2 * self.C + 1), dtype=np.int64)
        arrays = [self.lengths, *map(_plain, (self.lattice.sentence, self.lattice.start, self.lattice.end))]
        kinds = (ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 4)
        make = library.function("lattice_plan", self.x.dtype, *kinds)
        make(plan.ctypes.data, self.B, self.C, self.W, *(array.ctypes.data for array in arrays))
        return plan

    @property
    def padded(self) -> int:
        """Hp: H in whole vectors."""
        return library.function("lattice_padded", self.x.dtype, ctypes.c_int64)(self.H)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """[B]: the number of each sentence's first character."""
        return self.plan[2 : 2 + self.B]

    def end_count(self, n: int) -> int:
        return int(self.plan[1 - n])

    def starting(self, n: int) -> Tensor:
        """[S]: the characters at which words start in direction n."""
        side = 2 + self.B + n * (2 * self.W + 2 * self.C + 1)
        slots = self.plan[side + 2 * self.W + self.C + 1 :][: self.C]
        return torch.from_numpy(np.flatnonzero(slots >= 0))

    def places(self) -> Tensor:
        """[C]: where each character is in the padded [B·T]."""
        shift = np.arange(self.B) * self.T - self.offsets
        return torch.from_numpy(np.arange(self.C) + np.repeat(shift, self.lengths))

    def run_forward(self, keep: bool) -> tuple[Tensor, list[Trace]]:
        """h [B, T, N·H], and for each direction what backward needs, if that is to be kept."""
        new, Hp = self.x.new_empty, self.padded
        h = (new if self.C == self.B * self.T else self.x.new_zeros)(self.B, self.T, self.N * self.H)
        arrived = [new(self.end_count(n), 3 * Hp) for n in range(self.N)]
        traces = [self._trace(each, Hp) for each in arrived] if keep else []
        own = [trace._asdict() for trace in traces] if keep else [{"arrived": each} for each in arrived]
        self._run("lattice_forward", [self._task(n, {"h": h}, own[n]) for n in range(self.N)])
        return h, traces

    def _trace(self, arrived: Tensor, Hp: int) -> Trace:
        C, W, new = self.C, self.W, self.x.new_empty
        characters = (new(C, self.G * Hp), new(C, Hp), new(C, Hp))
        return Trace(arrived, *characters, new(W, 3 * Hp), new(W, Hp), new(W, Hp))

    def run_backward(self, d_h: Tensor, traces: Sequence[Trace]) -> list[GateGradients]:
        """From d h [B, T, N·H] to the gradients of every gate, for each direction."""
        new, H, W = self.x.new_empty, self.H, self.W
        wide, starts = (self.G + 1) * H, self.plan[: self.N].tolist()
        found = [GateGradients(new(self.C, wide), new(W, 3 * H), new(W, H), new(S, 3 * H)) for S in starts]
        arrived = [new(self.end_count(n), 2 * self.padded) for n in range(self.N)]
        tasks = [
            self._task(n, {"d_h": d_h}, {"d_arrived": arrived[n], **traces[n]._asdict(), **found[n]._asdict()})
            for n in range(self.N)
        ]
        self._run("lattice_backward", tasks)
        return found

    def _task(self, n: int, shared: dict[str, Tensor], own: dict[str, Tensor]) -> Task:
        """Direction n with all sentences. Of shared tensors [B, T, N·H] it gets its own columns."""
        tensors = {"x": self.x, "word_x": self.word_x, **self.weights[n]._asdict(), **own}
        skip = n * self.H * self.x.element_size()
        return Task(
            size=ctypes.sizeof(Task),
            mirrored=n,
            stride=self.N * self.H,
            lengths=self.lengths.ctypes.data,
            plan=self.plan.ctypes.data,
            **{name: getattr(self, name) for name in "BTCWDEHG"},
            **{name: tensor.data_ptr() for name, tensor in tensors.items()},
            **{name: tensor.data_ptr() + skip for name, tensor in shared.items()},
        )

    def _run(self, name: str, tasks: Sequence[Task]) -> None:
        """Cut every task into groups of sentences, for the cache and so that each thread has some; do them all."""
        groups = max(-(-self.B // MOST_ROWS), min(self.B, torch.get_num_threads() // len(tasks)), 1)
        call = library.function(name, self.x.dtype, ctypes.c_void_p)
        pieces = [self._piece(task, group, groups) for group in range(groups) for task in tasks]
        results = run_calls(call, pieces)  # the codes of native_task.h
        if -1 in results:
            raise RuntimeError("the C library was not built from these sources: install hanlattice again")
        if any(results):
            raise MemoryError("no memory for the lattice LSTM")

    def _piece(self, task: Task, group: int, groups: int) -> Task:
        low, high = self.B * group // groups, self.B * (group + 1) // groups
        piece = Task.from_buffer_copy(task)
        piece.rows, piece.sentence = high - low, self.order.ctypes.data + low * self.order.itemsize
        return piece


def _plain(array: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As C reads it: one number after the other."""
    return np.ascontiguousarray(array, dtype=np.int64)
