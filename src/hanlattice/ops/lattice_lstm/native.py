"""The lattice LSTM on the CPU in C: the same numbers as `batched`, faster, on NumPy arrays.

One call of a C function computes some sentences in one direction, with the products of the inputs
and the recurrence. Calls are independent, so threads meet only at the end. `ops/library.py` loads
the library; `differentiable.py` is for tensors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops import library, threads
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, gate_count
from hanlattice.text.lattice import Ints, Lattice

Array = npt.NDArray[Any]

CACHE_LINE_BYTES = 64
# Sentences a call: enough rows for fast products, few enough that their states stay in the cache.
MAX_ROWS = 32


def directions(
    x: Array,
    word_x: Array,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
    packed: Sequence[Array] = (),
) -> Array:
    """Compute the first direction, and the mirrored one if there are two sets of weights.

    Args:
        x: [B, T, D]; the caller has checked the shapes.
        word_x: [W, E], in the word order of the lattice.
        lattice: The words of each sentence.
        weights: The weights of each of N directions.
        coupled: Whether the input and forget gates of a character add up to 1.
        packed: The weights as `pack` returns them. Without them, every call packs the weights.

    Returns:
        h [B, T, N·H], zero after a sentence.
    """
    # Packed weights were checked when they were packed, so only the inputs can differ from them.
    if not packed or not x.dtype == word_x.dtype == packed[0].dtype:
        check_types(x, word_x, *(part for direction in weights for part in direction))
    if not lattice.lengths.any():
        return np.zeros((*x.shape[:2], len(weights) * weights[0].hidden), dtype=x.dtype)
    return KernelCall(x, word_x, lattice, weights, coupled, packed).run_forward(keep=False)[0]


def pack(
    weights: Sequence[LatticeLSTMWeights], coupled: bool, name: str = "lattice_pack"
) -> list[Array]:
    """Return the weights of each direction in the layout of C.

    Args:
        weights: The weights of each direction.
        coupled: As in `directions`.
        name: The C function that writes the layout.
    """
    all_packed = []
    for direction in weights:
        # `dense` keeps the arrays alive while C reads their addresses.
        dense = LatticeLSTMWeights(*map(np.ascontiguousarray, direction))
        task = KernelTask(
            size=ctypes.sizeof(KernelTask),
            D=len(dense.char_input),
            E=len(dense.word_input),
            H=dense.hidden,
            G=gate_count(coupled),
            **addresses(dense._asdict()),
        )
        dtype = dense.char_input.dtype
        write = library.function(name, dtype, ctypes.c_void_p, ctypes.c_void_p)
        # Without an output, C returns how many numbers it would write. NumPy aligns to 16 bytes, so
        # there is room to begin at the next cache line.
        size = write(ctypes.addressof(task), None)
        room = np.empty(size + CACHE_LINE_BYTES // dtype.itemsize, dtype=dtype)
        packed = room[-room.ctypes.data % CACHE_LINE_BYTES // dtype.itemsize :]
        write(ctypes.addressof(task), packed.ctypes.data)
        all_packed.append(packed)
    return all_packed


def check_types(*values: Any) -> None:
    """Raise a RuntimeError unless the C library can compute with these arrays or tensors."""
    if not library.available(*values):
        why = library.missing() or (
            "inputs and weights must be on the CPU, all of them float32 or all float64"
        )
        raise RuntimeError(f"the native backend cannot run: {why}")


def addresses(arrays: Mapping[str, Array]) -> dict[str, int]:
    """Return where the first number of each array lies in memory."""
    return {name: array.ctypes.data for name, array in arrays.items()}


def _fields(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


class KernelTask(ctypes.Structure):
    """Some sentences in one direction: the twin of Task in native_task.h, with its fields."""

    _fields_ = (
        *_fields(ctypes.c_int64, "size B T C W D E H G mirrored stride rows"),
        *_fields(ctypes.c_void_p, "sentence lengths plan x word_x"),
        *_fields(ctypes.c_void_p, " ".join(LatticeLSTMWeights._fields)),
        *_fields(ctypes.c_void_p, "h arrived gates cells squashed word_gates word_cells links"),
        *_fields(ctypes.c_void_p, "d_h d_arrived d_char d_word d_link d_start"),
        *_fields(ctypes.c_void_p, "packed x_scale word_scale h_small"),
    )


class NativeTrace(NamedTuple):
    """What one direction keeps for its backward pass; words end at P characters.

    Hp is H rounded up to whole vectors of the processor.
    """

    arrived: Array  # [P, 3Hp]
    gates: Array  # [C, G·Hp]
    cells: Array  # [C, Hp]
    squashed: Array  # [C, Hp]
    word_gates: Array  # [W, 3Hp]
    word_cells: Array  # [W, Hp]
    links: Array  # [W, Hp]


class GateGradients(NamedTuple):
    """The gradients of one direction by its gates, before their nonlinearity.

    Words start at S characters, and `d_start` sums the gradients of the words of each.
    """

    d_char: Any  # [C, (G+1)·H]: the character's gates, then x · link_input
    d_word: Any  # [W, 3H]
    d_link: Any  # [W, H]
    d_start: Any  # [S, 3H]


class KernelCall:
    """One batch for the C functions: inputs, lattice and weights of N directions.

    C counts no padding: its arrays have C rows for the characters of all sentences.
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
        self.weights = [LatticeLSTMWeights(*map(np.ascontiguousarray, part)) for part in weights]
        self.dtype = self.x.dtype
        self.packed = packed
        self.N = len(weights)
        self.H = weights[0].link_hidden.shape[0]
        self.G = 3 if coupled else 4
        self._read(lattice, x.shape, word_x.shape)

    def _read(self, lattice: Lattice, x: tuple[int, ...], word_x: tuple[int, ...]) -> None:
        """Set what follows from the shapes and the lattice."""
        self.lattice = lattice
        self.B, self.T, self.D = x
        self.W, self.E = word_x
        self.lengths = np.ascontiguousarray(lattice.lengths, dtype=np.int64)
        self.C = int(self.lengths.sum())
        # Longest first, so that the sentences still running are always the first rows.
        self.order = np.argsort(-self.lengths, kind="stable")
        # Where words start and end: 2 counts, B offsets, and for each direction 2W + 2C + 1
        # numbers, which native_plan.h explains.
        self.plan = np.empty(2 + self.B + 2 * (2 * self.W + 2 * self.C + 1), dtype=np.int64)
        sentence = np.ascontiguousarray(lattice.sentence, dtype=np.int64)
        start = np.ascontiguousarray(lattice.start, dtype=np.int64)
        end = np.ascontiguousarray(lattice.end, dtype=np.int64)
        kinds = (ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 4)
        library.function("lattice_plan", self.dtype, *kinds)(
            self.plan.ctypes.data,
            self.B,
            self.C,
            self.W,
            self.lengths.ctypes.data,
            sentence.ctypes.data,
            start.ctypes.data,
            end.ctypes.data,
        )

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
        """Return P, the number of characters at which words end in direction n."""
        return int(self.plan[1 - n])

    def starting(self, n: int) -> Ints:
        """Return [S]: the characters at which words start in direction n."""
        side = 2 + self.B + n * (2 * self.W + 2 * self.C + 1)
        slots = self.plan[side + 2 * self.W + self.C + 1 :][: self.C]
        return np.flatnonzero(slots >= 0)

    def places(self) -> Ints:
        """Return [C]: the index of each character in the padded [B·T]."""
        shift = np.arange(self.B) * self.T - self.offsets
        places: Ints = np.arange(self.C) + np.repeat(shift, self.lengths)
        return places

    def new(self, *shape: int) -> Array:
        """Return an array whose numbers are not set."""
        return np.empty(shape, dtype=self.dtype)

    def run_forward(self, keep: bool) -> tuple[Array, list[NativeTrace]]:
        """Return h [B, T, N·H] and, to `keep` it for backward, the trace of each direction."""
        shape = (self.B, self.T, self.N * self.H)
        # C does not write padding.
        h = self.new(*shape) if self.C == self.B * self.T else np.zeros(shape, dtype=self.dtype)
        traces = [self._trace(n) for n in range(self.N)] if keep else []
        # A direction has H columns of its own in h.
        column = self.H * h.itemsize
        tasks = []
        for n in range(self.N):
            kept = addresses(traces[n]._asdict()) if keep else {}
            tasks.append(self._float_task(n, h=h.ctypes.data + n * column, **kept))
        self._run("lattice_forward", tasks)
        return h, traces

    def _trace(self, n: int) -> NativeTrace:
        C, W, Hp = self.C, self.W, self.padded
        new = self.new
        characters = (new(C, self.G * Hp), new(C, Hp), new(C, Hp))
        words = (new(W, 3 * Hp), new(W, Hp), new(W, Hp))
        return NativeTrace(new(self.end_count(n), 3 * Hp), *characters, *words)

    def run_backward(self, d_h: Array, traces: Sequence[NativeTrace]) -> list[GateGradients]:
        """Return the gradients by all gates of each direction, from d h [B, T, N·H]."""
        new = self.new
        H, W = self.H, self.W
        gradients = []
        # Scratch of C, which has to outlive the tasks.
        arrived = []
        column = H * d_h.itemsize
        tasks = []
        for n, trace in enumerate(traces):
            d_char = new(self.C, (self.G + 1) * H)
            S = int(self.plan[n])
            gradients.append(GateGradients(d_char, new(W, 3 * H), new(W, H), new(S, 3 * H)))
            arrived.append(new(self.end_count(n), 2 * self.padded))
            arrays = {"d_arrived": arrived[n], **trace._asdict(), **gradients[n]._asdict()}
            tasks.append(self._float_task(n, d_h=d_h.ctypes.data + n * column, **addresses(arrays)))
        self._run("lattice_backward", tasks)
        return gradients

    def _float_task(self, n: int, **own: int) -> KernelTask:
        arrays = {"x": self.x, "word_x": self.word_x, **self.weights[n]._asdict()}
        return self._task(n, **addresses(arrays), **own)

    def _task(self, n: int, **own: int | None) -> KernelTask:
        """Return the task of direction n with all sentences; `own` are its remaining addresses."""
        return KernelTask(
            size=ctypes.sizeof(KernelTask),
            mirrored=n,
            stride=self.N * self.H,
            lengths=self.lengths.ctypes.data,
            plan=self.plan.ctypes.data,
            packed=self.packed[n].ctypes.data if self.packed else None,
            B=self.B,
            T=self.T,
            C=self.C,
            W=self.W,
            D=self.D,
            E=self.E,
            H=self.H,
            G=self.G,
            **own,
        )

    def _run(self, name: str, tasks: Sequence[KernelTask]) -> None:
        """Run the tasks, each cut into groups of sentences for the cache and the threads."""
        groups = max(-(-self.B // MAX_ROWS), min(self.B, threads.count() // len(tasks)), 1)
        pieces = []
        for group in range(groups):
            low = self.B * group // groups
            for task in tasks:
                piece = KernelTask.from_buffer_copy(task)
                piece.rows = self.B * (group + 1) // groups - low
                piece.sentence = self.order.ctypes.data + low * self.order.itemsize
                pieces.append(piece)
        # The codes are those of native_task.h.
        codes = threads.run_calls(library.function(name, self.dtype, ctypes.c_void_p), pieces)
        if -1 in codes:
            raise RuntimeError(
                "the C library was not built from these sources: install hanlattice again"
            )
        if any(codes):
            raise MemoryError("no memory for the lattice LSTM")
