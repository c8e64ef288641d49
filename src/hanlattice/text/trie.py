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

# Up to this many characters, walking costs less than some dozens of calls into numpy.
SHORT = 200
# Bits of a code point.
_BITS = 21
_LINE_END = 10
# Fibonacci hashing: 2^64 over the golden ratio.
_FACTOR = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


class TooManyMatchesError(Exception):
    """Some texts contain more words than the caller has memory for: ask again for fewer texts."""


class Occurrences(NamedTuple):
    """Pattern `word[w]` occurs at [start[w], end[w]); sorted by start, then by end."""

    start: Ints
    end: Ints
    word: Ints


_NOTHING = Occurrences(*np.zeros((3, 0), dtype=np.int64))


class Matches(NamedTuple):
    """The words in some texts, sorted by text, start and end; text t has `counts[t]` of them."""

    # [texts], then three times [W]; `word` has ids.
    counts: Ints
    start: Ints
    end: Ints
    word: Ints

    def where(self, stays: npt.NDArray[np.bool_]) -> Matches:
        """Return the matches for which [W] `stays` is true."""
        text = np.repeat(np.arange(len(self.counts)), self.counts)[stays]
        counts = np.bincount(text, minlength=len(self.counts))
        return Matches(counts, self.start[stays], self.end[stays], self.word[stays])


class TableMatcher:
    """A trie as a hash table in numpy arrays, searched from all positions of a text at once.

    The key of a child is (parent, code point). Keys with one hash value stand side by side: keys
    with value v from `bucket[v]` up to `bucket[v + 1]`. The first level has a table of its own.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        lengths = np.fromiter(map(len, patterns), dtype=np.int64, count=len(patterns))
        self._build(code_points("".join(patterns)), lengths, np.cumsum(lengths) - lengths)

    @classmethod
    def of_lines(cls, codes: Codes) -> TableMatcher | None:
        """Return a matcher of the lines of a text; None if a line comes twice.

        Every line must end with a line feed.
        """
        ends = np.flatnonzero(codes == _LINE_END)
        lengths = np.diff(ends, prepend=-1) - 1
        matcher = cls.__new__(cls)
        return matcher if matcher._build(codes, lengths, ends - lengths) else None

    def _build(self, codes: Codes, lengths: Ints, first: Ints) -> bool:
        """Fill the tables, and return whether all patterns are different.

        Pattern p is codes[first[p]], `lengths[p]` long.
        """
        keys, last = _levels(codes, lengths, first)
        patterns = np.arange(len(lengths))
        # By node: the index of the pattern that ends there, or −1.
        self._end = np.full(len(keys) + 1, -1, dtype=np.int32)
        self._end[last] = patterns
        # Two to four buckets a key.
        bits = max(1, (2 * len(keys)).bit_length())
        self._shift = 64 - bits
        values = self._hash(keys)
        self._bucket = np.zeros((1 << bits) + 1, dtype=np.int32)
        np.cumsum(np.bincount(values, minlength=1 << bits), out=self._bucket[1:])
        _, order = _sorted(values)
        self._keys = keys[order]
        # Node 0 is the root, so the key at index i leads to node i + 1.
        order += 1
        self._child = order.astype(np.int32)
        # By code point: the node of the first level. The last entry, of no character, stays 0.
        self._first = np.zeros(sys.maxunicode + 2, dtype=np.int32)
        roots = keys[: np.searchsorted(keys, 1 << _BITS)]
        self._first[roots] = np.arange(1, len(roots) + 1)
        return bool((self._end[last] == patterns).all())

    def find(self, text: str, most: int = sys.maxsize) -> Occurrences:
        """Return where patterns occur; TooManyMatchesError if there are more than `most` places.

        A short text is walked one position after the other; `_sweep` finds the same.
        """
        if len(text) > SHORT:
            return self._sweep(text, most)
        # Indexing a memoryview costs a fraction of indexing an array.
        first = self._first.data
        ends = self._end.data
        bucket = self._bucket.data
        keys = self._keys.data
        child = self._child.data
        codes = code_points(text).tolist()
        rows = []
        for start, code in enumerate(codes):
            node = first[code]
            end = start + 1
            while node:
                if ends[node] >= 0:
                    rows.append((start, end, ends[node]))
                if end == len(codes):
                    break
                key = node << _BITS | codes[end]
                value = (key * _FACTOR & _WORD) >> self._shift
                node = 0
                end = end + 1
                for index in range(bucket[value], bucket[value + 1]):
                    if keys[index] == key:
                        node = child[index]
        if len(rows) > most:
            raise TooManyMatchesError
        return Occurrences(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)

    def _sweep(self, text: str, most: int = sys.maxsize) -> Occurrences:
        """Put what `by_length` yields in order, and stop once there are more than `most` places."""
        by_length = [_NOTHING]
        count = 0
        for occurrences in self.by_length(text):
            count += len(occurrences.word)
            if count > most:
                raise TooManyMatchesError
            by_length.append(occurrences)
        start, end, word = (np.concatenate(column) for column in zip(*by_length, strict=True))
        # Stable, for the shorter of two with one start came first.
        order = np.argsort(start, kind="stable")
        return Occurrences(start[order], end[order], word[order])

    def by_length(self, text: str) -> Iterator[Occurrences]:
        """Yield where patterns of one character occur, then of two, and so on.

        Each step goes one character further from all positions that still lead somewhere. So
        memory is linear in the text, even where a position has hundreds of words inside words.
        """
        codes = np.append(code_points(text), np.int32(sys.maxunicode + 1))
        node = self._first[codes]
        start = np.flatnonzero(node)
        node = node[start]
        depth = 1
        while start.size:
            word = self._end[node]
            ending = np.flatnonzero(word >= 0)
            yield Occurrences(start[ending], start[ending] + depth, word[ending].astype(np.int64))
            node = self._children(node, codes[start + depth])
            going_on = np.flatnonzero(node)
            start = start[going_on]
            node = node[going_on]
            depth = depth + 1

    def _children(self, node: Nodes, code: Nodes) -> Nodes:
        """Return the node behind each (node, code point), or 0."""
        key = (node.astype(np.int64) << _BITS) | code
        value = self._hash(key)
        low = self._bucket[value]
        high = self._bucket[value + 1]
        child = np.zeros(len(key), dtype=np.int32)
        # The pairs whose bucket still has keys to compare with; all others are done.
        open_pairs = np.flatnonzero(low < high)
        low = low[open_pairs]
        high = high[open_pairs]
        key = key[open_pairs]
        while open_pairs.size:
            same = self._keys[low] == key
            child[open_pairs[same]] = self._child[low[same]]
            low += 1
            more = ~same & (low < high)
            open_pairs = open_pairs[more]
            low = low[more]
            high = high[more]
            key = key[more]
        return child

    def _hash(self, key: Ints) -> Ints:
        value = key.view(np.uint64) * np.uint64(_FACTOR)
        value >>= np.uint64(self._shift)
        return value.view(np.int64)


def _levels(codes: Codes, lengths: Ints, first: Ints) -> tuple[Ints, Ints]:
    """Return the key of every node from node 1 on, level by level, and each pattern's last node."""
    node = np.zeros(len(lengths), dtype=np.int64)
    keys = [node[:0]]
    count = 1
    depth = 0
    going_on = np.flatnonzero(lengths)
    while going_on.size:
        key = node[going_on]
        key <<= _BITS
        key |= codes[first[going_on] + depth]
        if depth:
            level, place = _unique(key)
        else:
            # Counting is quicker than sorting for code points, which are few.
            seen = np.zeros(sys.maxunicode + 1, dtype=np.int64)
            seen[key] = 1
            level = np.flatnonzero(seen)
            place = (np.cumsum(seen) - 1)[key]
        keys.append(level)
        node[going_on] = count + place
        count = count + len(level)
        depth = depth + 1
        going_on = going_on[lengths[going_on] > depth]
    return np.concatenate(keys), node


def _unique(keys: Ints) -> tuple[Ints, Ints]:
    """Return what `np.unique` gives for one number or more, with the place of each."""
    ordered, order = _sorted(keys)
    new = np.append(True, ordered[1:] != ordered[:-1])
    place = np.empty_like(order)
    place[order] = np.cumsum(new) - 1
    return ordered[new], place


def _sorted(values: Ints) -> tuple[Ints, Ints]:
    """Return values of 0 or more in order, and where each stood; the array itself is changed.

    `np.argsort` takes twice as long, and so would arrays in between: fresh memory is what costs
    when a model is loaded.
    """
    bits = len(values).bit_length()
    if int(values.max(initial=0)).bit_length() + bits > 63:
        order = np.argsort(values)
        return values[order], order
    # Each value carries its index in its lowest bits through the sort.
    values <<= bits
    values |= np.arange(len(values))
    values.sort()
    order = values & ((1 << bits) - 1)
    values >>= bits
    return values, order


# A table of this many patterns costs next to nothing to make again.
SMALL = 1000
# A table is at least this many times larger than the next one.
RATIO = 10


class TriePart(NamedTuple):
    """A matcher of patterns `first` to `end` of a list, which later patterns do not change."""

    first: int
    end: int
    matcher: TableMatcher


# Each part begins where its left neighbour ends.
Parts = tuple[TriePart, ...]


def extend(parts: Parts, count: int, last: Callable[[int], Sequence[str]]) -> Parts:
    """Return matchers of `count` patterns, of which `parts` hold the first.

    New patterns get a table of their own, and take tables into it that are not much larger. So
    there are few tables, and a pattern is moved no more often than the logarithm of their number.
    Many patterns at once, such as a dictionary, go into one table with all others, because every
    table has to be searched for each text.

    Args:
        parts: Matchers of the first patterns.
        count: How many patterns there are.
        last: `last(n)` returns the last n patterns.
    """
    first = parts[-1].end if parts else 0
    if parts and first == count:
        return parts
    if count - first > SMALL:
        parts = ()
        first = 0
    while parts and parts[-1].end - parts[-1].first <= max(SMALL, RATIO * (count - first)):
        first = parts[-1].first
        parts = parts[:-1]
    return (*parts, TriePart(first, count, TableMatcher(last(count - first))))


def find(parts: Parts, text: str, lengths: Ints, most: int = sys.maxsize) -> Matches:
    """Return what all parts find in texts that are joined by line ends, which no word contains.

    Args:
        parts: Matchers of different patterns, so no two matches are equal.
        text: The texts, joined.
        lengths: [texts]: the length of each.
        most: TooManyMatchesError if a part finds more places.
    """
    by_part = []
    for part in parts:
        occurrences = part.matcher.find(text, most)
        if len(occurrences.word):
            by_part.append(occurrences._replace(word=occurrences.word + part.first))
    if len(by_part) == 1:
        start, end, word = by_part[0]
    else:
        columns = zip(*(by_part or [_NOTHING]), strict=True)
        start, end, word = (np.concatenate(column) for column in columns)
        order = np.lexsort((end, start))
        start = start[order]
        end = end[order]
        word = word[order]
    # One more than its length stands between the starts of two texts: the line end.
    first = np.cumsum(lengths + 1) - (lengths + 1)
    number = np.searchsorted(first, start, side="right") - 1
    counts = np.bincount(number, minlength=len(lengths))
    return Matches(counts, start - first[number], end - first[number], word)


def by_length(parts: Parts, text: str) -> Iterator[Occurrences]:
    """Yield what `find` finds in one text, part by part; memory is linear in the text."""
    for part in parts:
        for occurrences in part.matcher.by_length(text):
            yield occurrences._replace(word=occurrences.word + part.first)
