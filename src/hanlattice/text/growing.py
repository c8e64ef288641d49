"""Matchers of a list that grows: a large table is not made again for each word that joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hanlattice.text.matcher import Found, TableMatcher

SMALL = 1000  # patterns of a table that costs next to nothing to make again
RATIO = 10  # how many times larger than the next one a table is at least


class Part(NamedTuple):
    """A matcher of patterns `first` to `end` of a list. Values: who holds some is not hurt by what joins later."""

    first: int
    end: int
    matcher: TableMatcher


Parts = tuple[Part, ...]  # each goes on where the one before it ends


def grown(parts: Parts, count: int, last: Callable[[int], Sequence[str]]) -> Parts:
    """Matchers of `count` patterns, of which these have the first; `last(n)` gives the n last ones.

    New ones get a table of their own, and take tables into it that are not much larger. So there are few tables, and a
    pattern is not put into one more often than the logarithm of their number. Many at once, such as a dictionary, go
    into one table with all others: that is made once, and two tables would be asked for each text.
    """
    first = parts[-1].end if parts else 0
    if parts and first == count:
        return parts
    if count - first > SMALL:
        parts, first = (), 0
    while parts and parts[-1].end - parts[-1].first <= max(SMALL, RATIO * (count - first)):
        *rest, part = parts
        parts, first = tuple(rest), part.first
    return (*parts, Part(first, count, TableMatcher(last(count - first))))


def find(parts: Parts, text: str) -> Found:
    """What all of them find in a text. A place has one pattern, so no two are equal."""
    found = [part.matcher.find(text) for part in parts]
    found = [each._replace(word=each.word + part.first) for part, each in zip(parts, found, strict=True)]
    some = [each for each in found if len(each.word)] or found[:1]
    if len(some) == 1:
        return some[0]
    start, end, word = (np.concatenate(columns) for columns in zip(*some, strict=True))
    order = np.lexsort((end, start))
    return Found(start[order], end[order], word[order])
