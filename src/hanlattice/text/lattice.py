"""Lattice and Segments: the words matched in a batch of sentences, and those that cover it, as flat
arrays.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hanlattice.text.fork_safety import cached_property

Ints = npt.NDArray[np.int64]
Value = TypeVar("Value")


def whole_numbers(name: str, values: Any) -> Ints:
    """A read-only copy with one dimension: the caller's own stays writable. `name` is for the
    errors.
    """
    array = np.array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, not {array.dtype}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    array.flags.writeable = False
    return array


def unchecked(kind: type[Value], names: Sequence[str], arrays: Sequence[Ints]) -> Value:
    """A frozen value of int64 arrays derived from checked ones: no second check, an empty cache."""
    value = object.__new__(kind)
    for name, array in zip(names, arrays, strict=True):
        array.flags.writeable = False
        object.__setattr__(value, name, array)
    object.__setattr__(value, "cache", {})
    return value


def refuse_words(bad: npt.NDArray[np.bool_], why: str, *places: Ints) -> None:
    """A ValueError with the first word that is bad, by its sentence, start, end and id."""
    if bad.any():
        at = int(bad.argmax())
        values = tuple(int(place[at]) for place in places)
        raise ValueError(f"word {at}, (sentence, start, end, id) = {values}: {why}")


def cells(lengths: Ints) -> tuple[Ints, Ints]:
    """(row, column) of everything in rows of these lengths, row by row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]


def runs(texts: Sequence[str], characters: int) -> Iterator[tuple[int, int]]:
    """(first, the one after the last) of runs of texts of about so many characters; at least one
    run.
    """
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // characters)) + 1
    return pairwise([0, *cuts.tolist(), len(texts)])


_OF_LATTICE = ("lengths", "sentence", "start", "end", "word")


@dataclass(frozen=True, eq=False)
class Lattice:
    """Word w covers characters [start[w], end[w]) of sentence[w]; its id is word[w]. The order is
    the caller's.

    Words have two characters or more and lie inside their sentence. The same span may come more
    than once. `cache` holds what others compute from the lattice once; it is not part of the value.
    """

    lengths: Ints  # [B]
    sentence: Ints  # [W]
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in _OF_LATTICE:
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        self._check()

    def _check(self) -> None:
        B = len(self.lengths)
        if len({len(self.sentence), len(self.start), len(self.end), len(self.word)}) != 1:
            raise ValueError("sentence, start, end and word must be equally long")
        if B and self.lengths.min() < 0:
            raise ValueError(f"lengths must not be negative: {self.lengths.min()}")
        self._refuse(
            (self.sentence < 0) | (self.sentence >= B), f"its sentence is not one of the {B}"
        )
        self._refuse(self.end - self.start < 2, "a word has two characters or more")
        self._refuse(
            (self.start < 0) | (self.end > self.lengths[self.sentence]),
            "it does not lie inside its sentence",
        )
        self._refuse(self.word < 0, "its id is negative")

    def _refuse(self, bad: npt.NDArray[np.bool_], why: str) -> None:
        refuse_words(bad, why, self.sentence, self.start, self.end, self.word)

    @classmethod
    def trusted(cls, *arrays: Ints) -> Lattice:
        """A lattice of int64 arrays derived from checked ones: not checked again, and frozen."""
        return unchecked(cls, _OF_LATTICE, arrays)

    @classmethod
    def from_words(
        cls, lengths: Sequence[int], words: Iterable[tuple[int, int, int, int]]
    ) -> Lattice:
        """A lattice from (sentence, start, end, word id), half-open."""
        rows = list(words)
        for row in rows:
            if len(row) != 4:
                raise ValueError(f"a word is (sentence, start, end, id), not {tuple(row)}")
        return cls(np.array(lengths), *np.array(rows).reshape(-1, 4).T)

    def __reduce__(self) -> tuple[type[Lattice], tuple[Ints, ...]]:
        """Copies and unpickled lattices are made, checked and frozen like any other."""
        return type(self), self._arrays()

    def __len__(self) -> int:
        return len(self.word)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lattice) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._arrays(), other._arrays(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def reversed(self) -> Lattice:
        """The lattice of the mirrored sentences: (start, end) → (length − end, length − start).
        Word order stays.
        """
        length = self.lengths[self.sentence]
        return Lattice.trusted(
            self.lengths, self.sentence, length - self.end, length - self.start, self.word
        )

    def without_words(self) -> Lattice:
        """The same sentences; made once."""
        if not len(self):
            return self
        if "without words" not in self.cache:
            self.cache["without words"] = Lattice.trusted(
                self.lengths, *(array[:0] for array in self._arrays()[1:])
            )
        found: Lattice = self.cache["without words"]
        return found

    def _arrays(self) -> tuple[Ints, ...]:
        return self.lengths, self.sentence, self.start, self.end, self.word


_OF_SEGMENTS = ("lengths", "counts", "start", "end", "word")


@dataclass(frozen=True, eq=False)
class Segments:
    """Word w covers characters [start[w], end[w]) of its sentence; its id is word[w].

    Words stand sentence by sentence, from left to right, and cover each sentence exactly: nothing
    is left out and nothing is covered twice. A sentence without characters has no words. `cache`
    holds what others compute from the segments once; it is not part of the value.
    """

    lengths: Ints  # [B]: the characters of each sentence
    counts: Ints  # [B]: its words
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in _OF_SEGMENTS:
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        self._check()

    def _check(self) -> None:
        if (
            len(self.lengths) != len(self.counts)
            or len({len(self.start), len(self.end), len(self.word)}) != 1
        ):
            raise ValueError(
                "lengths and counts must be equally long, and so must start, end and word"
            )
        for name in ("lengths", "counts"):
            least = getattr(self, name).min(initial=0)
            if least < 0:
                raise ValueError(f"{name} must not be negative: {least}")
        if self.counts.sum() != len(self):
            raise ValueError(
                f"counts add up to {self.counts.sum()} words, but there are {len(self)}"
            )
        self._refuse(self.end <= self.start, "a word has one character or more")
        self._refuse(
            self.start != self._expected_start(), "it does not begin where the one before it ends"
        )
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
            raise ValueError(
                f"sentence {b} has {self.lengths[b]} characters, but its words cover {covered[b]}"
            )

    def _refuse(self, bad: npt.NDArray[np.bool_], why: str) -> None:
        refuse_words(bad, why, self.sentence, self.start, self.end, self.word)

    @classmethod
    def trusted(cls, *arrays: Ints) -> Segments:
        """Segments of int64 arrays derived from checked ones: not checked again, and frozen."""
        return unchecked(cls, _OF_SEGMENTS, arrays)

    def __reduce__(self) -> tuple[type[Segments], tuple[Ints, ...]]:
        """Copies and unpickled segments are made, checked and frozen like any other."""
        return type(self), tuple(getattr(self, name) for name in _OF_SEGMENTS)

    def __len__(self) -> int:
        return len(self.word)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segments) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _OF_SEGMENTS
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
