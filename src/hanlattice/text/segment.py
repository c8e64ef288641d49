"""The words of texts as a segmenter gives them: rjieba, or the gold words of the corpus.

rjieba cuts the text with its widths folded, so full-width letters and digits are cut like plain
ones. Folding is one code point for one, so the cuts fit the text as given. Every character is in
exactly one word, white space too. Asking for parts of speech moves no cut.
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
    "segment.by=gold needs the words of the text, and this text has none: "
    "give columns with a word column, JSONL with words, or use segment.by=rjieba"
)
_GoldWords = Sequence[tuple[Span, ...] | None] | None


@dataclass(frozen=True, eq=False)
class Cuts:
    """The words of many texts, text by text, which cover each text without a gap."""

    # [S]: the words of each text.
    counts: Ints
    # [W]: the first character of each word in its text, and one past its last.
    start: Ints
    end: Ints
    # [W]: parts of speech, if asked for.
    pos: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("counts", "start", "end"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        W = len(self.start)
        total = int(self.counts.sum())
        if (self.counts < 0).any():
            raise ValueError(f"counts must not be negative: {self.counts.min()}")
        if {len(self.end), total, W if self.pos is None else len(self.pos)} != {W}:
            raise ValueError(f"start, end and pos must have as many words as counts has: {total}")
        if (self.end <= self.start).any():
            raise ValueError("a word needs start < end")
        # Each word begins where its left neighbour ends, the first of a text at 0.
        expected = np.zeros(W, dtype=np.int64)
        expected[1:] = self.end[:-1]
        expected[(np.cumsum(self.counts) - self.counts)[self.counts > 0]] = 0
        wrong = self.start != expected
        if wrong.any():
            word = int(wrong.argmax())
            place = f"{self.start[word]} of its text, not at {expected[word]}"
            raise ValueError(f"word {word} begins at {place}")

    def lengths(self) -> Ints:
        """Return [S]: how many characters each text has."""
        ends = np.concatenate([[0], np.cumsum(self.end - self.start)])[np.cumsum(self.counts)]
        return np.diff(ends, prepend=0)

    def positions(self) -> Ints:
        """Return [N]: 0, 1, 2 or 3 for B, M, E or S, for every character of all texts."""
        sizes = self.end - self.start
        # [W]: places in all texts joined.
        last = np.cumsum(sizes) - 1
        first = last - sizes + 1
        positions = np.full(sizes.sum(), PLACES.index("M"), dtype=np.int64)
        positions[first] = PLACES.index("B")
        positions[last] = PLACES.index("E")
        positions[first[sizes == 1]] = PLACES.index("S")
        return positions


class Segmenter(Protocol):
    """Cut texts into words. `words` are the gold words of the texts, where they have any."""

    def __call__(self, texts: Sequence[str], words: _GoldWords = None) -> Cuts: ...


class _Rjieba:
    def __init__(self, pos: bool) -> None:
        self._pos = pos

    def __reduce__(self) -> tuple[object, ...]:
        return _Rjieba, (self._pos,)

    # Imported for the first text, so that a model can be loaded and shown without rjieba.
    @cached_property
    def _cut(self) -> Callable[[str], list[Any]]:
        rjieba = require("rjieba")
        cut: Callable[[str], list[Any]] = rjieba.tag if self._pos else rjieba.cut
        return cut

    def __call__(self, texts: Sequence[str], words: _GoldWords = None) -> Cuts:
        # Words, or (word, part of speech).
        rows = [self._cut(fold(text)) for text in texts]
        flat = list(chain.from_iterable(rows))
        pos = tuple(tag for _, tag in flat) if self._pos else None
        sizes = _ints(len(word) for word, _ in flat) if self._pos else _ints(map(len, flat))
        counts = _ints(map(len, rows))
        # [W + 1]: places in all texts joined.
        ends = np.concatenate([[0], np.cumsum(sizes)])
        end = ends[1:] - np.repeat(ends[np.cumsum(counts) - counts], counts)
        return _covering(texts, Cuts(counts, end - sizes, end, pos))


class _Gold:
    def __init__(self, pos: bool) -> None:
        self._pos = pos

    def __call__(self, texts: Sequence[str], words: _GoldWords = None) -> Cuts:
        given = list(words) if words is not None else [None] * len(texts)
        rows = [() if not text else spans for text, spans in zip(texts, given, strict=True)]
        if None in rows:
            raise InputError(NO_GOLD)
        flat = [span for spans in rows for span in spans or ()]
        pos = tuple(span.label for span in flat) if self._pos else None
        start = _ints(span.start for span in flat)
        end = _ints(span.end for span in flat)
        return _covering(texts, Cuts(_ints(len(spans or ()) for spans in rows), start, end, pos))


def _covering(texts: Sequence[str], cuts: Cuts) -> Cuts:
    """Return the cuts; raise if words end before their text, or after it."""
    lengths = cuts.lengths()
    wrong = lengths != _ints(map(len, texts))
    if wrong.any():
        text = int(wrong.argmax())
        size = f"{lengths[text]} characters, but the text has {len(texts[text])}"
        raise HanlatticeError(f"the words of text {text} have {size}")
    return cuts


_MAKERS: dict[str, Callable[[bool], Segmenter]] = {"rjieba": _Rjieba, "gold": _Gold}
SEGMENTERS = tuple(_MAKERS)


def make_segmenter(name: str, pos: bool = False) -> Segmenter:
    """Make a segmenter.

    Args:
        name: One of SEGMENTERS.
        pos: Whether its words have parts of speech.
    """
    if name not in _MAKERS:
        raise InputError(f"no segmenter is called {name!r}: expected {' or '.join(SEGMENTERS)}")
    return _MAKERS[name](pos)


def segmenter_version(name: str) -> str | None:
    """Return the version of the package behind a segmenter; None where there is no package."""
    return installed(name) if name == "rjieba" else None


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
