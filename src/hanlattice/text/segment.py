"""The words of texts as a segmenter gives them: rjieba's own, or the gold ones of the corpus.

rjieba cuts the text with its widths folded, so that full-width letters and digits are cut as plain
ones are. Folding is one code point for one, so its cuts are those of the text as given. Every
character is in exactly one word, white space too. Parts of speech change nothing in where rjieba
cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.optional import installed, require
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lattice import Ints, whole_numbers
from hanlattice.text.normalize import fold
from hanlattice.text.span import Span

# What `Cuts.positions` counts: the first character of a word, between, the last, the only one.
PLACES = "BMES"

NO_GOLD = (
    "segment.by=gold needs the words of the text, and this text has none: give columns with a word column, "
    "JSONL with words, or use segment.by=rjieba"
)


@dataclass(frozen=True, eq=False)
class Cuts:
    """The words of many texts, text by text. The words of a text follow each other from 0 on,
    without a gap.
    """

    counts: Ints  # [S] words in each text
    start: Ints  # [W] first character of each word, in its text
    end: Ints  # [W] one past its last
    pos: tuple[str, ...] | None = None  # [W] parts of speech, if asked for

    def __post_init__(self) -> None:
        for name in ("counts", "start", "end"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        self._check(len(self.start))

    def _check(self, W: int) -> None:
        if (self.counts < 0).any():
            raise ValueError(f"counts must not be negative: {self.counts.min()}")
        if {len(self.end), int(self.counts.sum()), W if self.pos is None else len(self.pos)} != {W}:
            raise ValueError(
                f"start, end and pos must have as many words as counts has: {self.counts.sum()}"
            )
        if (self.end <= self.start).any():
            raise ValueError("a word needs start < end")
        expected = np.zeros(
            W, dtype=np.int64
        )  # where each word must begin: 0, or where the one before it ends
        expected[1:] = self.end[:-1]
        expected[(np.cumsum(self.counts) - self.counts)[self.counts > 0]] = 0
        if (self.start != expected).any():
            at = int((self.start != expected).argmax())
            raise ValueError(
                f"word {at} begins at {self.start[at]} of its text, not at {expected[at]}"
            )

    def lengths(self) -> Ints:
        """[S]: how many characters each text has."""
        ends = np.concatenate([[0], np.cumsum(self.end - self.start)])[np.cumsum(self.counts)]
        return np.diff(ends, prepend=0)

    def positions(self) -> Ints:
        """[N]: 0, 1, 2 or 3 for B, M, E or S, for every character of all texts, one after the
        other.
        """
        sizes = self.end - self.start
        last = np.cumsum(sizes) - 1  # [W] in all texts joined
        first = last - sizes + 1
        positions = np.full(sizes.sum(), PLACES.index("M"), dtype=np.int64)
        positions[first] = PLACES.index("B")
        positions[last] = PLACES.index("E")
        positions[first[sizes == 1]] = PLACES.index("S")
        return positions


class Segmenter(Protocol):
    """`words` are the gold words of the texts, where they have any."""

    def __call__(
        self, texts: Sequence[str], words: Sequence[tuple[Span, ...] | None] | None = None
    ) -> Cuts: ...


class _Rjieba:
    """The package is looked for when the first text comes, so that a model can be loaded and shown
    without it.
    """

    def __init__(self, pos: bool) -> None:
        self._pos = pos

    def __reduce__(self) -> tuple[object, ...]:
        return _Rjieba, (self._pos,)

    @cached_property
    def _cut(self) -> Callable[[str], list[Any]]:
        rjieba = require("rjieba")
        cut: Callable[[str], list[Any]] = rjieba.tag if self._pos else rjieba.cut
        return cut

    def __call__(
        self, texts: Sequence[str], words: Sequence[tuple[Span, ...] | None] | None = None
    ) -> Cuts:
        found = [self._cut(fold(text)) for text in texts]  # words, or (word, part of speech)
        flat = list(chain.from_iterable(found))
        pos = tuple(tag for _, tag in flat) if self._pos else None
        sizes = _ints(len(word) for word, _ in flat) if self._pos else _ints(map(len, flat))
        counts = _ints(map(len, found))
        ends = np.concatenate([[0], np.cumsum(sizes)])  # [W + 1] in all texts joined
        end = ends[1:] - np.repeat(ends[np.cumsum(counts) - counts], counts)
        return _covering(texts, Cuts(counts, end - sizes, end, pos))


class _Gold:
    def __init__(self, pos: bool) -> None:
        self._pos = pos

    def __call__(
        self, texts: Sequence[str], words: Sequence[tuple[Span, ...] | None] | None = None
    ) -> Cuts:
        given = list(words) if words is not None else [None] * len(texts)
        found = [() if not text else spans for text, spans in zip(texts, given, strict=True)]
        if None in found:
            raise InputError(NO_GOLD)
        flat = [span for spans in found for span in spans or ()]
        pos = tuple(span.label for span in flat) if self._pos else None
        start = _ints(span.start for span in flat)
        end = _ints(span.end for span in flat)
        return _covering(texts, Cuts(_ints(len(spans or ()) for spans in found), start, end, pos))


def _covering(texts: Sequence[str], cuts: Cuts) -> Cuts:
    """The same cuts; words that end before their text, or after it, are an error."""
    wrong = cuts.lengths() != _ints(map(len, texts))
    if wrong.any():
        at = int(wrong.argmax())
        message = f"the words of text {at} have {cuts.lengths()[at]} characters, but the text has {len(texts[at])}"
        raise HanlatticeError(message)
    return cuts


_MAKERS: dict[str, Callable[[bool], Segmenter]] = {"rjieba": _Rjieba, "gold": _Gold}
SEGMENTERS = tuple(_MAKERS)


def make_segmenter(name: str, pos: bool = False) -> Segmenter:
    """The segmenter of that name, one of SEGMENTERS; with `pos` its words have parts of speech."""
    if name not in _MAKERS:
        raise InputError(f"no segmenter is called {name!r}: expected {' or '.join(SEGMENTERS)}")
    return _MAKERS[name](pos)


def segmenter_version(name: str) -> str | None:
    """The version of the package behind a segmenter; None where there is none."""
    return installed(name) if name == "rjieba" else None


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
