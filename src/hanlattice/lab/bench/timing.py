"""Medians of repeated calls, the peak of their memory, and the machine they were taken on.

Calls to be compared take turns, so that a slow moment of the machine affects them all.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hanlattice.ops import library
from hanlattice.optional import __version__, installed

TURNS = 5
FEW = 3
_CPUINFO = Path("/proc/cpuinfo")
_SELF = Path("/proc/self")


class Timing(NamedTuple):
    seconds: float  # the median of one call
    calls: int


def medians(
    works: Mapping[str, Callable[[], object]], seconds: float, device: torch.device | None = None
) -> dict[str, Timing]:
    """Time each work after a warm-up, for at least `seconds` and `TURNS` calls.

    Where one call takes that long on a CPU, `FEW` calls are all, the first among them: what it
    warms up does not count. With a GPU for `device`, calls follow each other without a wait and its
    own clock is read between them; without one, the host's clock is.
    """
    series = {name: _Series(work, seconds, device) for name, work in works.items()}
    for _ in range(TURNS):
        for work in series.values():
            work.take_turn()
    times = {name: work.times for name, work in series.items()}
    return {name: Timing(statistics.median(calls), len(calls)) for name, calls in times.items()}


class _Series:
    """The times of one work among those that take turns."""

    def __init__(
        self, work: Callable[[], object], seconds: float, device: torch.device | None
    ) -> None:
        self.work = work
        self.device = device
        self.share = seconds / TURNS
        self.times = call_times(work, 1, device)
        self.turns = FEW - 1
        self.calls = 1
        on_gpu = device is not None and device.type == "cuda"
        if self.times[0] < seconds or on_gpu:  # a GPU's first call may have compiled something
            pace = max(call_times(work, 1, device)[0], 1e-6)
            self.times, self.turns, self.calls = [], TURNS, math.ceil(self.share / pace)

    def take_turn(self) -> None:
        if self.turns:
            self.turns -= 1
            self.times += call_times(self.work, self.calls, self.device, 2 * self.share)


def call_times(
    work: Callable[[], object], calls: int, device: torch.device | None, limit: float = math.inf
) -> list[float]:
    """Return the seconds of each call; a busy CPU begins none after `limit`."""
    if device is not None and device.type == "cuda":
        return _gpu_times(work, calls, device)
    marks = [time.perf_counter()]
    for _ in range(calls):
        work()
        marks.append(time.perf_counter())
        if marks[-1] - marks[0] > limit:
            break
    return [after - before for before, after in pairwise(marks)]


def _gpu_times(work: Callable[[], object], calls: int, device: torch.device) -> list[float]:
    with torch.cuda.device(device):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(calls + 1)]  # type: ignore[no-untyped-call]
        marks[0].record()
        for mark in marks[1:]:
            work()
            mark.record()
        torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]


def peak_bytes(work: Callable[[], object], device: torch.device) -> int | None:
    """Return the growth of memory: torch's on a GPU, resident on Linux; None if unknown."""
    if device.type != "cuda":
        return _growth(work) if _gives_back() else None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


@cache
def _gives_back() -> bool:
    """Check that torch's freed memory goes back to the system; else growth says nothing."""
    size = 64 << 20
    first, again = (_growth(lambda: torch.ones(size, dtype=torch.uint8)) for _ in range(2))
    return first is not None and again is not None and again > size // 2


def _growth(work: Callable[[], object]) -> int | None:
    def kilobytes(name: str) -> int:
        lines = (_SELF / "status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    try:
        # What earlier calls freed would be used again and not be seen.
        ctypes.CDLL(None).malloc_trim(0)
        # The highest size so far is now the present one.
        (_SELF / "clear_refs").write_text("5")
    # Another system, another C library, or not allowed.
    except (OSError, AttributeError):
        return None
    before = kilobytes("VmRSS")
    work()
    return max(0, kilobytes("VmHWM") - before) * 1024


def versions() -> dict[str, Any]:
    """Return the versions of everything, None for what is not installed."""
    return {
        "hanlattice": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": installed("triton"),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "rjieba": installed("rjieba"),
    }


def machine(device: torch.device) -> dict[str, Any]:
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "system": platform.platform(),
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        # Its instruction set, or why it is missing.
        "native": library.missing() or library.loaded().level,
    }


def busy() -> tuple[float, int]:
    """Return how many processes wanted a core in the last minute, and the number of cores."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return load, os.cpu_count() or 1
