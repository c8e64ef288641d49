"""Lattice: the words matched in a batch of sentences, as flat arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.text.arrays import Ints, refuse_words, taken_as_they_are, whole_numbers

__all__ = ["Ints", "Lattice"]

_ARRAYS = ("lengths", "sentence", "start", "end", "word")


@dataclass(frozen=True, eq=False)
class Lattice:
    """Word w covers characters [start[w], end[w]) of sentence[w]; its id is word[w]. The order is the caller's.

    Words have two characters or more and lie inside their sentence. The same span may come more than once.
    `kept` is room for what others compute from the lattice and want to compute once; it is no part of the value.
    """

    lengths: Ints  # [B]
    sentence: Ints  # [W]
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]
    kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # derived from it

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        self._check()

    def _check(self) -> None:
        B = len(self.lengths)
        if len({len(self.sentence), len(self.start), len(self.end), len(self.word)}) != 1:
            raise ValueError("sentence, start, end and word must be equally long")
        if B and self.lengths.min() < 0:
            raise ValueError(f"lengths must not be negative: {self.lengths.min()}")
        self._refuse((self.sentence < 0) | (self.sentence >= B), f"its sentence is not one of the {B}")
        self._refuse(self.end - self.start < 2, "a word has two characters or more")
        self._refuse((self.start < 0) | (self.end > self.lengths[self.sentence]), "it does not lie inside its sentence")
        self._refuse(self.word < 0, "its id is negative")

    def _refuse(self, bad: npt.NDArray[np.bool_], why: str) -> None:
        refuse_words(bad, why, self.sentence, self.start, self.end, self.word)

    @classmethod
    def trusted(cls, *arrays: Ints) -> Lattice:
        """A lattice of arrays of int64 that follow from checked ones: they are taken as they are, and frozen."""
        return taken_as_they_are(cls, _ARRAYS, arrays)

    @classmethod
    def from_words(cls, lengths: Sequence[int], words: Iterable[tuple[int, int, int, int]]) -> Lattice:
        """A lattice from (sentence, start, end, word id), half-open."""
        rows = list(words)
        for row in rows:
            if len(row) != 4:
                raise ValueError(f"a word is (sentence, start, end, id), not {tuple(row)}")
        return cls(np.array(lengths), *np.array(rows).reshape(-1, 4).T)

    def __len__(self) -> int:
        return len(self.word)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lattice) and all(
            np.array_equal(mine, theirs) for mine, theirs in zip(self._arrays(), other._arrays(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def reversed(self) -> Lattice:
        """The lattice of the mirrored sentences: (start, end) → (length − end, length − start). Word order stays."""
        length = self.lengths[self.sentence]
        return Lattice.trusted(self.lengths, self.sentence, length - self.end, length - self.start, self.word)

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.lengths, self.sentence, self.start, self.end, self.word
