"""The words whose vectors point most nearly the same way."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from hanlattice.errors import InputError
from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.vectors import Vectors

_DIGITS = 6  # of a cosine that are right in float32: those that differ in later ones are equal
_OFFERED = 5  # words that an error proposes


class Neighbour(NamedTuple):
    word: str
    cosine: float


class Neighbours:
    """Answers for one file of vectors, which it keeps with unit norm."""

    def __init__(self, vectors: Vectors) -> None:
        self.words = vectors.words
        self._rows = {word: at for at, word in enumerate(vectors.words)}
        norms = np.sqrt(np.einsum("ve,ve->v", vectors.matrix, vectors.matrix, dtype=np.float64))  # [V]
        norms[norms == 0] = 1  # a zero vector stays, and is near nothing
        self._unit = np.empty_like(vectors.matrix)  # [V, E]
        np.divide(vectors.matrix, norms[:, None], out=self._unit, casting="same_kind")

    def __call__(self, word: str, count: int = 10) -> list[Neighbour]:
        """The `count` nearest by cosine, the nearest first, without the word itself."""
        row = self._row(word)
        cosines = (self._unit @ self._unit[row]).round(_DIGITS) + 0.0  # [V]; no minus before a zero
        cosines[row] = -np.inf
        count = min(count, len(self.words) - 1)
        if not count:
            return []
        least = np.partition(cosines, -count)[-count]
        near = np.flatnonzero(cosines >= least)
        near = near[np.argsort(-cosines[near], kind="stable")][:count]  # equal ones in the file's order
        return [Neighbour(self.words[at], round(float(cosines[at]), _DIGITS)) for at in near.tolist()]

    def _row(self, word: str) -> int:
        """The word as it is written, or else as the tagger sees it."""
        for form in (word, fold(word), fold_digits(word)):
            if form in self._rows:
                return self._rows[form]
        raise InputError(f"there is no vector of {word!r}{self._advice(fold(word))}")

    def _advice(self, word: str) -> str:
        longest = max(map(len, islice(self.words, 1000)))
        if len(word) > 1 and longest == 1:
            return ": the file has single characters; ask for one of those"
        near = list(islice(dict.fromkeys(self._similar(word)), _OFFERED))
        return f"; near it are {', '.join(near)}" if near else "; nothing in the file resembles it"

    def _similar(self, word: str) -> Iterator[str]:
        """Words that hold it, then words inside it, then words with its first or last character; common ones first."""
        yield from (other for other in self.words if word and word in other)
        yield from sorted({part for part in _parts(word) if part in self._rows}, key=lambda part: (-len(part), part))
        ends = (word[:1], word[-1:])
        yield from (other for other in self.words if len(other) > 1 and (other[0], other[-1]) == ends)


def _parts(word: str) -> Iterator[str]:
    for start in range(len(word)):
        for end in range(start + 1, len(word) + 1):
            if end - start < len(word):
                yield word[start:end]
