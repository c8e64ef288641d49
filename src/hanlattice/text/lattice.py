"""Lattice and Segments: the words of a batch of sentences, as flat arrays.

A lattice has all words that match, overlapping ones too; segments cover each sentence exactly.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from hanlattice.text.fork_safety import cached_property

Ints = npt.NDArray[np.int64]


def whole_numbers(name: str, values: Any) -> Ints:
    """Return a read-only copy with one dimension. Errors call the values `name`."""
    array = np.array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, not {array.dtype}")
    array = np.ascontiguousarray(array, dtype=np.int64)
    array.flags.writeable = False
    return array


def cells(lengths: Ints) -> tuple[Ints, Ints]:
    """Return the (row, column) of every cell in rows of these lengths, row by row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]


def runs(texts: Sequence[str], characters: int) -> Iterator[tuple[int, int]]:
    """Cut a list of texts into half-open runs of about `characters` each; there is at least one."""
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // characters)) + 1
    return pairwise([0, *cuts.tolist(), len(texts)])


class FlatWords:
    """Equality, copies and errors of a frozen dataclass whose fields are int64 arrays of words."""

    names: ClassVar[tuple[str, ...]]
    sentence: Any
    word: Ints

    @classmethod
    def trusted(cls, *arrays: Ints) -> Self:
        """Freeze int64 arrays derived from checked ones, without checking them again."""
        value = object.__new__(cls)
        for name, array in zip(cls.names, arrays, strict=True):
            array.flags.writeable = False
            object.__setattr__(value, name, array)
        object.__setattr__(value, "cache", {})
        return value

    def arrays(self) -> tuple[Ints, ...]:
        """Return the arrays in the order that the class takes."""
        return tuple(getattr(self, name) for name in self.names)

    def __reduce__(self) -> tuple[type[Self], tuple[Ints, ...]]:
        # Copies and unpickled values are checked and frozen like any other.
        return type(self), self.arrays()

    def __len__(self) -> int:
        return len(self.word)

    # Without a hash, for arrays have none: Python sets `__hash__` to None beside an `__eq__`.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and all(
            map(np.array_equal, self.arrays(), other.arrays())
        )

    def _word_error(self, bad: npt.NDArray[np.bool_], why: str) -> ValueError:
        """Name the first bad word by its sentence, start, end and id."""
        index = int(bad.argmax())
        values = tuple(int(getattr(self, name)[index]) for name in ("sentence", *self.names[-3:]))
        return ValueError(f"word {index}, (sentence, start, end, id) = {values}: {why}")


@dataclass(frozen=True, eq=False)
class Lattice(FlatWords):
    """Word w covers characters [start[w], end[w]) of sentence[w]; its id is word[w].

    Words have two characters or more and lie inside their sentence. Their order is the caller's,
    and the same span may come more than once. `cache` holds what others compute from the lattice
    once; it is not part of the value.
    """

    names = ("lengths", "sentence", "start", "end", "word")
    # [B] lengths, then [W] arrays
    lengths: Ints
    sentence: Ints
    start: Ints
    end: Ints
    word: Ints
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in self.names:
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        B = len(self.lengths)
        if len({len(self.sentence), len(self.start), len(self.end), len(self.word)}) != 1:
            raise ValueError("sentence, start, end and word must be equally long")
        if B and self.lengths.min() < 0:
            raise ValueError(f"lengths must not be negative: {self.lengths.min()}")
        nowhere = (self.sentence < 0) | (self.sentence >= B)
        checks = [(nowhere, f"its sentence is not one of the {B}")]
        # Only a sentence of the batch has a length to compare with.
        if not nowhere.any():
            beyond = (self.start < 0) | (self.end > self.lengths[self.sentence])
            checks = [
                (self.end - self.start < 2, "a word has two characters or more"),
                (beyond, "it does not lie inside its sentence"),
                (self.word < 0, "its id is negative"),
            ]
        for bad, why in checks:
            if bad.any():
                raise self._word_error(bad, why)

    @classmethod
    def from_words(
        cls, lengths: Sequence[int], words: Iterable[tuple[int, int, int, int]]
    ) -> Lattice:
        """Make a lattice of half-open (sentence, start, end, word id)."""
        rows = list(words)
        for row in rows:
            if len(row) != 4:
                raise ValueError(f"a word is (sentence, start, end, id), not {tuple(row)}")
        return cls(np.array(lengths), *np.array(rows).reshape(-1, 4).T)

    def reversed(self) -> Lattice:
        """Return the lattice of the mirrored sentences, with the words in the same order."""
        length = self.lengths[self.sentence]
        return Lattice.trusted(
            self.lengths, self.sentence, length - self.end, length - self.start, self.word
        )

    def without_words(self) -> Lattice:
        """Return the same sentences without words; computed once."""
        if not len(self):
            return self
        if "without words" not in self.cache:
            nothing = (array[:0] for array in self.arrays()[1:])
            self.cache["without words"] = Lattice.trusted(self.lengths, *nothing)
        empty: Lattice = self.cache["without words"]
        return empty


@dataclass(frozen=True, eq=False)
class Segments(FlatWords):
    """Word w covers characters [start[w], end[w]) of its sentence; its id is word[w].

    Words stand sentence by sentence, from left to right, and cover each sentence exactly. A
    sentence without characters has no words. `cache` is the same as in a lattice.
    """

    names = ("lengths", "counts", "start", "end", "word")
    # [B]: the characters and the words of each sentence; then [W] arrays
    lengths: Ints
    counts: Ints
    start: Ints
    end: Ints
    word: Ints
    cache: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in self.names:
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        sizes = {len(self.start), len(self.end), len(self.word)}
        if len(self.lengths) != len(self.counts) or len(sizes) != 1:
            raise ValueError(
                "lengths and counts must be equally long, and so must start, end and word"
            )
        for name in ("lengths", "counts"):
            least = getattr(self, name).min(initial=0)
            if least < 0:
                raise ValueError(f"{name} must not be negative: {least}")
        total = self.counts.sum()
        if total != len(self):
            raise ValueError(f"counts add up to {total} words, but there are {len(self)}")
        some = self.counts > 0
        # Each word begins where its left neighbour ends, the first of a sentence at 0.
        expected = np.concatenate([np.zeros(1, dtype=np.int64), self.end])[: len(self)]
        expected[self.first[some]] = 0
        for bad, why in (
            (self.end <= self.start, "a word has one character or more"),
            (self.start != expected, "it does not begin where the one before it ends"),
            (self.word < 0, "its id is negative"),
        ):
            if bad.any():
                raise self._word_error(bad, why)
        covered = np.zeros_like(self.lengths)
        covered[some] = self.end[(self.first + self.counts - 1)[some]]
        wrong = covered != self.lengths
        if wrong.any():
            b = int(wrong.argmax())
            raise ValueError(
                f"sentence {b} has {self.lengths[b]} characters, but its words cover {covered[b]}"
            )

    @cached_property
    def sentence(self) -> Ints:
        """Return [W]: the sentence of each word."""
        sentence = np.repeat(np.arange(len(self.counts)), self.counts)
        sentence.flags.writeable = False
        return sentence

    @cached_property
    def first(self) -> Ints:
        """Return [B]: the index of each sentence's first word."""
        first = np.cumsum(self.counts) - self.counts
        first.flags.writeable = False
        return first
