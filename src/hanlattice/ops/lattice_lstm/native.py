"""The lattice LSTM on the CPU by a small C library: the same numbers as `batched`, faster, on
arrays of numpy.

C does the products with the inputs and the recurrence, for some sentences in one direction a call;
calls are independent, so threads meet only at the end. `ops/library.py` loads the library;
`differentiable.py` is for tensors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops import library, threads
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, gate_count
from hanlattice.text.lattice import Ints, Lattice

Array = npt.NDArray[Any]

LINE = 64  # bytes of a cache line
MOST_ROWS = 32  # sentences a call: enough for the products, and their state stays in the cache


def directions(
    x: Array,
    word_x: Array,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
    packed: Sequence[Array] = (),
) -> Array:
    """The first direction, and the mirrored one if there are two: [B, T, N·H]. The caller has
    checked the shapes.

    `packed` are the weights of each as `pack` gives them; without them they are packed for this
    call.
    """
    check_kinds(x, word_x, *(part for each in weights for part in each))
    if not lattice.lengths.any():
        return np.zeros((*x.shape[:2], len(weights) * weights[0].hidden), dtype=x.dtype)
    return KernelCall(x, word_x, lattice, weights, coupled, packed).run_forward(keep=False)[0]


def pack(
    weights: Sequence[LatticeLSTMWeights], coupled: bool, by: str = "lattice_pack"
) -> list[Array]:
    """The weights of each direction as C reads them, in memory that begins with a cache line."""
    return [
        _pack(LatticeLSTMWeights(*map(np.ascontiguousarray, each)), coupled, by) for each in weights
    ]


def _pack(weights: LatticeLSTMWeights, coupled: bool, by: str) -> Array:
    D, _ = weights.char_input.shape
    E, _ = weights.word_input.shape
    kind = weights.char_input.dtype
    sizes = {"D": D, "E": E, "H": weights.hidden, "G": gate_count(coupled)}
    arrays = {name: array.ctypes.data for name, array in weights._asdict().items()}
    task = KernelTask(size=ctypes.sizeof(KernelTask), **sizes, **arrays)
    write = library.function(by, kind, ctypes.c_void_p, ctypes.c_void_p)
    room = np.empty(write(ctypes.addressof(task), None) + LINE // kind.itemsize, dtype=kind)
    packed = room[-room.ctypes.data % LINE // kind.itemsize :]
    write(ctypes.addressof(task), packed.ctypes.data)
    return packed


def check_kinds(*values: Any) -> None:
    """Whether these arrays or tensors can go to the library."""
    if not library.available(*values):
        why = (
            library.missing()
            or "inputs and weights must be on the CPU, all of them float32 or all float64"
        )
        raise RuntimeError(f"the native backend cannot run: {why}")


def _each(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class KernelTask(ctypes.Structure):
    """One call: some sentences in one direction. The twin of Task in native_task.h, which says what
    each number is.
    """

    _fields_ = (
        *_each(ctypes.c_int64, "size B T C W D E H G mirrored stride rows"),
        *_each(ctypes.c_void_p, "sentence lengths plan x word_x"),
        *_each(ctypes.c_void_p, " ".join(LatticeLSTMWeights._fields)),
        *_each(ctypes.c_void_p, "h arrived gates cells squashed word_gates word_cells links"),
        *_each(ctypes.c_void_p, "d_h d_arrived d_char d_word d_link d_start"),
        *_each(ctypes.c_void_p, "packed x_scale word_scale h_small"),
    )


class NativeTrace(NamedTuple):
    """What one direction leaves for its backward pass. Hp is H in whole vectors; words end at P
    characters.
    """

    arrived: Array  # [P, 3Hp]
    gates: Array  # [C, G·Hp]
    cells: Array  # [C, Hp]
    squashed: Array  # [C, Hp]
    word_gates: Array  # [W, 3Hp]
    word_cells: Array  # [W, Hp]
    links: Array  # [W, Hp]


class GateGradients(NamedTuple):
    """Of one direction, all before the nonlinearity. Words start at S characters, whose words'
    gradients are summed.
    """

    d_char: Any  # [C, (G+1)·H]: the character's gates, then x · link_input
    d_word: Any  # [W, 3H]
    d_link: Any  # [W, H]
    d_start: Any  # [S, 3H]


class KernelCall:
    """Inputs, weights of N directions and lattice, as the C functions want them. C counts no
    padding.
    """

    def __init__(
        self,
        x: Array,
        word_x: Array,
        lattice: Lattice,
        weights: Sequence[LatticeLSTMWeights],
        coupled: bool,
        packed: Sequence[Array] = (),
    ) -> None:
        self.x = np.ascontiguousarray(x)
        self.word_x = np.ascontiguousarray(word_x)
        self.lattice = lattice
        self.packed = packed
        self.weights = [LatticeLSTMWeights(*map(np.ascontiguousarray, each)) for each in weights]
        self.N = len(weights)
        self.G = gate_count(coupled)
        self.H = weights[0].hidden
        self.dtype = self.x.dtype
        self._read(x.shape, word_x.shape)

    def _read(self, x: tuple[int, ...], word_x: tuple[int, ...]) -> None:
        """What follows from the shapes and the lattice."""
        self.B, self.T, self.D = x
        self.W, self.E = word_x
        self.lengths = _plain(self.lattice.lengths)
        self.C = int(self.lengths.sum())
        self.plan = self._plan()
        self.order = np.argsort(-self.lengths, kind="stable")  # longest first

    def _plan(self) -> Ints:
        """Where words start and end, by native_plan.c: 2 counts, B offsets, and two sides of 2W +
        2C + 1 numbers.
        """
        plan = np.empty(2 + self.B + 2 * (2 * self.W + 2 * self.C + 1), dtype=np.int64)
        arrays = [
            self.lengths,
            *map(_plain, (self.lattice.sentence, self.lattice.start, self.lattice.end)),
        ]
        kinds = (ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 4)
        make = library.function("lattice_plan", self.dtype, *kinds)
        make(plan.ctypes.data, self.B, self.C, self.W, *(array.ctypes.data for array in arrays))
        return plan

    @property
    def padded(self) -> int:
        """Hp: H in whole vectors."""
        return library.function("lattice_padded", self.dtype, ctypes.c_int64)(self.H)

    @property
    def offsets(self) -> Ints:
        """[B]: the number of each sentence's first character."""
        offsets: Ints = self.plan[2 : 2 + self.B]
        return offsets

    def end_count(self, n: int) -> int:
        return int(self.plan[1 - n])

    def starting(self, n: int) -> Ints:
        """[S]: the characters at which words start in direction n."""
        side = 2 + self.B + n * (2 * self.W + 2 * self.C + 1)
        slots = self.plan[side + 2 * self.W + self.C + 1 :][: self.C]
        return np.flatnonzero(slots >= 0)

    def places(self) -> Ints:
        """[C]: where each character is in the padded [B·T]."""
        shift = np.arange(self.B) * self.T - self.offsets
        places: Ints = np.arange(self.C) + np.repeat(shift, self.lengths)
        return places

    def new(self, *shape: int) -> Array:
        return np.empty(shape, dtype=self.x.dtype)

    def run_forward(self, keep: bool) -> tuple[Array, list[NativeTrace]]:
        """h [B, T, N·H], and for each direction what backward needs, if that is to be kept."""
        Hp = self.padded
        shape = (self.B, self.T, self.N * self.H)
        h = self.new(*shape) if self.C == self.B * self.T else np.zeros(shape, dtype=self.x.dtype)
        traces = [self._trace(self.end_count(n), Hp) for n in range(self.N)] if keep else []
        own = [trace._asdict() for trace in traces] if keep else [{}] * self.N
        self._run("lattice_forward", [self._task(n, {"h": h}, own[n]) for n in range(self.N)])
        return h, traces

    def _trace(self, ends: int, Hp: int) -> NativeTrace:
        C = self.C
        W = self.W
        new = self.new
        characters = (new(C, self.G * Hp), new(C, Hp), new(C, Hp))
        return NativeTrace(new(ends, 3 * Hp), *characters, new(W, 3 * Hp), new(W, Hp), new(W, Hp))

    def run_backward(self, d_h: Array, traces: Sequence[NativeTrace]) -> list[GateGradients]:
        """From d h [B, T, N·H] to the gradients of every gate, for each direction."""
        new = self.new
        H = self.H
        W = self.W
        wide = (self.G + 1) * H
        starts = self.plan[: self.N].tolist()
        found = [
            GateGradients(new(self.C, wide), new(W, 3 * H), new(W, H), new(S, 3 * H))
            for S in starts
        ]
        arrived = [new(self.end_count(n), 2 * self.padded) for n in range(self.N)]
        tasks = [
            self._task(
                n,
                {"d_h": d_h},
                {"d_arrived": arrived[n], **traces[n]._asdict(), **found[n]._asdict()},
            )
            for n in range(self.N)
        ]
        self._run("lattice_backward", tasks)
        return found

    def _task(self, n: int, shared: dict[str, Array], own: dict[str, Array]) -> KernelTask:
        """Direction n with all sentences. Of shared arrays [B, T, N·H] it gets its own columns."""
        arrays = {"x": self.x, "word_x": self.word_x, **self.weights[n]._asdict(), **own}
        skip = n * self.H * self.x.itemsize
        return self._new_task(
            n,
            **{name: array.ctypes.data for name, array in arrays.items()},
            **{name: array.ctypes.data + skip for name, array in shared.items()},
        )

    def _new_task(self, n: int, **addresses: int | None) -> KernelTask:
        return KernelTask(
            size=ctypes.sizeof(KernelTask),
            mirrored=n,
            stride=self.N * self.H,
            lengths=self.lengths.ctypes.data,
            plan=self.plan.ctypes.data,
            packed=self.packed[n].ctypes.data if self.packed else None,
            **{name: getattr(self, name) for name in "BTCWDEHG"},
            **addresses,
        )

    def _run(self, name: str, tasks: Sequence[KernelTask]) -> None:
        """Cut every task into groups of sentences, for the cache and so that each thread has some;
        do them all.
        """
        groups = max(-(-self.B // MOST_ROWS), min(self.B, threads.count() // len(tasks)), 1)
        call = library.function(name, self.dtype, ctypes.c_void_p)
        pieces = [self._piece(task, group, groups) for group in range(groups) for task in tasks]
        results = threads.run_calls(call, pieces)  # the codes of native_task.h
        if -1 in results:
            raise RuntimeError(
                "the C library was not built from these sources: install hanlattice again"
            )
        if any(results):
            raise MemoryError("no memory for the lattice LSTM")

    def _piece(self, task: KernelTask, group: int, groups: int) -> KernelTask:
        low = self.B * group // groups
        high = self.B * (group + 1) // groups
        piece = KernelTask.from_buffer_copy(task)
        piece.rows = high - low
        piece.sentence = self.order.ctypes.data + low * self.order.itemsize
        return piece


def _plain(array: Ints) -> Ints:
    """As C reads it: one number after the other."""
    return np.ascontiguousarray(array, dtype=np.int64)
