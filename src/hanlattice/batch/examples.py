"""Examples: a corpus as numbers in flat arrays, from which a batch is taken without a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.batch.batch import Batch
from hanlattice.text.arrays import Ints, cells
from hanlattice.text.lattice import Lattice
from hanlattice.text.lexicon import Matches
from hanlattice.text.segments import Segments
from hanlattice.text.tag_ids import FlatSpans


class Words(NamedTuple):
    """The words that cover sentences, one after the other. Word w covers [start[w], end[w]) of its sentence."""

    counts: Ints  # [S]
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]


@dataclass(frozen=True, eq=False)
class Examples:
    """Many sentences as numbers, one after the other. Tags are of characters; with `segments`, of words."""

    lengths: Ints  # [S]
    chars: Ints  # [N]
    matches: Matches
    tags: Ints | None  # [N], or [W] of the segments; None where a sentence has none
    symbols: Ints | None = None  # [N]: the characters as the language model numbers them, if there is one
    states: npt.NDArray[np.float16] | None = None  # [N, S]: what the language model makes of them, if that is kept
    beside: Mapping[str, Ints] = field(default_factory=dict)  # [N] each: further numbers of the characters
    segments: Words | None = None  # for a word model
    offsets: Ints | None = None  # [N]: where each character stands in its text, if not all of the text is read

    def __post_init__(self) -> None:
        counts, *words = self.matches
        if len(counts) != len(self.lengths):
            raise ValueError("lengths and matches do not belong to the same sentences")
        if len(self.chars) != self.lengths.sum() or not (self.tags is None or len(self.tags) == self.units.sum()):
            raise ValueError("lengths, chars and tags do not belong to the same sentences")
        if any(x is not None and len(x) != len(self.chars) for x in (self.symbols, self.states, *self.beside.values())):
            raise ValueError("chars, symbols, states and what stands beside do not belong to the same sentences")
        Lattice(self.lengths, np.repeat(np.arange(len(counts)), counts), *words)  # its checks
        if self.segments is not None:
            Segments(self.lengths, *self.segments)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def units(self) -> Ints:
        """[S]: how many tags each sentence has."""
        return self.lengths if self.segments is None else self.segments.counts

    @cached_property
    def first(self) -> Ints:
        """[S]: where each sentence's characters begin."""
        return first_places(self.lengths)

    @cached_property
    def first_match(self) -> Ints:
        """[S]: where each sentence's matches begin."""
        return first_places(self.matches.counts)

    @cached_property
    def first_unit(self) -> Ints:
        """[S]: where each sentence's tags begin."""
        return first_places(self.units)

    def batch(self, places: Sequence[int] | Ints, missing: float = 0.0, seed: Sequence[int] = (0,)) -> Batch:
        """One batch of the sentences at these places, in this order; without a share of the lattice's words, by chance.

        Of the words that a word model reads none can be missing.
        """
        at = np.asarray(places, dtype=np.int64)
        lengths, B, T = self.lengths[at], len(at), int(self.lengths[at].max(initial=0))
        row, column = cells(lengths)
        here, there = self.first[at][row] + column, row * T + column
        sentence, nth = cells(self.matches.counts[at])
        found = self.first_match[at][sentence] + nth
        if missing:
            stays = np.random.default_rng(seed).random(len(found)) >= missing
            sentence, found = sentence[stays], found[stays]
        lattice = Lattice.trusted(lengths, sentence, *(array[found] for array in self.matches[1:]))
        segments = self._segments(at)
        return Batch(
            chars=_padded(self.chars[here], there, B, T),
            lengths=torch.from_numpy(self.lengths[at]),
            lattice=lattice,
            words=torch.from_numpy(self.matches.word[found] if segments is None else segments.word.copy()),
            tags=None if self.tags is None else self._tags(at),
            symbols=None if self.symbols is None else _padded(self.symbols[here], there, B, T),
            states=None if self.states is None else _padded_rows(self.states, here, there, B, T),
            beside={name: _padded(numbers[here], there, B, T) for name, numbers in self.beside.items()},
            segments=segments,
            counts=None if segments is None else torch.from_numpy(segments.counts.copy()),
        )

    def _segments(self, at: Ints) -> Segments | None:
        if self.segments is None:
            return None
        counts = self.segments.counts[at]
        sentence, nth = cells(counts)
        found = self.first_unit[at][sentence] + nth
        return Segments.trusted(self.lengths[at], counts, *(array[found] for array in self.segments[1:]))

    def _tags(self, at: Ints) -> Tensor:
        assert self.tags is not None
        units = self.units[at]
        row, column = cells(units)
        U = int(units.max(initial=0))
        return _padded(self.tags[self.first_unit[at][row] + column], row * U + column, len(at), U)

    def in_characters(self, spans: FlatSpans) -> FlatSpans:
        """Spans over tags as spans over a text's characters: the same, unless tags are of words or some have none."""
        if self.offsets is not None:
            first = self.first[spans.text]
            start, end = self.offsets[first + spans.start], self.offsets[first + spans.end - 1] + 1
            return spans._replace(start=start, end=end)
        if self.segments is None:
            return spans
        first = self.first_unit[spans.text]
        start, end = self.segments.start[first + spans.start], self.segments.end[first + spans.end - 1]
        return spans._replace(start=start, end=end)


def first_places(counts: Ints) -> Ints:
    """Where each of several runs of these lengths begins, when they stand one after the other."""
    return np.cumsum(counts) - counts


def _padded(values: Ints, places: Ints, B: int, T: int) -> Tensor:
    table = np.zeros(B * T, dtype=np.int64)
    table[places] = values
    return torch.from_numpy(table.reshape(B, T))


def _padded_rows(rows: npt.NDArray[np.float16], here: Ints, there: Ints, B: int, T: int) -> Tensor:
    table = np.zeros((B * T, rows.shape[1]), dtype=rows.dtype)
    table[there] = rows[here]
    return torch.from_numpy(table.reshape(B, T, -1))
