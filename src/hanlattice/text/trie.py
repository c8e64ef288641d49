"""Matchers: where the words of a large, growing list occur in a text, overlapping ones included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints
from hanlattice.text.normalize import Codes, code_points

Nodes = npt.NDArray[np.int32]

SHORT = 200  # characters up to which walking costs less than some dozens of calls into numpy
_BITS = 21  # of a code point
_LINE_END = 10
# Fibonacci hashing: 2^64 over the golden ratio
_FACTOR = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


class TooManyMatchesError(Exception):
    """Some texts have more words in them than the caller has memory for: it asks again for fewer
    texts.
    """


class Occurrences(NamedTuple):
    """Pattern `word[w]` occurs at [start[w], end[w]); sorted by start, then by end."""

    start: Ints
    end: Ints
    word: Ints


class Matches(NamedTuple):
    """The words in some texts. Text t has `counts[t]` of them; they are sorted by text, start and
    end.
    """

    counts: Ints  # [texts]
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]: ids

    def where(self, stays: npt.NDArray[np.bool_]) -> Matches:
        """Those for which [W] `stays` is true."""
        text = np.repeat(np.arange(len(self.counts)), self.counts)[stays]
        return Matches(
            np.bincount(text, minlength=len(self.counts)), *(column[stays] for column in self[1:])
        )


def by_text(found: Occurrences, lengths: Ints) -> Matches:
    """What was found in texts of these lengths that are joined by line ends, which no word
    contains.
    """
    first = np.cumsum(lengths + 1) - (lengths + 1)
    text = np.searchsorted(first, found.start, side="right") - 1
    counts = np.bincount(text, minlength=len(lengths))
    return Matches(counts, found.start - first[text], found.end - first[text], found.word)


class TableMatcher:
    """A trie as a hash table in numpy arrays, built level by level and searched from all positions
    of a text at once.

    The key of a child is (parent, code point). Keys of one hash value stand side by side: those of
    value v from `bucket[v]` up to `bucket[v + 1]`. The first level has a table of its own.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        lengths = np.fromiter(map(len, patterns), dtype=np.int64, count=len(patterns))
        self._build(code_points("".join(patterns)), lengths, np.cumsum(lengths) - lengths)

    @classmethod
    def of_lines(cls, codes: Codes) -> TableMatcher | None:
        """Of the lines of a text, all of which end with a line feed; None if one of them comes
        twice.
        """
        ends = np.flatnonzero(codes == _LINE_END)
        lengths = np.diff(ends, prepend=-1) - 1
        made = cls.__new__(cls)
        return made if made._build(codes, lengths, ends - lengths) else None

    def _build(self, codes: Codes, lengths: Ints, first: Ints) -> bool:
        """Of patterns that are so long and begin there; whether they are all different."""
        keys, last = _levels(codes, lengths, first)
        count = np.arange(len(lengths))
        self._end = np.full(
            len(keys) + 1, -1, dtype=np.int32
        )  # node → index of the pattern that ends there, or −1
        self._end[last] = count
        bits = max(1, (2 * len(keys)).bit_length())
        self._shift = 64 - bits
        values = self._hash(keys)
        self._bucket = np.zeros((1 << bits) + 1, dtype=np.int32)
        np.cumsum(np.bincount(values, minlength=1 << bits), out=self._bucket[1:])
        _, order = _sorted(values)
        self._keys = keys[order]
        order += 1
        self._child = order.astype(np.int32)
        roots = keys[: np.searchsorted(keys, 1 << _BITS)]
        self._first = np.zeros(
            sys.maxunicode + 2, dtype=np.int32
        )  # code point → node; the last one ends every text
        self._first[roots] = np.arange(1, len(roots) + 1)
        return bool((self._end[last] == count).all())

    def find(self, text: str, most: int = sys.maxsize) -> Occurrences:
        """Where patterns occur in a text; TooManyMatchesError if there are more than `most` places."""
        found = self._walk(text) if len(text) <= SHORT else self._sweep(text, most)
        if len(found.word) > most:
            raise TooManyMatchesError
        return found

    def _sweep(self, text: str, most: int = sys.maxsize) -> Occurrences:
        """All of `by_length`, in order; it gives up once there are more than `most`."""
        nothing = np.zeros(0, dtype=np.int64)
        found = [Occurrences(nothing, nothing, nothing)]
        count = 0
        for each in self.by_length(text):
            count += len(each.word)
            if count > most:
                raise TooManyMatchesError
            found.append(each)
        start, end, word = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(
            start, kind="stable"
        )  # the shorter of those that start together came first
        return Occurrences(start[order], end[order], word[order])

    def by_length(self, text: str) -> Iterator[Occurrences]:
        """Where patterns of one character occur, then those of two, and so on.

        From every position one character further at a time, with those positions that still lead
        somewhere. So memory is linear in the text, also where words stand inside words and each
        position has hundreds.
        """
        codes = np.append(code_points(text), np.int32(sys.maxunicode + 1))
        node = self._first[codes]
        at = np.flatnonzero(node)
        node = node[at]
        depth = 1
        while at.size:
            ending = self._end[node]
            here = np.flatnonzero(ending >= 0)
            yield Occurrences(at[here], at[here] + depth, ending[here].astype(np.int64))
            node = self._children(node, codes[at + depth])
            here = np.flatnonzero(node)
            at = at[here]
            node = node[here]
            depth = depth + 1

    def _children(self, node: Nodes, code: Nodes) -> Nodes:
        """The node behind each (node, code point), or 0."""
        key = (node.astype(np.int64) << _BITS) | code
        value = self._hash(key)
        low = self._bucket[value]
        high = self._bucket[value + 1]
        child = np.zeros(len(key), dtype=np.int32)
        asked = np.flatnonzero(low < high)
        low = low[asked]
        high = high[asked]
        key = key[asked]
        while asked.size:
            same = self._keys[low] == key
            child[asked[same]] = self._child[low[same]]
            low += 1
            more = ~same & (low < high)
            asked = asked[more]
            low = low[more]
            high = high[more]
            key = key[more]
        return child

    def _walk(self, text: str) -> Occurrences:
        """What `_sweep` finds, one position after the other."""
        first, ends, bucket, keys, child = (
            array.data for array in (self._first, self._end, self._bucket, self._keys, self._child)
        )
        codes = code_points(text).tolist()
        shift = self._shift
        found = []
        for start, code in enumerate(codes):
            node = first[code]
            end = start + 1
            while node:
                if ends[node] >= 0:
                    found.append((start, end, ends[node]))
                if end == len(codes):
                    break
                key = node << _BITS | codes[end]
                value = (key * _FACTOR & _WORD) >> shift
                node = 0
                end = end + 1
                for at in range(bucket[value], bucket[value + 1]):
                    if keys[at] == key:
                        node = child[at]
        return Occurrences(*np.array(found, dtype=np.int64).reshape(-1, 3).T)

    def _hash(self, key: Ints) -> Ints:
        value = key.view(np.uint64) * np.uint64(_FACTOR)
        value >>= np.uint64(self._shift)
        return value.view(np.int64)


def _levels(codes: Codes, lengths: Ints, first: Ints) -> tuple[Ints, Ints]:
    """The key of every node of the trie from node 1 on, level by level, and the node where each
    pattern ends.
    """
    node = np.zeros(len(lengths), dtype=np.int64)
    keys = [node[:0]]
    count = 1
    depth = 0
    going_on = np.flatnonzero(lengths)
    while going_on.size:
        key = node[going_on]
        key <<= _BITS
        key |= codes[first[going_on] + depth]
        level, place = _unique(key) if depth else _first_level(key)
        keys.append(level)
        node[going_on] = count + place
        count = count + len(level)
        depth = depth + 1
        going_on = going_on[lengths[going_on] > depth]
    return np.concatenate(keys), node


def _unique(keys: Ints) -> tuple[Ints, Ints]:
    """What `np.unique` gives for one number or more, with the place of each."""
    ordered, order = _sorted(keys)
    new = np.append(True, ordered[1:] != ordered[:-1])
    place = np.empty_like(order)
    place[order] = np.cumsum(new) - 1
    return ordered[new], place


def _sorted(values: Ints) -> tuple[Ints, Ints]:
    """The values, none below 0, in order, and where each stood; the array itself is changed.

    `np.argsort` takes twice as long, and so would arrays in between: fresh memory is what costs
    when a model is loaded.
    """
    bits = len(values).bit_length()
    if int(values.max(initial=0)).bit_length() + bits > 63:
        order = np.argsort(values)
        return values[order], order
    values <<= bits
    values |= np.arange(len(values))
    values.sort()
    order = values & ((1 << bits) - 1)
    values >>= bits
    return values, order


def _first_level(codes: Ints) -> tuple[Ints, Ints]:
    """What `np.unique` gives, by counting: quicker for code points, which are few."""
    seen = np.zeros(sys.maxunicode + 1, dtype=np.int64)
    seen[codes] = 1
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]


SMALL = 1000  # patterns of a table that costs next to nothing to make again
RATIO = 10  # how many times larger than the next one a table is at least


class TriePart(NamedTuple):
    """A matcher of patterns `first` to `end` of a list. Values: who holds some is not hurt by what
    joins later.
    """

    first: int
    end: int
    matcher: TableMatcher


Parts = tuple[TriePart, ...]  # each begins where the one before it ends


def extend(parts: Parts, count: int, last: Callable[[int], Sequence[str]]) -> Parts:
    """Matchers of `count` patterns, the first of which these hold; `last(n)` gives the last n.

    New ones get a table of their own, and take tables into it that are not much larger. So there
    are few tables, and a pattern is not put into one more often than the logarithm of their number.
    Many at once, such as a dictionary, go into one table with all others: that is made once, and
    two tables would be asked for each text.
    """
    first = parts[-1].end if parts else 0
    if parts and first == count:
        return parts
    if count - first > SMALL:
        parts = ()
        first = 0
    while parts and parts[-1].end - parts[-1].first <= max(SMALL, RATIO * (count - first)):
        *rest, part = parts
        parts = tuple(rest)
        first = part.first
    return (*parts, TriePart(first, count, TableMatcher(last(count - first))))


def find(parts: Parts, text: str, most: int = sys.maxsize) -> Occurrences:
    """What all of them find in a text. A place has one pattern, so no two are equal.

    TooManyMatchesError if one of them finds more than `most` places.
    """
    found = [part.matcher.find(text, most) for part in parts]
    found = [
        each._replace(word=each.word + part.first) for part, each in zip(parts, found, strict=True)
    ]
    some = [each for each in found if len(each.word)] or found[:1]
    if len(some) == 1:
        return some[0]
    start, end, word = (np.concatenate(columns) for columns in zip(*some, strict=True))
    order = np.lexsort((end, start))
    return Occurrences(start[order], end[order], word[order])


def by_length(parts: Parts, text: str) -> Iterator[Occurrences]:
    """`find` in memory that is linear in the text: for each part the shortest patterns first."""
    for part in parts:
        yield from (
            each._replace(word=each.word + part.first) for each in part.matcher.by_length(text)
        )
