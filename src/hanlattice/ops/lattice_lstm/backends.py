"""The ways to compute a lattice LSTM, by name, and which of them "auto" takes. All give the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from hanlattice.errors import InputError
from hanlattice.ops import gpu, library
from hanlattice.ops.lattice_lstm import batched, native, reference
from hanlattice.ops.lattice_lstm.mirror import mirror_index, take
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights
from hanlattice.text.lattice import Lattice

BACKENDS = ("auto", "reference", "batched", "native", "fused", "fused-fp32", "fused-tf32", "fused-bf16")


class Backend(NamedTuple):
    lattice_lstm: Callable[..., Tensor]
    bidirectional: Callable[..., Tensor]


def choose(name: str, x: Tensor) -> Backend:
    """The backend of this name for tensors like x. "auto": fused on a GPU, native on a CPU, else batched."""
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {name!r}")
    if name == "auto":
        name = _best(x)
    if name.startswith("fused"):
        return _fused(name, x)
    if name == "native":
        return _native(x)
    if name == "batched":
        return Backend(batched.lattice_lstm, batched.bidirectional)
    return Backend(reference.lattice_lstm, _both_ways)


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

    precision = name.partition("-")[2] or fused.DEFAULT
    return Backend(*(partial(call, precision=precision) for call in (fused.lattice_lstm, fused.bidirectional)))


def _native(x: Tensor) -> Backend:
    if reason := library.missing():
        raise InputError(f"the backend native cannot be used: {reason}")
    if not native.available(x):
        raise InputError(f"the backend native takes float32 or float64 on the CPU, not {x.dtype} on {x.device}")
    return Backend(native.lattice_lstm, native.bidirectional)


def _both_ways(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    forward: LatticeLSTMWeights,
    backward: LatticeLSTMWeights,
    coupled: bool = True,
) -> Tensor:
    """The reference in both directions: the backward one reads mirrored sentences and mirrored words."""
    flip = mirror_index(lattice, x)
    ahead = reference.lattice_lstm(x, word_x, lattice, forward, coupled)
    back = reference.lattice_lstm(take(x, flip), word_x, lattice.reversed(), backward, coupled)
    return torch.cat([ahead, take(back, flip)], dim=-1)
