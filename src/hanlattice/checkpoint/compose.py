"""Compose vectors for new words from their characters and the known words at their ends.

    vector = Σ over characters of table[place, character] / √length
             + bias + prefix·A + suffix·B      (vectors of the longest known words at the two ends)

A character's place is begin, middle or end. All of it is linear, and learnt by ridge regression
from the words of the lexicon and their vectors. A composed vector is shorter than a real one, and
the shorter the less its characters say of the word. Stretching it makes it worse
(docs/dictionaries.md).
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
# How many words a character must occur in to have rows of its own.
LEAST = 5
# Ridge regression: a row of fewer words than this is pulled towards 0.
RIDGE = 5.0
# Steps of conjugate gradients: more change the third digit of a cosine by nothing.
STEPS = 12
# How many words are learnt from, first those that training met, and how many characters of words
# are composed at a time. Both bound memory.
MOST = 500_000
AT_ONCE = 1 << 17
# Rows of a sparse matrix with more numbers than MANY are multiplied one by one, others FEW at once.
MANY = 64
FEW = 1 << 12

Array = npt.NDArray[Any]


class GrowingVectors(Protocol):
    """A table of vectors that words can join, of `inference` or of `nn`."""

    # How many words it has without those that joined.
    @property
    def known(self) -> int: ...
    def __len__(self) -> int: ...
    def vectors(self, words: Ints) -> Array: ...

    # The rows of words that joined.
    @property
    def added(self) -> Any: ...
    def append(self, vectors: Array) -> None: ...

    # Rows like `added`: those `before`, if any, and then these vectors.
    def joined(self, before: Any, vectors: Array) -> Any: ...

    # Keep only these of the words that joined.
    def keep(self, words: Ints) -> None: ...


class Bags(NamedTuple):
    """A sparse matrix: row r has `weight` in `column`, from `first[r]` up to `first[r + 1]`."""

    # [N], [N] and [rows + 1].
    column: Ints
    weight: Array
    first: Ints

    def times(self, dense: Array) -> Array:
        """Return the product with a dense matrix, [columns, D] → [rows, D]."""
        product = np.zeros((len(self.first) - 1, dense.shape[1]), dtype=dense.dtype)
        counts = np.diff(self.first)
        for row in np.flatnonzero(counts > MANY).tolist():
            part = slice(self.first[row], self.first[row + 1])
            product[row] = self.weight[part] @ dense[self.column[part]]
        short = np.flatnonzero((counts > 0) & (counts <= MANY))
        # Longest first, so that the rows that have an n-th number are the first ones of a block.
        short = short[np.argsort(-counts[short], kind="stable")]
        for low in range(0, len(short), FEW):
            rows = short[low : low + FEW]
            sums = np.zeros((len(rows), dense.shape[1]), dtype=dense.dtype)
            for nth in range(int(counts[rows[0]])):
                index = self.first[rows[: np.count_nonzero(counts[rows] > nth)]] + nth
                sums[: len(index)] += self.weight[index, None] * dense[self.column[index]]
            product[rows] = sums
        return product

    def transposed(self, columns: int) -> Bags:
        """Return the transposed matrix, which has this many rows."""
        row = np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))
        order = np.argsort(self.column, kind="stable")
        ends = np.cumsum(np.bincount(self.column, minlength=columns))
        return Bags(row[order], self.weight[order], np.append(0, ends))


class KnownEnds(NamedTuple):
    """The longest known words at the beginning and the end of each word, [W]; −1 for none."""

    prefix: Ints
    suffix: Ints


class Composer:
    """Makes vectors for new words: `composer(words, known_ends(words, …))`.

    Args:
        characters: the code points that have rows, [C], int32, ascending. All others share row 0
            of each place.
        table: a row for each place and character, [3 (1 + C), E], int8.
        scale: what 1 means in each row, [3 (1 + C), 1].
        mixing: the weights of what `known_ends` returns, [1 + 2 (E + 1), E].
    """

    def __init__(self, characters: Array, table: Array, scale: Array, mixing: Array) -> None:
        self.characters = characters
        self.table = table
        self.scale = scale
        self.mixing = mixing
        self._rows = table.astype(np.float32) * scale
        self._row_of = first_rows(characters)

    def tensors(self) -> dict[str, Array]:
        """Return the arrays of this composer, for a file."""
        names = ("characters", "table", "scale", "mixing")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Array]) -> Composer:
        """Restore a composer from `tensors()`; a ValueError says what is wrong with them."""
        try:
            parts = [tensors[name] for name in ("characters", "table", "scale", "mixing")]
        except KeyError as error:
            raise ValueError(f"the tables for new words lack {error}") from None
        characters, table, scale, mixing = parts
        rows, dim = table.shape if table.ndim == 2 else (-1, -1)
        shapes = ((rows, 1), (2 * dim + 3, dim))
        fits = rows == 3 * (len(characters) + 1) and (scale.shape, mixing.shape) == shapes
        if not fits or table.dtype != np.int8 or characters.dtype != np.int32:
            raise ValueError("the tables for new words do not fit each other")
        lowest = int(characters.min(initial=0))
        if not 0 <= lowest <= int(characters.max(initial=0)) <= sys.maxunicode:
            raise ValueError("the tables for new words have a character that there is not")
        return cls(*parts)

    @property
    def dim(self) -> int:
        return int(self.table.shape[1])

    def __call__(self, words: Sequence[str], ends: Array) -> Array:
        """Return the vectors of folded words, [W, E]; `ends` is what `known_ends` returned."""
        bags = character_bags(words, self._row_of, len(self.characters) + 1)
        vectors: Array = bags.times(self._rows) + ends @ self.mixing
        return vectors


def learn(
    words: Sequence[str], vectors: Array, ends: Array, least: int = LEAST, ridge: float = RIDGE
) -> Composer:
    """Learn to compose from folded words, their vectors, [W, E], and what `known_ends` returns.

    A character must occur in `least` words to have rows of its own.
    """
    codes, counts = np.unique(code_points("".join(words)), return_counts=True)
    codes = codes[counts >= least]
    bags = character_bags(words, first_rows(codes), len(codes) + 1)
    rows, mixing = solve(bags, 3 * (len(codes) + 1), ends, vectors, ridge)
    # A row of zeros must not divide by 0.
    scale = np.maximum(np.abs(rows).max(1, keepdims=True) / 127, np.finfo(np.float32).tiny)
    scale = scale.astype(np.float32)
    return Composer(codes.astype(np.int32), np.rint(rows / scale).astype(np.int8), scale, mixing)


def first_rows(codes: Codes) -> Ints:
    """Return each code point's row where it begins a word, 0 for all but these characters."""
    row_of = np.zeros(sys.maxunicode + 1, dtype=np.int64)
    row_of[codes] = np.arange(1, len(codes) + 1)
    return row_of


def character_bags(words: Sequence[str], row_of: Ints, characters: int) -> Bags:
    """Return the rows of each word's characters, with weights whose squares sum to 1."""
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    word, index = cells(lengths)
    place = np.where(index == 0, BEGIN, np.where(index == lengths[word] - 1, END, MIDDLE))
    column = row_of[code_points("".join(words))] + place * characters
    weight = (1 / np.sqrt(lengths.astype(np.float32)))[word]
    return Bags(column, weight, np.append(0, np.cumsum(lengths)))


def solve(
    bags: Bags, columns: int, dense: Array, wanted: Array, ridge: float
) -> tuple[Array, Array]:
    """Solve a ridge regression by conjugate gradients on the normal equations.

    Args:
        bags: sparse inputs, [rows, columns].
        columns: how many columns they have.
        dense: further inputs, [rows, D].
        wanted: outputs, [rows, E], whose columns are solved all at once.
        ridge: the factor of the squares of the weights.

    Returns:
        the weights of the sparse inputs, [columns, E], and of the dense ones, [D, E].
    """
    back = bags.transposed(columns)
    # [columns, D] and [D, D], so that no step reads `dense` again.
    across = back.times(dense)
    within = dense.T @ dense

    def both_ways(weights: Array) -> Array:
        sparse = weights[:columns]
        rest = weights[columns:]
        upper = back.times(bags.times(sparse)) + across @ rest
        product = np.concatenate([upper, across.T @ sparse + within @ rest])
        return product + np.float32(ridge) * weights

    ones = np.ones((len(wanted), 1), dtype=wanted.dtype)
    squares = back._replace(weight=back.weight**2).times(ones)
    # The diagonal of the normal equations preconditions them, [columns + D, 1].
    diagonal = np.concatenate([squares, (dense**2).sum(0)[:, None]]) + np.float32(ridge)
    # What is still to be explained.
    left = np.concatenate([back.times(wanted), dense.T @ wanted])
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
    """Find the longest words among the lexicon's first `known` that each word begins and ends with.

    A word itself does not count.
    """
    parts = [_ends_at_once(words[low:high], lexicon, known) for low, high in runs(words, AT_ONCE)]
    return KnownEnds(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ends_at_once(words: Sequence[str], lexicon: Lexicon, known: int) -> KnownEnds:
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    first = np.cumsum(lengths + 1) - (lengths + 1)
    # For each character, the word that begins there, and the word that ends there.
    total = int(lengths.sum()) + len(words) + 1
    begins, ends = (np.full(total, -1, dtype=np.int64) for _ in range(2))
    begins[first] = np.arange(len(words))
    ends[first + lengths] = np.arange(len(words))
    best = KnownEnds(*(np.full(len(words), -1, dtype=np.int64) for _ in range(2)))
    longest = KnownEnds(*(np.zeros(len(words), dtype=np.int64) for _ in range(2)))
    # One length after the other: a word of n characters can have n²/2 others inside, and only two
    # of them count.
    for start, end, inner in lexicon.by_length("\n".join(words)):
        for side, word in enumerate((begins[start], ends[end])):
            size = end - start
            rows = np.flatnonzero((word >= 0) & (inner < known))
            is_longer = size[rows] > longest[side][word[rows]]
            rows = rows[(size[rows] < lengths[word[rows]]) & is_longer]
            best[side][word[rows]] = inner[rows]
            longest[side][word[rows]] = size[rows]
    return best


def known_ends(words: Sequence[str], lexicon: Lexicon, table: GrowingVectors) -> Array:
    """Return what composing reads of the known words at both ends, [W, 1 + 2 (E + 1)].

    A column of ones is for the bias. Each end adds the vector of its word, and whether it has one.
    """
    parts = [np.ones((len(words), 1), dtype=np.float32)]
    for ids in find_ends(words, lexicon, table.known):
        has_word = (ids >= 0)[:, None]
        parts += [table.vectors(np.maximum(ids, 0)) * has_word, has_word.astype(np.float32)]
    return np.concatenate(parts, axis=1)


def learn_from(lexicon: Lexicon, table: GrowingVectors) -> Composer:
    """Learn to compose from the first `MOST` words of a model, without words that were added."""
    known = min(table.known, MOST)
    words = lexicon.folded()[:known]
    return learn(words, table.vectors(np.arange(known)), known_ends(words, lexicon, table))


def compose(
    new: Sequence[str], lexicon: Lexicon, table: GrowingVectors, composer: Composer
) -> Array:
    """Return vectors for new folded words, [W, E], in half precision where it can hold them."""
    parts = []
    for low, high in runs(new, AT_ONCE):
        words = new[low:high]
        vectors = composer(words, known_ends(words, lexicon, table))
        # The comparison also fails where a number is NaN.
        fits = len(vectors) and np.abs(vectors).max() <= np.finfo(np.float16).max
        parts.append(vectors.astype(np.float16) if fits else vectors)
    return np.concatenate(parts)
