"""Where things stand in a picture of a lattice: rows of characters, levels of arcs, and where arcs touch them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

WIDE, NARROW = 64.0, 44.0  # of a cell
ROOM = 5.0  # between what stands on one level
LOOSE = 1.2  # how much longer than even a row may be


class Interval(NamedTuple):
    """Characters [start, end)."""

    start: int
    end: int


def rows(
    widths: Sequence[float], most: float, keep: Sequence[Interval], soft: Sequence[Interval], breaks: Sequence[int]
) -> list[Interval]:
    """Runs of cells of at most this width, about equally long, never across one of `breaks`.

    In the last third of a full row it ends where it cuts the fewest of `keep`, then of `soft`, and then furthest right.
    """
    found = []
    kept, softly = crossings(keep, len(widths)), crossings(soft, len(widths))
    for low, high in pairwise(sorted({0, len(widths), *breaks})):
        start = low
        while start < high:
            left = sum(widths[start:high])
            even = left / math.ceil(left / most)  # rows of this width leave no short one at the end
            end = _fitting(widths, start, high, min(most, even * LOOSE))
            if end < high:
                least = start + max(1, (end - start) * 2 // 3)
                end = min(range(least, end + 1), key=lambda at: (kept[at], softly[at], -at))
            found.append(Interval(start, end))
            start = end
    return found or [Interval(0, 0)]


def _fitting(widths: Sequence[float], start: int, high: int, most: float) -> int:
    """The end of the longest run of cells that fits, of one cell at least."""
    total, end = 0.0, start
    while end < high and (end == start or total + widths[end] <= most):
        total += widths[end]
        end += 1
    return end


def crossings(intervals: Sequence[Interval], length: int) -> list[int]:
    """For each gap between characters, from 0 to `length`, how many intervals a cut there would part."""
    changes = [0] * (length + 2)
    for start, end in intervals:
        changes[start + 1] += 1
        changes[end] -= 1
    return list(accumulate(changes))[: length + 1]


def by_row(intervals: Sequence[Interval], found: Sequence[Interval]) -> list[list[int]]:
    """For each row the places of the intervals that it has a part of."""
    starts = [row.start for row in found]
    places: list[list[int]] = [[] for _ in found]
    for at, (start, end) in enumerate(intervals):
        for row in range(bisect_right(starts, start) - 1, bisect_left(starts, end)):
            places[row].append(at)
    return places


def edges(widths: Sequence[float], row: Interval) -> list[float]:
    """The left edge of each cell of a row, and the right edge of the last."""
    return [0.0, *accumulate(widths[row.start : row.end])]


class Reach(NamedTuple):
    """From where to where something stands in a row, and how long it is for the order of levels."""

    left: float
    right: float
    length: float


def levels(reaches: Sequence[Reach]) -> list[int]:
    """The level of each, from 0: the shortest lie lowest, then the first; those of one level stand apart."""
    taken: list[list[Reach]] = []
    found = [0] * len(reaches)
    for at in sorted(range(len(reaches)), key=lambda at: (reaches[at].length, at)):
        mine = reaches[at]
        free = (n for n, level in enumerate(taken) if not any(_meet(mine, other) for other in level))
        level = next(free, len(taken))
        if level == len(taken):
            taken.append([])
        taken[level].append(mine)
        found[at] = level
    return found


def _meet(one: Reach, other: Reach) -> bool:
    return one.left < other.right + ROOM and other.left < one.right + ROOM


def touches(spans: Sequence[Interval], lefts: Sequence[float], first: int) -> list[tuple[float, float]]:
    """Where each arc touches its first and its last cell, so that no two touch at the same place.

    At one cell those that come from the left stand left, the shortest outermost; those that go to the right stand
    right, the shortest outermost likewise: then arcs of one cell do not cross each other. `lefts` are the edges of
    the cells from character `first` on; an arc that begins or ends in another row goes to the edge of this one.
    """
    ends: dict[int, list[tuple[tuple[int, int, int], int, int]]] = {}  # cell → (order, arc, 0 its start, 1 its end)
    for at, (start, end) in enumerate(spans):
        ends.setdefault(end - 1, []).append(((0, end - start, at), at, 1))
        ends.setdefault(start, []).append(((1, start - end, -at), at, 0))
    found = [[lefts[0], lefts[-1]] for _ in spans]
    for cell, here in ends.items():
        if not first <= cell < first + len(lefts) - 1:
            continue
        left, right = lefts[cell - first], lefts[cell - first + 1]
        step = (right - left) / (len(here) + 1)
        for nth, (_, at, side) in enumerate(sorted(here), start=1):
            found[at][side] = left + nth * step
    return [(low, high) for low, high in found]
