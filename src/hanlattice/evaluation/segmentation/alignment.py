"""Which words of two lists are the same, as GNU diff finds it: the scorer of the SIGHAN bakeoff asks that program.

diff looks for a longest common subsequence, but not of all lines. It leaves out those that the other file lacks, which
changes nothing, and where these stand close, also those between them that the other file has many times. So it may
find a few words less than there are (`diff -d` would find all), and so does this.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

Pair = tuple[int, int]

_LACKING, _MANY, _KEPT = "x", "?", "."
_RUN = re.compile(r"x(?:[x?]*x)?")


def matched(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """(place in left, place in right) of the words that are the same, in their order.

    Where diff had a choice between several alignments of the same number of words, it may have taken another one: this
    keeps common beginnings and ends, and matches a word as early as possible, in `right` first.
    """
    first, last = _common_edges(left, right)
    ours, theirs = left[first : len(left) - last], right[first : len(right) - last]
    mine, other = list(_looked_at(ours, theirs)), list(_looked_at(theirs, ours))
    found = longest_common([ours[at] for at in mine], [theirs[at] for at in other])
    pairs = [(at, at) for at in range(first)]
    pairs += [(first + mine[a], first + other[b]) for a, b in found]
    return pairs + [(len(left) - back, len(right) - back) for back in range(last, 0, -1)]


def _common_edges(left: Sequence[str], right: Sequence[str]) -> Pair:
    """How many words at the beginning, and then at the end, are the same."""
    most = min(len(left), len(right))
    first = next((at for at in range(most) if left[at] != right[at]), most)
    most -= first
    last = next((at for at in range(most) if left[-1 - at] != right[-1 - at]), most)
    return first, last


def _looked_at(words: Sequence[str], others: Sequence[str]) -> Iterator[int]:
    """The places of the words that are not left out.

    A run begins and ends with a word that the others lack, and has beside such words only those that the others have
    many times: more than 5; of 256 words or more, more than 10; of 1,024, more than 20, and so on.
    """
    counts, many = Counter(others), 5 * _root(len(words) // 64)
    found = (counts[word] for word in words)
    marks = "".join(_MANY if count > many else _KEPT if count else _LACKING for count in found)
    settled = _RUN.sub(lambda run: _settled(run[0]), marks) if _MANY in marks else marks
    return (at for at, mark in enumerate(settled) if mark != _LACKING)


def _settled(run: str) -> str:
    """A run in which every word that is left out is marked as lacking, and every other as kept.

    Words that are there many times are kept if they are more than a quarter of the run, where several of them stand
    together, and near both ends: up to three lacking words in a row, or to the first lacking one from the ninth on.
    """
    if 4 * run.count(_MANY) > len(run):
        return run.replace(_MANY, _KEPT)
    together = 1 + _root(len(run) // 4)
    run = re.sub(rf"\?{{{together},}}", lambda many: _KEPT * len(many[0]), run)
    for _ in range(2):
        near = min(_find(run, _LACKING, 8), _find(run, 3 * _LACKING, 0))
        run = (run[:near].replace(_MANY, _KEPT) + run[near:])[::-1]
    return run.replace(_MANY, _LACKING)


def _find(text: str, part: str, start: int) -> int:
    return at if (at := text.find(part, start)) >= 0 else len(text)


def _root(number: int) -> int:
    """The largest power of two that is not above the square root; 1 for 0."""
    return 1 << max(0, (number.bit_length() - 1) // 2)


def longest_common(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """The places of a longest common subsequence, by the table L: left[:i] and right[:j] have L[i][j] words in common.

    A row is one whole number, whose bit j is 0 where L[i][j + 1] = L[i][j] + 1. So it is made by a few operations on
    the row before (Crochemore et al., 2001), and all rows are small enough to be kept for the way back.
    """
    places: dict[str, int] = {}
    for at, word in enumerate(right):
        places[word] = places.get(word, 0) | 1 << at
    rows = [full := (1 << len(right)) - 1]
    for word in left:
        row = rows[-1]
        same = row & places.get(word, 0)
        rows.append(((row + same) | (row - same)) & full)
    pairs, i, j = [], len(left), len(right)
    while i and j:
        bit = 1 << (j - 1)
        if rows[i] & bit:  # L[i][j − 1] is as large
            j -= 1
        elif not rows[i - 1] & bit:  # L[i − 1][j] is as large, since L[i][j] is at most L[i − 1][j − 1] + 1
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]
