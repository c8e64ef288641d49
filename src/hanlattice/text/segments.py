"""Segments: the words that cover a batch of sentences, as flat arrays."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.text.arrays import Ints, refuse_words, taken_as_they_are, whole_numbers

_ARRAYS = ("lengths", "counts", "start", "end", "word")


@dataclass(frozen=True, eq=False)
class Segments:
    """Word w covers characters [start[w], end[w]) of its sentence; its id is word[w].

    Words stand sentence by sentence, from left to right, and cover each sentence exactly: nothing is left out and
    nothing is covered twice. A sentence without characters has no words.
    `kept` is room for what others compute from the segments and want to compute once; it is no part of the value.
    """

    lengths: Ints  # [B]: the characters of each sentence
    counts: Ints  # [B]: its words
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]
    kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # derived from it

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        self._check()

    def _check(self) -> None:
        if len(self.lengths) != len(self.counts) or len({len(self.start), len(self.end), len(self.word)}) != 1:
            raise ValueError("lengths and counts must be equally long, and so must start, end and word")
        for name in ("lengths", "counts"):
            least = getattr(self, name).min(initial=0)
            if least < 0:
                raise ValueError(f"{name} must not be negative: {least}")
        if self.counts.sum() != len(self):
            raise ValueError(f"counts add up to {self.counts.sum()} words, but there are {len(self)}")
        self._refuse(self.end <= self.start, "a word has one character or more")
        self._refuse(self.start != self._expected_start(), "it does not begin where the one before it ends")
        self._refuse(self.word < 0, "its id is negative")
        self._check_ends()

    def _expected_start(self) -> Ints:
        """[W]: where the word before ends; 0 for the first word of a sentence."""
        before = np.concatenate([np.zeros(1, dtype=np.int64), self.end])[: len(self)]
        before[self.first[self.counts > 0]] = 0
        return before

    def _check_ends(self) -> None:
        """The last word of each sentence ends with it; a sentence without words has no characters."""
        covered = np.zeros_like(self.lengths)
        some = self.counts > 0
        covered[some] = self.end[(self.first + self.counts - 1)[some]]
        wrong = covered != self.lengths
        if wrong.any():
            b = int(wrong.argmax())
            raise ValueError(f"sentence {b} has {self.lengths[b]} characters, but its words cover {covered[b]}")

    def _refuse(self, bad: npt.NDArray[np.bool_], why: str) -> None:
        refuse_words(bad, why, self.sentence, self.start, self.end, self.word)

    @classmethod
    def trusted(cls, *arrays: Ints) -> Segments:
        """Segments of arrays of int64 that follow from checked ones: they are taken as they are, and frozen."""
        return taken_as_they_are(cls, _ARRAYS, arrays)

    def __len__(self) -> int:
        return len(self.word)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segments) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def sentence(self) -> Ints:
        """[W]: the sentence of each word."""
        return _frozen(np.repeat(np.arange(len(self.counts)), self.counts))

    @cached_property
    def first(self) -> Ints:
        """[B]: where each sentence's words begin."""
        return _frozen(np.cumsum(self.counts) - self.counts)


def _frozen(array: Ints) -> Ints:
    array.flags.writeable = False
    return array
