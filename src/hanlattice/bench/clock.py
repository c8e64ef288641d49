"""Medians of repeated calls. Those to be compared take turns, so that a slow moment of the machine meets them all."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple

import torch

TURNS, FEW = 5, 3


class Timing(NamedTuple):
    seconds: float  # the median of one call
    calls: int


def medians(
    works: Mapping[str, Callable[[], object]], seconds: float, device: torch.device | None = None
) -> dict[str, Timing]:
    """After a warm-up, at least `seconds` and `TURNS` calls for each.

    Where one call takes that long on a CPU, `FEW` calls are all, the first among them: what it warms up does not count.
    With a GPU for `device`, calls follow each other without a wait and its own clock is read between them; without one,
    the host's clock is.
    """
    series = {name: _Series(work, seconds, device) for name, work in works.items()}
    for _ in range(TURNS):
        for each in series.values():
            each.take_turn()
    return {name: Timing(statistics.median(each.times), len(each.times)) for name, each in series.items()}


class _Series:
    """The times of one of those that take turns."""

    def __init__(self, work: Callable[[], object], seconds: float, device: torch.device | None) -> None:
        self.work, self.device, self.share = work, device, seconds / TURNS
        self.times = call_times(work, 1, device)
        self.turns, self.calls = FEW - 1, 1
        if self.times[0] < seconds or _is_gpu(device):  # a GPU's first call may have compiled something
            pace = max(call_times(work, 1, device)[0], 1e-6)
            self.times, self.turns, self.calls = [], TURNS, math.ceil(self.share / pace)

    def take_turn(self) -> None:
        if self.turns:
            self.turns -= 1
            self.times += call_times(self.work, self.calls, self.device, 2 * self.share)


def call_times(
    work: Callable[[], object], calls: int, device: torch.device | None, limit: float = math.inf
) -> list[float]:
    """The seconds of each of so many calls; on a CPU that others want too, of as many as are begun before `limit`."""
    if device is not None and _is_gpu(device):
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


def _is_gpu(device: torch.device | None) -> bool:
    return device is not None and device.type == "cuda"
