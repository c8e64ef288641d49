"""Vectors for words without one, composed of their characters and of the known words that they begin and end with.

    vector = Σ over characters of table[place, character] / √length
             + bias + prefix·A + suffix·B      (the longest known words at its two ends, in their own vectors)

A character's place is begin, middle or end. All of it is linear, and learnt by ridge regression from the words of the
lexicon and their vectors. A composed vector is shorter than a real one, the less its characters say of the word the
more so: that is as it should be, and stretching it makes it worse (docs/dictionaries.md).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import Codes, code_points

BEGIN, MIDDLE, END = range(3)
LEAST = 5  # words that a character must stand in to have rows of its own
RIDGE = 5.0  # what a character's row must be worth: so many words pull it to nothing
STEPS = 12  # of conjugate gradients: more change the third digit of a cosine by nothing
MOST = 500_000  # words that are learnt from, first those that training met: bounds memory, as does the next
AT_ONCE = 1 << 16  # words that are composed at a time: bounds memory


class Bags(NamedTuple):
    """A sparse matrix: row r has `weight` in columns `column`, from `first[r]` to `first[r + 1]`."""

    column: Tensor  # [N]
    weight: Tensor  # [N]
    first: Tensor  # [rows + 1]

    def times(self, dense: Tensor) -> Tensor:
        return F.embedding_bag(
            self.column, dense, self.first, mode="sum", per_sample_weights=self.weight, include_last_offset=True
        )

    def transposed(self, columns: int) -> Bags:
        row = torch.repeat_interleave(torch.arange(len(self.first) - 1), self.first.diff())
        order = self.column.argsort(stable=True)
        ends = torch.bincount(self.column, minlength=columns).cumsum(0)
        return Bags(row[order], self.weight[order], F.pad(ends, (1, 0)))


class Ends(NamedTuple):
    """The longest known words at the beginning and the end of each word, [W]; −1 where there is none."""

    prefix: Ints
    suffix: Ints


class Composer:
    """`composer(words, known_ends(words, …))` gives vectors. It holds what a file holds: tables rounded to bytes."""

    def __init__(self, characters: Tensor, table: Tensor, scale: Tensor, mixing: Tensor) -> None:
        self.characters = characters  # [C]: code points, int32, ascending; all others share row 0 of each place
        self.table = table  # [3 (1 + C), E]: int8, by place and then by character
        self.scale = scale  # [3 (1 + C), 1]: what 1 means in each row
        self.mixing = mixing  # [1 + 2 (E + 1), E]: of what `known_ends` gives
        self._rows = table.float() * scale
        self._row_of = first_rows(characters.numpy())

    def tensors(self) -> dict[str, Tensor]:
        """What `from_tensors` makes the same composer of."""
        return {"characters": self.characters, "table": self.table, "scale": self.scale, "mixing": self.mixing}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Composer:
        """Of `tensors()`; a ValueError where they cannot have come from there."""
        try:
            parts = [tensors[name].cpu() for name in ("characters", "table", "scale", "mixing")]
        except KeyError as error:
            raise ValueError(f"the tables for new words lack {error}") from None
        _check(*parts)
        return cls(*parts)

    @property
    def dim(self) -> int:
        return self.table.shape[1]

    def __call__(self, words: Sequence[str], ends: Tensor) -> Tensor:
        """[W, E]: of folded words, and what `known_ends` says of them."""
        bags = character_bags(words, self._row_of, len(self.characters) + 1)
        return bags.times(self._rows) + ends @ self.mixing


def learn(words: Sequence[str], vectors: Tensor, ends: Tensor, least: int = LEAST, ridge: float = RIDGE) -> Composer:
    """From folded words, their vectors [N, E] and the known words at their ends, as `known_ends` gives them."""
    codes, counts = np.unique(code_points("".join(words)), return_counts=True)
    codes = codes[counts >= least]
    bags = character_bags(words, first_rows(codes), len(codes) + 1)
    rows, mixing = solve(bags, 3 * (len(codes) + 1), ends, vectors, ridge)
    scale = (rows.abs().amax(1, keepdim=True) / 127).clamp(min=torch.finfo(torch.float32).tiny)
    return Composer(torch.from_numpy(codes.astype(np.int32)), (rows / scale).round().to(torch.int8), scale, mixing)


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
    return Bags(*map(torch.from_numpy, (column, weight, np.append(0, np.cumsum(lengths)))))


def solve(bags: Bags, columns: int, dense: Tensor, wanted: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights of the sparse columns and of the dense ones, whose sum is nearest to `wanted` in squares plus ridge·w².

    Conjugate gradients on the normal equations, scaled by their diagonal, all columns of `wanted` at once.
    """
    back = bags.transposed(columns)
    across, within = back.times(dense), dense.T @ dense  # [columns, D], [D, D]: so that no step reads `dense` again

    def both_ways(weights: Tensor) -> Tensor:
        sparse, rest = weights[:columns], weights[columns:]
        upper = back.times(bags.times(sparse)) + across @ rest
        return torch.cat([upper, across.T @ sparse + within @ rest]) + ridge * weights

    squares = back._replace(weight=back.weight**2).times(wanted.new_ones(len(wanted), 1))
    diagonal = torch.cat([squares, (dense**2).sum(0)[:, None]]) + ridge  # [columns + D, 1]
    left = torch.cat([back.times(wanted), dense.T @ wanted])  # what is still to be explained
    weights, scaled = torch.zeros_like(left), left / diagonal
    towards, size = scaled.clone(), (left * scaled).sum(0)
    tiny = torch.finfo(left.dtype).tiny
    for _ in range(STEPS):
        product = both_ways(towards)
        step = size / (towards * product).sum(0).clamp(min=tiny)
        weights += step * towards
        left -= step * product
        scaled = left / diagonal
        size, before = (left * scaled).sum(0), size
        towards = scaled + (size / before.clamp(min=tiny)) * towards
    return weights[:columns], weights[columns:]


def find_ends(words: Sequence[str], lexicon: Lexicon, known: int) -> Ends:
    """Which of the lexicon's first `known` words folded words begin and end with, the words themselves apart."""
    counts, start, end, found = lexicon.match_many(words)
    text = np.repeat(np.arange(len(words)), counts)
    length = np.fromiter(map(len, words), dtype=np.int64, count=len(words))[text]
    inside = (found < known) & (end - start < length)
    prefix, suffix = (np.full(len(words), -1, dtype=np.int64) for _ in range(2))
    begins, ends = np.flatnonzero(inside & (start == 0)), np.flatnonzero(inside & (end == length))
    prefix[text[begins]] = found[begins]  # the last one stays, and it is the longest
    suffix[text[ends[::-1]]] = found[ends[::-1]]
    return Ends(prefix, suffix)


def known_ends(words: Sequence[str], lexicon: Lexicon, table: WordEmbedding) -> Tensor:
    """[W, 1 + 2 (E + 1)]: a 1, for the bias; and for each of `find_ends` its vector and whether there is one."""
    known = len(table) - len(table.added)
    parts = [torch.ones(len(words), 1)]
    for at in map(torch.from_numpy, find_ends(words, lexicon, known)):
        there = (at >= 0)[:, None]
        vectors = table.rows(at.clamp(min=0).to(table.trained.device)).float().cpu()
        parts += [vectors * there, there.float()]
    return torch.cat(parts, dim=1)


@torch.no_grad()
def learn_from(lexicon: Lexicon, table: WordEmbedding) -> Composer:
    """From a model's own words and their vectors: those that were added since do not count, nor those after `MOST`."""
    known = min(len(table) - len(table.added), MOST)
    words = lexicon.folded()[:known]
    vectors = table.rows(torch.arange(known, device=table.trained.device)).float().cpu()
    return learn(words, vectors, known_ends(words, lexicon, table))


@torch.no_grad()
def compose(new: Sequence[str], lexicon: Lexicon, table: WordEmbedding, composer: Composer) -> Tensor:
    """[W, E]: vectors for folded words, in half precision where it can hold them."""
    parts = [new[first : first + AT_ONCE] for first in range(0, len(new), AT_ONCE)]
    return torch.cat([_small(composer(part, known_ends(part, lexicon, table))) for part in parts])


def _small(vectors: Tensor) -> Tensor:
    fits = len(vectors) and vectors.abs().max() <= torch.finfo(torch.half).max  # and not where one is NaN
    return vectors.half() if fits else vectors


def _check(characters: Tensor, table: Tensor, scale: Tensor, mixing: Tensor) -> None:
    rows, dim = table.shape if table.ndim == 2 else (-1, -1)
    fits = rows == 3 * (len(characters) + 1) and scale.shape == (rows, 1) and mixing.shape == (2 * dim + 3, dim)
    if not fits or table.dtype != torch.int8 or characters.dtype != torch.int32:
        raise ValueError("the tables for new words do not fit each other")
    if len(characters) and not 0 <= int(characters.min()) <= int(characters.max()) <= sys.maxunicode:
        raise ValueError("the tables for new words have a character that there is not")
