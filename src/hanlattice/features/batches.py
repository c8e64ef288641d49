"""Batch: what a model reads at once. Examples: a corpus in flat arrays, the source of batches."""

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

# A NumPy array, or a tensor.
Values = Any


class BatchShard(NamedTuple):
    """The part of a larger batch that one of several processes computes."""

    rows: Values  # [B]: the rows of its sentences in the larger batch
    word_rows: Values  # [W]: the rows of its words in the larger batch
    sentences: int  # in the larger batch
    words: int  # in the larger batch
    characters: int  # the larger batch's T
    units: int  # for a word model, the most tags that a sentence of the larger batch has; else 0
    # False if no sentence was left for this process. Its one sentence belongs to another, too.
    counts: bool


@dataclass(frozen=True)
class Batch:
    """Sentences side by side, padded with 0. Tags belong to characters; with `segments`, to words.

    Batches start as NumPy arrays. `nn.to_device` makes the same batch of tensors.
    """

    chars: Values  # [B, T]
    lengths: Values  # [B]
    lattice: Lattice
    words: Values  # [W]: the ids of the words in the lattice or, for a word model, in the segments
    tags: Values | None  # [B, T] or [B, U]
    symbols: Values | None = None  # [B, T]: character ids for the language model
    states: Values | None = None  # [B, T, S], float16: cached states of the language model
    extra_ids: Mapping[str, Values] = field(default_factory=dict)  # [B, T] each
    segments: Segments | None = None  # the words that cover the sentences, for a word model
    counts: Values | None = None  # [B]: the number of segments in each sentence
    share: BatchShard | None = None  # set if this batch is a part of a larger one
    shares: Values | None = None  # [B, T, K]: the soft labels of each character
    added: tuple[Values, ...] | None = None  # [n, E] each: see Examples

    def __post_init__(self) -> None:
        B, T = self.chars.shape
        words: Lattice | Segments = self.lattice
        units = self.lengths
        U = T
        if (self.segments is None) != (self.counts is None):
            raise ValueError("segments come with counts, and counts with segments")
        if self.segments is not None and self.counts is not None:
            words = self.segments
            units = self.counts
            U = int(self.segments.counts.max(initial=0))
        sizes = {B, len(self.lengths), len(self.lattice.lengths), len(words.lengths), len(units)}
        if len(sizes) > 1 or len(self.words) != len(words):
            raise ValueError("chars, lengths, words and lattice do not belong to the same batch")
        if self.tags is not None and tuple(self.tags.shape) != (B, U):
            raise ValueError(f"tags must be {(B, U)}, not {tuple(self.tags.shape)}")
        named = {"symbols": self.symbols, "states": self.states, "shares": self.shares}
        for name, values in (named | dict(self.extra_ids)).items():
            if values is not None and tuple(values.shape[:2]) != (B, T):
                raise ValueError(f"{name} must begin with {(B, T)}, not {tuple(values.shape)}")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def places(self) -> Lattice | Segments:
        """The words of each sentence with their places."""
        return self.lattice if self.segments is None else self.segments

    @property
    def units(self) -> Values:
        """[B]: the number of tags of each sentence."""
        return self.lengths if self.counts is None else self.counts


class CoveringWords(NamedTuple):
    """The words that cover sentences, in order. Word w is [start[w], end[w]) of its sentence."""

    counts: Ints  # [S]: the number of words in each sentence
    start: Ints  # [W]
    end: Ints  # [W]
    word: Ints  # [W]: ids


class SoftLabels(NamedTuple):
    """The weights of tags at characters where teachers disagreed, sentence by sentence."""

    counts: Ints  # [S]: the number of weights in each sentence
    place: Ints  # [D]: the character in its sentence
    tag: Ints  # [D]
    share: npt.NDArray[np.float32]  # [D]
    tags: int  # the size of the tag set


@dataclass(frozen=True, eq=False)
class Examples:
    """Many sentences as numbers, concatenated: S sentences have N characters.

    A word model has `segments`, and tags for them. `added` and `labels` fix what ids mean, even if
    the lexicon changes later.
    """

    lengths: Ints  # [S]
    chars: Ints  # [N]
    matches: Matches
    tags: Ints | None  # [N], or [W] for the segments; None if a sentence has no gold spans
    symbols: Ints | None = None  # [N]: character ids for the language model
    states: npt.NDArray[np.float16] | None = None  # [N, S]: cached states of the language model
    extra_ids: Mapping[str, Ints] = field(default_factory=dict)  # [N] each
    segments: CoveringWords | None = None
    own: Ints | None = None  # the ids of the user's own words among the matches
    rulings: Rulings | None = None  # what a user's dictionary says about spans
    # [N]: the position of each character in its text, if white space was removed.
    offsets: Ints | None = None
    soft_labels: SoftLabels | None = None  # targets that replace some of the tags
    # [n, E] each: the vectors of words added to the model, in the tagger's own type.
    # None if the lexicon has no vectors.
    added: tuple[Any, ...] | None = None
    # The names of span labels by number: first the model's, then the dictionary's.
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts, *words = self.matches
        if len(counts) != len(self.lengths):
            raise ValueError("lengths and matches do not belong to the same sentences")
        fits = self.tags is None or len(self.tags) == self.units.sum()
        if len(self.chars) != self.lengths.sum() or not fits:
            raise ValueError("lengths, chars and tags do not belong to the same sentences")
        for values in (self.symbols, self.states, *self.extra_ids.values()):
            if values is not None and len(values) != len(self.chars):
                raise ValueError(
                    "chars, symbols, states and extra ids are not of the same sentences"
                )
        # Lattice and Segments raise if a word does not fit its sentence.
        Lattice(self.lengths, np.repeat(np.arange(len(counts)), counts), *words)
        if self.segments is not None:
            Segments(self.lengths, *self.segments)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def units(self) -> Ints:
        """[S]: the number of tags of each sentence."""
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

    def with_words(self, stays: npt.NDArray[np.bool_]) -> Examples:
        """Return examples whose lattice keeps only words with `stays[id]` true."""
        return replace(self, matches=self.matches.where(stays[self.matches.word]))

    @cached_property
    def is_ruled(self) -> npt.NDArray[np.bool_]:
        """[S]: whether the user's dictionary says something about a sentence's spans."""
        ruled = np.zeros(len(self), dtype=bool)
        if self.rulings is not None:
            ruled[self.rulings.sentence] = True
        return ruled

    def rulings_at(self, places: Ints) -> Rulings | None:
        """Return the rulings on these sentences, with sentence numbers that index `places`."""
        if self.rulings is None or not self.is_ruled[places].any():
            return None
        nth = np.full(len(self), -1)
        nth[places] = np.arange(len(places))
        rulings = self.rulings.at(nth[self.rulings.sentence] >= 0)
        return rulings._replace(sentence=nth[rulings.sentence])

    def batch(
        self,
        places: Sequence[int] | Ints,
        missing: float = 0.0,
        seed: Sequence[int] = (0,),
        rows: Ints | None = None,
    ) -> Batch:
        """Return one batch of the sentences at these places, in this order.

        Args:
            places: Indices of sentences.
            missing: The share of lattice words to leave out at random. A word model loses none of
                the words that it reads.
            seed: Chooses the words to leave out.
            rows: Return only these sentences of the batch, as wide and with the same words as in
                the whole batch.
        """
        index = np.asarray(places, dtype=np.int64)
        T = int(self.lengths[index].max(initial=0))
        sentence, nth = cells(self.matches.counts[index])
        match = self.first_match[index][sentence] + nth
        if missing:
            stays = np.random.default_rng(seed).random(len(match)) >= missing
            sentence = sentence[stays]
            match = match[stays]
        shard = None
        if rows is not None:
            # Words were dropped for the whole batch above, so all processes agree on them.
            shard = self._shard(index, rows, sentence)
            mine = np.isin(sentence, shard.rows)
            sentence = np.searchsorted(shard.rows, sentence[mine])
            match = match[mine]
            index = index[shard.rows]

        lengths = self.lengths[index]
        row, column = cells(lengths)
        # Copying values[source] to target in a flat [B * T] array pads all sentences at once.
        source = self.first[index][row] + column
        grid = row * T + column, len(index), T
        extra_ids = {}
        for name, ids in self.extra_ids.items():
            extra_ids[name] = _padded(ids, source, *grid)
        _, start, end, word = self.matches
        words = word[match]
        segments = counts = shares = None
        if self.segments is None:
            tags = _padded(self.tags, source, *grid)
        else:
            counts = self.segments.counts[index]
            row, column = cells(counts)
            unit = self.first_unit[index][row] + column
            parts = (part[unit] for part in self.segments[1:])
            segments = Segments.trusted(lengths, counts, *parts)
            U = int(counts.max(initial=0))
            tags = _padded(self.tags, unit, row * U + column, len(index), U)
            # Segments freezes its arrays, and torch warns about read-only ones.
            words = segments.word.copy()
            counts = counts.copy()
        if self.soft_labels is not None and tags is not None:
            shares = self._soft_targets(self.soft_labels, index, tags)
        return Batch(
            chars=_padded(self.chars, source, *grid),
            lengths=lengths.copy(),
            lattice=Lattice.trusted(lengths, sentence, start[match], end[match], word[match]),
            words=words,
            tags=tags,
            symbols=_padded(self.symbols, source, *grid),
            states=_padded(self.states, source, *grid),
            extra_ids=extra_ids,
            segments=segments,
            counts=counts,
            share=shard,
            shares=shares,
            added=self.added,
        )

    def _soft_targets(self, soft: SoftLabels, index: Ints, tags: Ints) -> npt.NDArray[np.float32]:
        """[B, T, K]: the soft labels where a character has some; else 1 for its tag."""
        shares = np.zeros((*tags.shape, soft.tags), dtype=np.float32)
        row, column = cells(self.lengths[index])
        shares[row, column, tags[row, column]] = 1.0
        row, nth = cells(soft.counts[index])
        entry = first_places(soft.counts)[index][row] + nth
        place = soft.place[entry]
        shares[row, place] = 0.0
        shares[row, place, soft.tag[entry]] = soft.share[entry]
        return shares

    def _shard(self, index: Ints, rows: Ints, sentence: Ints) -> BatchShard:
        """Describe the sentences at `rows`. `sentence` is the sentence of each lattice word."""
        of_word = sentence if self.segments is None else cells(self.segments.counts[index])[0]
        # A process without sentences computes the first one: gradients need a forward pass.
        taken = rows if len(rows) else np.zeros(1, dtype=np.int64)
        return BatchShard(
            rows=taken,
            word_rows=np.flatnonzero(np.isin(of_word, taken)),
            sentences=len(index),
            words=len(of_word),
            characters=int(self.lengths[index].max()),
            units=0 if self.segments is None else int(self.units[index].max()),
            counts=len(rows) > 0,
        )

    def in_characters(self, spans: FlatSpans) -> FlatSpans:
        """Return spans over tags as spans over the characters of the original texts."""
        if self.offsets is not None:
            first = self.first[spans.text]
            start = self.offsets[first + spans.start]
            # The offset of the last character plus 1: removed white space may follow it.
            end = self.offsets[first + spans.end - 1] + 1
            return spans._replace(start=start, end=end)
        if self.segments is None:
            return spans
        first = self.first_unit[spans.text]
        start = self.segments.start[first + spans.start]
        end = self.segments.end[first + spans.end - 1]
        return spans._replace(start=start, end=end)


def first_places(counts: Ints) -> Ints:
    """Return where each of several consecutive runs begins, given their lengths."""
    return np.cumsum(counts) - counts


def _padded(values: Values | None, source: Ints, target: Ints, B: int, T: int) -> Any:
    """[B, T], or [B, T, S] from rows: `values[source]` at `target`, 0 elsewhere; None from None."""
    if values is None:
        return None
    table = np.zeros((B * T, *values.shape[1:]), dtype=values.dtype)
    table[target] = values[source]
    return table.reshape(B, T, *values.shape[1:])
