"""The lattice LSTM as pure functions, and the choice among its backends, which agree in numbers.

Tensors have all backends. NumPy arrays, for which torch is not imported, have C and, without it,
`trace`. README.md beside this file has the equations and the memory layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hanlattice.errors import InputError
from hanlattice.ops import library
from hanlattice.ops.lattice_lstm import native, trace
from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights, weight_shapes
from hanlattice.text.lattice import Lattice

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = [
    "BACKENDS",
    "LatticeLSTMWeights",
    "bidirectional",
    "choose",
    "lattice_lstm",
    "prepare",
    "resolve",
    "runnable",
]

_FUSED = ("fused", "fused-fp32", "fused-tf32", "fused-bf16")
BACKENDS = ("auto", "auto-fp32", "reference", "batched", "native", *_FUSED)
# The precision of "fused": the fastest, and as good (README.md).
PRECISION = "bf16"

# (x, word_x, lattice, weights of one direction or of both, coupled) → h [B, T, N·H]
Backend = Callable[[Any, Any, Lattice, Sequence[LatticeLSTMWeights], bool], Any]


def lattice_lstm(
    x: Any,
    word_x: Any,
    lattice: Lattice,
    weights: LatticeLSTMWeights,
    coupled: bool = True,
    backend: str = "auto",
) -> Any:
    """Compute one direction.

    Args:
        x: [B, T, D], the characters.
        word_x: [W, E], the words in the lattice's order.
        lattice: The words of each sentence.
        weights: The weights of the direction.
        coupled: Whether the forget gate of a character is 1 − its input gate.
        backend: One of BACKENDS, for tensors.

    Returns:
        h [B, T, H], zero after a sentence.
    """
    check(x, word_x, lattice, weights, coupled)
    return choose(backend, x)(x, word_x, lattice, [weights], coupled)


def bidirectional(
    x: Any,
    word_x: Any,
    lattice: Lattice,
    forward: LatticeLSTMWeights,
    backward: LatticeLSTMWeights,
    coupled: bool = True,
    backend: str = "auto",
) -> Any:
    """Compute both directions side by side, [B, T, 2H]; the arguments are those of `lattice_lstm`.

    The backward one reads the mirrored sentences and mirrored words.
    """
    check(x, word_x, lattice, forward, coupled)
    check_weights(x, word_x, backward, coupled)
    if forward.hidden != backward.hidden:
        sizes = f"forward has {forward.hidden}, backward {backward.hidden}"
        raise ValueError(f"both directions must have one H: {sizes}")
    return choose(backend, x)(x, word_x, lattice, [forward, backward], coupled)


def prepare(lattice: Lattice, device: torch.device | str) -> None:
    """Start to copy a lattice's schedule to the GPU, so that a later call need not wait for it."""
    import torch

    x = torch.empty(0, dtype=torch.float32, device=device)
    if x.is_cuda and not why_not_fused(x):
        from hanlattice.ops.lattice_lstm.fused import schedule

        schedule(lattice, x.device)


def check(
    x: Any, word_x: Any, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool
) -> None:
    """Raise a ValueError that names what does not fit, before a matrix product fails."""
    if x.ndim != 3 or word_x.ndim != 2:
        raise ValueError(
            f"x must be [B, T, D] and word_x [W, E], not {tuple(x.shape)} and {tuple(word_x.shape)}"
        )
    longest = int(lattice.lengths.max(initial=0))
    if len(lattice.lengths) != x.shape[0] or longest > x.shape[1]:
        sentences = f"{len(lattice.lengths)} sentences, the longest of {longest}"
        raise ValueError(f"x is {tuple(x.shape)}, but the lattice has {sentences}")
    if len(lattice) != word_x.shape[0]:
        rows = word_x.shape[0]
        raise ValueError(f"word_x has {rows} rows, but the lattice has {len(lattice)} words")
    check_weights(x, word_x, weights, coupled)


def check_weights(x: Any, word_x: Any, weights: LatticeLSTMWeights, coupled: bool) -> None:
    """Raise a ValueError that names the weight whose shape does not fit."""
    shapes = weight_shapes(x.shape[2], word_x.shape[1], weights.hidden, coupled)
    for name, tensor, shape in zip(weights._fields, weights, shapes, strict=True):
        if tuple(tensor.shape) != shape:
            raise ValueError(
                f"{name} must be {shape} with coupled={coupled}, not {tuple(tensor.shape)}"
            )


def resolve(name: str, x: Tensor) -> str:
    """Return what a name stands for with tensors like x.

    "auto" is fused on a GPU, native on a CPU, else batched; "auto-fp32" has fp32 factors on a GPU
    too.
    """
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {name!r}")
    if name.startswith("auto"):
        best = _best(x)
        name = best + name.removeprefix("auto") if best == "fused" else best
    return f"fused-{PRECISION}" if name == "fused" else name


def choose(name: str, x: Any) -> Backend:
    """Return the backend of this name for tensors like x; arrays have only one."""
    if isinstance(x, np.ndarray):
        return native.directions if library.available(x) else _plain
    from hanlattice.ops.lattice_lstm import batched

    name = resolve(name, x)
    if name.startswith("fused"):
        return _fused(name, x)
    if name == "native":
        return _native(x)
    return batched.directions if name == "batched" else _reference


def _best(x: Tensor) -> str:
    if x.is_cuda and not why_not_fused(x):
        return "fused"
    return "native" if library.available(x) else "batched"


def why_not_fused(x: Tensor) -> str:
    """Return why the fused kernels cannot take such tensors, or "" if they can."""
    from hanlattice.ops import gpu

    kind = library.real_name(x.dtype)
    return gpu.why_not(x) if kind == "float32" else f"it takes float32, not {kind}"


def _fused(name: str, x: Tensor) -> Backend:
    if reason := why_not_fused(x):
        raise InputError(f"the backend {name} cannot be used: {reason}")
    from hanlattice.ops.lattice_lstm import fused

    return partial(fused.directions, precision=name.partition("-")[2])


def _native(x: Tensor) -> Backend:
    if reason := library.missing():
        raise InputError(f"the backend native cannot be used: {reason}")
    if not library.available(x):
        raise InputError(
            f"the backend native takes float32 or float64 on the CPU, not {x.dtype} on {x.device}"
        )
    from hanlattice.ops.lattice_lstm import differentiable

    return differentiable.directions


def _plain(
    x: Any, word_x: Any, lattice: Lattice, weights: Sequence[LatticeLSTMWeights], coupled: bool
) -> Any:
    """Compute with NumPy where the C library is missing."""
    if len(weights) == 1:
        return trace.lattice_lstm(x, word_x, lattice, weights[0], coupled).h
    both = trace.bidirectional(x, word_x, lattice, weights, coupled)
    return np.concatenate([direction.h for direction in both], axis=2)


def _reference(
    x: Tensor,
    word_x: Tensor,
    lattice: Lattice,
    weights: Sequence[LatticeLSTMWeights],
    coupled: bool,
) -> Tensor:
    import torch

    from hanlattice.ops.lattice_lstm import reference
    from hanlattice.ops.lattice_lstm.batched import mirror_index, take

    ahead = reference.lattice_lstm(x, word_x, lattice, weights[0], coupled)
    if len(weights) == 1:
        return ahead
    flip = mirror_index(lattice, x)
    back = reference.lattice_lstm(take(x, flip), word_x, lattice.reversed(), weights[1], coupled)
    return torch.cat([ahead, take(back, flip)], dim=-1)


def runnable(x: Tensor) -> dict[str, str]:
    """Return the backends for tensors like x, with their full names: "auto" → "native".

    Of two names for the same backend the first counts.
    """
    full_names: dict[str, str] = {}
    for name in BACKENDS:
        # Triton's interpreter can run the fused kernels on a CPU, but only tests want that.
        if name.startswith("fused") and not x.is_cuda:
            continue
        try:
            choose(name, x)
        except InputError:
            continue
        if resolve(name, x) not in full_names.values():
            full_names[name] = resolve(name, x)
    return full_names
