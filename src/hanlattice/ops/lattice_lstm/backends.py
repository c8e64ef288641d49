"""The ways to compute a lattice LSTM, by name, and which of them "auto" takes. All give the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from hanlattice.errors import InputError
from hanlattice.ops import gpu, library
from hanlattice.ops.lattice_lstm import batched, native, reference
from hanlattice.ops.lattice_lstm.mirror import mirror_index, take
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice

BACKENDS = ("auto", "auto-fp32", "reference", "batched", "native", "fused", "fused-fp32", "fused-tf32", "fused-bf16")
PRECISION = "bf16"  # that "fused" has: the fastest, and as good (README.md)


# (x, word_x, lattice, weights of one direction or of both, coupled) → h [B, T, N·H]
Backend = Callable[[Tensor, Tensor, Lattice, Sequence[LatticeLSTMWeights], bool], Tensor]


def resolve(name: str, x: Tensor) -> str:
    """What a name stands for with tensors like x. "auto": fused on a GPU, native on a CPU, else batched.

    "auto-fp32" is the same with fp32 factors on a GPU, as they are on a CPU.
    """
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {name!r}")
    if name.startswith("auto"):
        best = _best(x)
        name = best + name.removeprefix("auto") if best == "fused" else best
    return f"fused-{PRECISION}" if name == "fused" else name


def choose(name: str, x: Tensor) -> Backend:
    """The backend of this name for tensors like x."""
    name = resolve(name, x)
    if name.startswith("fused"):
        return _fused(name, x)
    if name == "native":
        return _native(x)
    return batched.directions if name == "batched" else _reference


def _best(x: Tensor) -> str:
    if x.is_cuda and not why_not_fused(x):
        return "fused"
    return "native" if native.available(x) else "batched"


def why_not_fused(x: Tensor) -> str:
    """What keeps the fused kernels from such tensors; "" if nothing does."""
    if x.dtype != torch.float32:
        return f"it takes float32, not {str(x.dtype).removeprefix('torch.')}"
    return gpu.why_not(x)


def _fused(name: str, x: Tensor) -> Backend:
    if reason := why_not_fused(x):
        raise InputError(f"the backend {name} cannot be used: {reason}")
    from hanlattice.ops.lattice_lstm import fused

    return partial(fused.directions, precision=name.partition("-")[2])


def _native(x: Tensor) -> Backend:
    if reason := library.missing():
        raise InputError(f"the backend native cannot be used: {reason}")
    if not native.available(x):
        raise InputError(f"the backend native takes float32 or float64 on the CPU, not {x.dtype} on {x.device}")
    return native.directions


def _reference(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: Sequence[LatticeLSTMWeights], coupled: bool
) -> Tensor:
    """The second direction reads mirrored sentences and mirrored words."""
    ahead = reference.lattice_lstm(x, word_x, lattice, weights[0], coupled)
    if len(weights) == 1:
        return ahead
    flip = mirror_index(lattice, x)
    back = reference.lattice_lstm(take(x, flip), word_x, lattice.reversed(), weights[1], coupled)
    return torch.cat([ahead, take(back, flip)], dim=-1)
