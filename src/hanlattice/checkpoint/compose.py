"""Vectors for words without one, composed of their characters and of the known words that they
begin and end with.

    vector = Σ over characters of table[place, character] / √length
             + bias + prefix·A + suffix·B      (the longest known words at its two ends, in their
             own vectors)

A character's place is begin, middle or end. All of it is linear, and learnt by ridge regression
from the words of the lexicon and their vectors. A composed vector is shorter than a real one, the
less its characters say of the word the more so: that is as it should be, and stretching it makes it
worse (docs/dictionaries.md).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints, cells, runs
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import Codes, code_points

BEGIN, MIDDLE, END = range(3)
LEAST = 5  # words that a character must stand in to have rows of its own
RIDGE = 5.0  # what a character's row must be worth: so many words pull it to nothing
STEPS = 12  # of conjugate gradients: more change the third digit of a cosine by nothing
# Words that are learnt from, first those that training met: bounds memory, as does the next.
MOST = 500_000
AT_ONCE = 1 << 17  # characters of words that are composed at a time: bounds memory
# numbers in a long row of a sparse matrix; short rows that are multiplied at a time
MANY = 64
FEW = 1 << 12

Array = npt.NDArray[Any]


class GrowingVectors(Protocol):
    """A table of vectors that words can join: that of the runtime, or that of `nn`."""

    @property
    def known(self) -> int: ...  # how many, without those that joined
    def __len__(self) -> int: ...
    def vectors(self, words: Ints) -> Array: ...
    @property
    def added(self) -> Any: ...  # the rows of words that joined
    def append(self, vectors: Array) -> None: ...
    def joined(
        self, before: Any, vectors: Array
    ) -> Any: ...  # rows like `added`, after those before, if any
    def keep(self, words: Ints) -> None: ...  # of those that joined


class Bags(NamedTuple):
    """A sparse matrix: row r has `weight` in columns `column`, from `first[r]` to `first[r + 1]`."""

    column: Ints  # [N]
    weight: Array  # [N]
    first: Ints  # [rows + 1]

    def times(self, dense: Array) -> Array:
        found = np.zeros((len(self.first) - 1, dense.shape[1]), dtype=dense.dtype)
        counts = np.diff(self.first)
        for row in np.flatnonzero(counts > MANY).tolist():
            part = slice(self.first[row], self.first[row + 1])
            found[row] = self.weight[part] @ dense[self.column[part]]
        few = np.flatnonzero((counts > 0) & (counts <= MANY))
        few = few[np.argsort(-counts[few], kind="stable")]
        for low in range(
            0, len(few), FEW
        ):  # their first numbers, then their second ones, and so on
            rows = few[low : low + FEW]
            sums = np.zeros((len(rows), dense.shape[1]), dtype=dense.dtype)
            for nth in range(int(counts[rows[0]])):
                at = self.first[rows[: np.count_nonzero(counts[rows] > nth)]] + nth
                sums[: len(at)] += self.weight[at, None] * dense[self.column[at]]
            found[rows] = sums
        return found

    def transposed(self, columns: int) -> Bags:
        row = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        order = np.argsort(self.column, kind="stable")
        ends = np.cumsum(np.bincount(self.column, minlength=columns))
        return Bags(row[order], self.weight[order], np.append(0, ends))


class KnownEnds(NamedTuple):
    """The longest known words at the beginning and the end of each word, [W]; −1 where there is
    none.
    """

    prefix: Ints
    suffix: Ints


class Composer:
    """`composer(words, known_ends(words, …))` gives vectors. It holds what a file holds: tables
    rounded to bytes.
    """

    def __init__(self, characters: Array, table: Array, scale: Array, mixing: Array) -> None:
        self.characters = (
            characters  # [C]: code points, int32, ascending; all others share row 0 of each place
        )
        self.table = table  # [3 (1 + C), E]: int8, by place and then by character
        self.scale = scale  # [3 (1 + C), 1]: what 1 means in each row
        self.mixing = mixing  # [1 + 2 (E + 1), E]: of what `known_ends` gives
        self._rows = table.astype(np.float32) * scale
        self._row_of = first_rows(characters)

    def tensors(self) -> dict[str, Array]:
        """What `from_tensors` makes the same composer of."""
        return {
            "characters": self.characters,
            "table": self.table,
            "scale": self.scale,
            "mixing": self.mixing,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array]) -> Composer:
        """Of `tensors()`; a ValueError where they cannot have come from there."""
        try:
            parts = [tensors[name] for name in ("characters", "table", "scale", "mixing")]
        except KeyError as error:
            raise ValueError(f"the tables for new words lack {error}") from None
        _check(*parts)
        return cls(*parts)

    @property
    def dim(self) -> int:
        return int(self.table.shape[1])

    def __call__(self, words: Sequence[str], ends: Array) -> Array:
        """[W, E]: of folded words, and what `known_ends` says of them."""
        bags = character_bags(words, self._row_of, len(self.characters) + 1)
        vectors: Array = bags.times(self._rows) + ends @ self.mixing
        return vectors


def learn(
    words: Sequence[str], vectors: Array, ends: Array, least: int = LEAST, ridge: float = RIDGE
) -> Composer:
    """From folded words, their vectors [N, E] and the known words at their ends, as `known_ends`
    gives them.
    """
    codes, counts = np.unique(code_points("".join(words)), return_counts=True)
    codes = codes[counts >= least]
    bags = character_bags(words, first_rows(codes), len(codes) + 1)
    rows, mixing = solve(bags, 3 * (len(codes) + 1), ends, vectors, ridge)
    scale = np.maximum(np.abs(rows).max(1, keepdims=True) / 127, np.finfo(np.float32).tiny).astype(
        np.float32
    )
    return Composer(codes.astype(np.int32), np.rint(rows / scale).astype(np.int8), scale, mixing)


def first_rows(codes: Codes) -> Ints:
    """[code points]: the row of each of these characters where it begins a word; 0 for all others."""
    row_of = np.zeros(sys.maxunicode + 1, dtype=np.int64)
    row_of[codes] = np.arange(1, len(codes) + 1)
    return row_of


def character_bags(words: Sequence[str], row_of: Ints, characters: int) -> Bags:
    """The rows of each word's characters, by place, with weights whose squares sum to 1."""
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    word, at = cells(lengths)
    place = np.where(at == 0, BEGIN, np.where(at == lengths[word] - 1, END, MIDDLE))
    column = row_of[code_points("".join(words))] + place * characters
    weight = (1 / np.sqrt(lengths.astype(np.float32)))[word]
    return Bags(column, weight, np.append(0, np.cumsum(lengths)))


def solve(
    bags: Bags, columns: int, dense: Array, wanted: Array, ridge: float
) -> tuple[Array, Array]:
    """Weights of the sparse columns and of the dense ones, whose sum is nearest to `wanted` in
    squares plus ridge·w².

    Conjugate gradients on the normal equations, scaled by their diagonal, all columns of `wanted`
    at once.
    """
    back = bags.transposed(columns)
    # [columns, D], [D, D]: so that no step reads `dense` again
    across = back.times(dense)
    within = dense.T @ dense

    def both_ways(weights: Array) -> Array:
        sparse = weights[:columns]
        rest = weights[columns:]
        upper = back.times(bags.times(sparse)) + across @ rest
        return (
            np.concatenate([upper, across.T @ sparse + within @ rest]) + np.float32(ridge) * weights
        )

    squares = back._replace(weight=back.weight**2).times(
        np.ones((len(wanted), 1), dtype=wanted.dtype)
    )
    diagonal = np.concatenate([squares, (dense**2).sum(0)[:, None]]) + np.float32(
        ridge
    )  # [columns + D, 1]
    left = np.concatenate([back.times(wanted), dense.T @ wanted])  # what is still to be explained
    weights = np.zeros_like(left)
    scaled = left / diagonal
    towards = scaled.copy()
    size = (left * scaled).sum(0)
    tiny = np.finfo(left.dtype).tiny
    for _ in range(STEPS):
        product = both_ways(towards)
        step = size / np.maximum((towards * product).sum(0), tiny)
        weights += step * towards
        left -= step * product
        scaled = left / diagonal
        size, before = (left * scaled).sum(0), size
        towards = scaled + (size / np.maximum(before, tiny)) * towards
    return weights[:columns], weights[columns:]


def find_ends(words: Sequence[str], lexicon: Lexicon, known: int) -> KnownEnds:
    """Which of the lexicon's first `known` words folded words begin and end with, the words
    themselves apart.
    """
    parts = [_ends_at_once(words[low:high], lexicon, known) for low, high in runs(words, AT_ONCE)]
    return KnownEnds(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ends_at_once(words: Sequence[str], lexicon: Lexicon, known: int) -> KnownEnds:
    """`find_ends` of words that are looked for together.

    Words of one length after the other: a word of n characters can have n²/2 others inside, and
    only two are asked for.
    """
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    first = np.cumsum(lengths + 1) - (lengths + 1)
    begins, ends = (
        np.full(int(lengths.sum()) + len(words) + 1, -1, dtype=np.int64) for _ in range(2)
    )
    begins[first] = np.arange(len(words))  # character → the word that begins there
    ends[first + lengths] = np.arange(len(words))
    found = KnownEnds(*(np.full(len(words), -1, dtype=np.int64) for _ in range(2)))
    longest = KnownEnds(*(np.zeros(len(words), dtype=np.int64) for _ in range(2)))
    for start, end, other in lexicon.by_length("\n".join(words)):
        for side, word in enumerate((begins[start], ends[end])):
            size = end - start
            here = np.flatnonzero((word >= 0) & (other < known))
            here = here[
                (size[here] < lengths[word[here]]) & (size[here] > longest[side][word[here]])
            ]
            found[side][word[here]] = other[here]
            longest[side][word[here]] = size[here]
    return found


def known_ends(words: Sequence[str], lexicon: Lexicon, table: GrowingVectors) -> Array:
    """[W, 1 + 2 (E + 1)]: a 1, for the bias; and for each of `find_ends` its vector and whether
    there is one.
    """
    parts = [np.ones((len(words), 1), dtype=np.float32)]
    for at in find_ends(words, lexicon, table.known):
        there = (at >= 0)[:, None]
        parts += [table.vectors(np.maximum(at, 0)) * there, there.astype(np.float32)]
    return np.concatenate(parts, axis=1)


def learn_from(lexicon: Lexicon, table: GrowingVectors) -> Composer:
    """From a model's own words and their vectors: those that were added since do not count, nor
    those after `MOST`.
    """
    known = min(table.known, MOST)
    words = lexicon.folded()[:known]
    return learn(words, table.vectors(np.arange(known)), known_ends(words, lexicon, table))


def compose(
    new: Sequence[str], lexicon: Lexicon, table: GrowingVectors, composer: Composer
) -> Array:
    """[W, E]: vectors for folded words, in half precision where it can hold them."""
    parts = [new[low:high] for low, high in runs(new, AT_ONCE)]
    return np.concatenate(
        [_small(composer(part, known_ends(part, lexicon, table))) for part in parts]
    )


def _small(vectors: Array) -> Array:
    fits = (
        len(vectors) and np.abs(vectors).max() <= np.finfo(np.float16).max
    )  # and not where one is NaN
    return vectors.astype(np.float16) if fits else vectors


def _check(characters: Array, table: Array, scale: Array, mixing: Array) -> None:
    rows, dim = table.shape if table.ndim == 2 else (-1, -1)
    fits = (
        rows == 3 * (len(characters) + 1)
        and scale.shape == (rows, 1)
        and mixing.shape == (2 * dim + 3, dim)
    )
    if not fits or table.dtype != np.int8 or characters.dtype != np.int32:
        raise ValueError("the tables for new words do not fit each other")
    if (
        len(characters)
        and not 0 <= int(characters.min()) <= int(characters.max()) <= sys.maxunicode
    ):
        raise ValueError("the tables for new words have a character that there is not")
