"""The memory that a call needs beyond what is there already, at its highest."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

_SELF = Path("/proc/self")


def peak_bytes(work: Callable[[], object], device: torch.device) -> int | None:
    """On a GPU what torch allocates there; on Linux the growth of resident memory; None where nobody counts."""
    return _on_gpu(work, device) if device.type == "cuda" else _resident(work)


def _on_gpu(work: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _resident(work: Callable[[], object]) -> int | None:
    return _growth(work) if _gives_back() else None


@cache
def _gives_back() -> bool:
    """Whether torch's freed memory goes back to the system. Where its allocator keeps it, growth says nothing."""
    size = 64 << 20
    first, again = (_growth(lambda: torch.ones(size, dtype=torch.uint8)) for _ in range(2))
    return first is not None and again is not None and again > size // 2


def _growth(work: Callable[[], object]) -> int | None:
    """What earlier calls freed goes back to the system first, or it would be used again and not be seen."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        (_SELF / "clear_refs").write_text("5")  # the highest size so far is now the present one
    except (OSError, AttributeError):  # another system, another C library, or not allowed
        return None
    before = _kilobytes("VmRSS")
    work()
    return max(0, _kilobytes("VmHWM") - before) * 1024


def _kilobytes(name: str) -> int:
    lines = (_SELF / "status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
