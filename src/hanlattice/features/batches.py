"""Batch: what a model reads at once, a frozen value; taken from Examples, a corpus in flat arrays,
without a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lattice import Ints, Lattice, Segments, cells
from hanlattice.text.rules import Rulings
from hanlattice.text.tags import FlatSpans
from hanlattice.text.trie import Matches

Values = Any  # an array of numpy, or a tensor


class BatchShard(NamedTuple):
    """What a batch is of a larger one, which several processes share."""

    rows: Values  # [B]: the places of its sentences in the larger batch
    word_rows: Values  # [W]: and of its words
    sentences: int  # how many the larger one has
    words: int
    characters: int  # the larger one's T
    units: int  # and, of a word model, how many tags the longest of its sentences has; else 0
    # False where there was no sentence for it, and it has one that another process has too.
    counts: bool


@dataclass(frozen=True)
class Batch:
    """Sentences side by side, padded with 0. Tags are of characters; with `segments`, of words.

    It comes with arrays of numpy; `to` gives the same with tensors, for a module of torch.
    """

    chars: Values  # [B, T]
    lengths: Values  # [B]
    lattice: Lattice
    words: Values  # [W]: the ids of the lattice's words, or of the segments'
    tags: Values | None  # [B, T] or [B, U]
    symbols: Values | None = None  # [B, T]: for the language model
    states: Values | None = (
        None  # [B, T, S], in half precision: the language model's, where they are known already
    )
    extra_ids: Mapping[str, Values] = field(
        default_factory=dict
    )  # [B, T] each: further ids of the characters
    segments: Segments | None = None  # the words that cover the sentences, for a word model
    counts: Values | None = None  # [B]: how many these are
    share: BatchShard | None = None  # of which larger batch this is a part
    shares: Values | None = (
        None  # [B, T, K]: of the tags of each character, where teachers were not sure of some
    )
    added: tuple[Values, ...] | None = None  # [n, E] each: see Examples

    def __post_init__(self) -> None:
        B, T = self.chars.shape
        if (self.segments is None) != (self.counts is None):
            raise ValueError("segments come with counts, and counts with segments")
        sizes = {
            B,
            len(self.lengths),
            len(self.lattice.lengths),
            len(self.places.lengths),
            len(self.units),
        }
        if len(sizes) > 1 or len(self.words) != len(self.places):
            raise ValueError("chars, lengths, words and lattice do not belong to the same batch")
        units = (B, T if self.segments is None else int(self.segments.counts.max(initial=0)))
        if self.tags is not None and tuple(self.tags.shape) != units:
            raise ValueError(f"tags must be {units}, not {tuple(self.tags.shape)}")
        for name, other in (
            *(("symbols", self.symbols), ("states", self.states), ("shares", self.shares)),
            *self.extra_ids.items(),
        ):
            if other is not None and tuple(other.shape[:2]) != (B, T):
                raise ValueError(f"{name} must begin with {(B, T)}, not {tuple(other.shape)}")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def places(self) -> Lattice | Segments:
        """The words of each sentence, and their places."""
        return self.lattice if self.segments is None else self.segments

    @property
    def units(self) -> Values:
        """[B]: how many tags each sentence has."""
        return self.lengths if self.counts is None else self.counts


class CoveringWords(NamedTuple):
    """The words that cover sentences, one after the other. Word w covers [start[w], end[w]) of its
    sentence.
    """

    counts: Ints  # [S]
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]


class SoftLabels(NamedTuple):
    """The shares of tags at characters of which teachers were not sure, sentence by sentence."""

    counts: Ints  # [S]
    place: Ints  # [D]: in the sentence
    tag: Ints  # [D]
    share: npt.NDArray[np.float32]  # [D]
    tags: int  # how many tags there are


@dataclass(frozen=True, eq=False)
class Examples:
    """Many sentences as numbers, one after the other. Tags are of characters; with `segments`, of
    words.
    """

    lengths: Ints  # [S]
    chars: Ints  # [N]
    matches: Matches
    tags: Ints | None  # [N], or [W] of the segments; None where a sentence has none
    symbols: Ints | None = (
        None  # [N]: the characters as the language model numbers them, if there is one
    )
    states: npt.NDArray[np.float16] | None = None  # [N, S]: states of the language model, if cached
    extra_ids: Mapping[str, Ints] = field(
        default_factory=dict
    )  # [N] each: further ids of the characters
    segments: CoveringWords | None = None  # for a word model
    own: Ints | None = None  # the ids of the user's own words among the matches
    rulings: Rulings | None = None  # what a user's dictionary says of spans
    offsets: Ints | None = (
        None  # [N]: the position of each character in its text, if white space was removed
    )
    soft_labels: SoftLabels | None = None  # what is learnt in place of some of the tags
    # [n, E] each: the vectors of words that joined the model's own, as its tagger keeps them. With
    # them ids mean the
    # same whatever happens to the lexicon meanwhile. None where the lexicon has no vectors.
    added: tuple[Any, ...] | None = None
    labels: tuple[
        str, ...
    ] = ()  # of spans by their numbers: the model's, then those of the dictionary

    def __post_init__(self) -> None:
        counts, *words = self.matches
        if len(counts) != len(self.lengths):
            raise ValueError("lengths and matches do not belong to the same sentences")
        if len(self.chars) != self.lengths.sum() or not (
            self.tags is None or len(self.tags) == self.units.sum()
        ):
            raise ValueError("lengths, chars and tags do not belong to the same sentences")
        if any(
            x is not None and len(x) != len(self.chars)
            for x in (self.symbols, self.states, *self.extra_ids.values())
        ):
            raise ValueError("chars, symbols, states and extra ids are not of the same sentences")
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
    def first_doubt(self) -> Ints:
        """[S]: where each sentence's soft labels begin."""
        return first_places(
            np.empty(0, dtype=np.int64) if self.soft_labels is None else self.soft_labels.counts
        )

    @cached_property
    def first_unit(self) -> Ints:
        """[S]: where each sentence's tags begin."""
        return first_places(self.units)

    def with_words(self, stays: npt.NDArray[np.bool_]) -> Examples:
        """The same without the lattice's words whose id is not marked in `stays`."""
        return replace(self, matches=self.matches.where(stays[self.matches.word]))

    @cached_property
    def is_ruled(self) -> npt.NDArray[np.bool_]:
        """[S]: whether the dictionary says something of a sentence's spans."""
        ruled = np.zeros(len(self), dtype=bool)
        if self.rulings is not None:
            ruled[self.rulings.sentence] = True
        return ruled

    def rulings_at(self, places: Ints) -> Rulings | None:
        """Those on the sentences at these places, numbered in their order."""
        if self.rulings is None or not self.is_ruled[places].any():
            return None
        nth = np.full(len(self), -1)
        nth[places] = np.arange(len(places))
        here = self.rulings.at(nth[self.rulings.sentence] >= 0)
        return here._replace(sentence=nth[here.sentence])

    def batch(
        self,
        places: Sequence[int] | Ints,
        missing: float = 0.0,
        seed: Sequence[int] = (0,),
        rows: Ints | None = None,
    ) -> Batch:
        """One batch of the sentences at these places, in this order; a random share of the
        lattice's words is left out.

        Of the words that a word model reads none can be missing. With `rows`, only these sentences
        of the batch, as they are in the whole one, and as wide.
        """
        at = np.asarray(places, dtype=np.int64)
        T = int(self.lengths[at].max(initial=0))
        sentence, nth = cells(self.matches.counts[at])
        found = self.first_match[at][sentence] + nth
        if missing:
            stays = np.random.default_rng(seed).random(len(found)) >= missing
            sentence = sentence[stays]
            found = found[stays]
        share = None if rows is None else self._share(at, rows, sentence)
        if share is not None:
            mine = np.isin(sentence, share.rows)
            sentence = np.searchsorted(share.rows, sentence[mine])
            found = found[mine]
            at = at[share.rows]
        lengths = self.lengths[at]
        B = len(at)
        row, column = cells(lengths)
        here = self.first[at][row] + column
        there = row * T + column
        lattice = Lattice.trusted(lengths, sentence, *(array[found] for array in self.matches[1:]))
        segments = self._segments(at)
        tags = None if self.tags is None else self._tags(at, T)
        return Batch(
            chars=_padded(self.chars[here], there, B, T),
            lengths=self.lengths[at],
            lattice=lattice,
            words=self.matches.word[found] if segments is None else segments.word.copy(),
            tags=tags,
            symbols=None if self.symbols is None else _padded(self.symbols[here], there, B, T),
            states=None if self.states is None else _padded(self.states[here], there, B, T),
            extra_ids={
                name: _padded(numbers[here], there, B, T)
                for name, numbers in self.extra_ids.items()
            },
            segments=segments,
            counts=None if segments is None else segments.counts.copy(),
            share=share,
            shares=None
            if self.soft_labels is None or tags is None
            else self._shares(self.soft_labels, at, tags),
            added=self.added,
        )

    def _shares(self, soft_labels: SoftLabels, at: Ints, tags: Ints) -> npt.NDArray[np.float32]:
        """[B, T, K]: 1 for the tag of each character, and where there are soft labels, these."""
        B, T = tags.shape
        shares = np.zeros((B, T, soft_labels.tags), dtype=np.float32)
        row, column = cells(self.lengths[at])
        shares[row, column, tags[row, column]] = 1.0
        row, nth = cells(soft_labels.counts[at])
        found = self.first_doubt[at][row] + nth
        place = soft_labels.place[found]
        shares[row, place] = 0.0
        shares[row, place, soft_labels.tag[found]] = soft_labels.share[found]
        return shares

    def _share(self, at: Ints, rows: Ints, sentence: Ints) -> BatchShard:
        """Of these sentences those at `rows`; if these are none, the first. `sentence` is that of
        each lattice word.
        """
        of_word = sentence if self.segments is None else cells(self.segments.counts[at])[0]
        taken = rows if len(rows) else np.zeros(1, dtype=np.int64)
        return BatchShard(
            rows=taken,
            word_rows=np.flatnonzero(np.isin(of_word, taken)),
            sentences=len(at),
            words=len(of_word),
            characters=int(self.lengths[at].max()),
            units=0 if self.segments is None else int(self.units[at].max()),
            counts=len(rows) > 0,
        )

    def _segments(self, at: Ints) -> Segments | None:
        if self.segments is None:
            return None
        counts = self.segments.counts[at]
        sentence, nth = cells(counts)
        found = self.first_unit[at][sentence] + nth
        return Segments.trusted(
            self.lengths[at], counts, *(array[found] for array in self.segments[1:])
        )

    def _tags(self, at: Ints, T: int) -> Ints:
        assert self.tags is not None
        units = self.units[at]
        row, column = cells(units)
        U = T if self.segments is None else int(units.max(initial=0))
        return _padded(self.tags[self.first_unit[at][row] + column], row * U + column, len(at), U)

    def in_characters(self, spans: FlatSpans) -> FlatSpans:
        """Spans over tags as spans over a text's characters: the same, unless tags are of words or
        some have none.
        """
        if self.offsets is not None:
            first = self.first[spans.text]
            start = self.offsets[first + spans.start]
            end = self.offsets[first + spans.end - 1] + 1
            return spans._replace(start=start, end=end)
        if self.segments is None:
            return spans
        first = self.first_unit[spans.text]
        start = self.segments.start[first + spans.start]
        end = self.segments.end[first + spans.end - 1]
        return spans._replace(start=start, end=end)


def first_places(counts: Ints) -> Ints:
    """Where each of several consecutive runs of these lengths begins."""
    return np.cumsum(counts) - counts


def _padded(values: npt.NDArray[Any], places: Ints, B: int, T: int) -> npt.NDArray[Any]:
    """[B, T], or [B, T, S] of rows: the values at their places, 0 elsewhere."""
    table = np.zeros((B * T, *values.shape[1:]), dtype=values.dtype)
    table[places] = values
    return table.reshape(B, T, *values.shape[1:])
