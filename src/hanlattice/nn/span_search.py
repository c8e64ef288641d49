"""The most probable spans of sentences, whether or not one tagging contains them all, without scoring every span."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.lattice import Ints, cells

Floats = npt.NDArray[np.float64]
SLACK = 1e-6  # logarithms of one probability, come to in two ways, are nearer to each other than this


class Chains(NamedTuple):
    """What a CRF says of the tags of spans, each [N, X]: for every character of all sentences, and every label.

    All are logarithms. Tags are a Markov chain: several are as probable as the first, times every next one given the
    one before.
    """

    alone: Floats  # the probability that a span of this one character is here
    first: Floats  # that the first tag of a longer one is
    first_inside: Floats  # given that, the probability that a tag inside comes next
    first_last: Floats  # or the last one, with nothing after it that would make the span longer
    inside_inside: Floats  # the same two, given a tag inside
    inside_last: Floats


class FoundSpans(NamedTuple):
    """Spans, all [S]: of a sentence, `long` characters from a cell on, which is a character's place in the whole."""

    sentence: Ints
    cell: Ints
    long: Ints
    label: Ints
    log_probability: Floats

    def at(self, chosen: npt.NDArray[np.bool_] | Ints) -> FoundSpans:
        sentence, cell, long, label, log_probability = self
        return FoundSpans(sentence[chosen], cell[chosen], long[chosen], label[chosen], log_probability[chosen])


def search(chains: Chains, lengths: Ints, n: int, floor: float) -> FoundSpans:
    """The n most probable spans of each sentence, of those whose log probability is `floor` or more, in any order.

    Spans grow by a character at a time from every place. None is more probable than the tags that it begins with, so
    a beginning below the n-th best span found so far is given up.
    """
    begun, room = _beginnings(chains, lengths)
    bars = np.full(len(lengths), floor)
    alone = begun._replace(log_probability=chains.alone.ravel())
    best, bars = _best(_above(alone, bars), bars, n)
    for long in count(2):
        grows = (room >= long) & (begun.log_probability >= bars[begun.sentence] - SLACK)
        begun, room = begun.at(grows), room[grows]
        if not len(room):
            break
        ends, goes_on = (
            (chains.first_last, chains.first_inside) if long == 2 else (chains.inside_last, chains.inside_inside)
        )
        before = begun.cell + long - 2, begun.label
        begun = begun._replace(long=np.full_like(begun.cell, long))
        ended = _above(begun._replace(log_probability=begun.log_probability + ends[before]), bars)
        if len(ended.cell):
            best, bars = _best(_together(best, ended), bars, n)
        begun = begun._replace(log_probability=begun.log_probability + goes_on[before])
    return best


def _beginnings(chains: Chains, lengths: Ints) -> tuple[FoundSpans, Ints]:
    """The first tag of a span at every place, with every label; and how long a span from there can be."""
    N, X = chains.first.shape
    sentence, nth = cells(lengths)
    long, label = np.ones(N * X, dtype=np.int64), np.tile(np.arange(X), N)
    begun = FoundSpans(np.repeat(sentence, X), np.repeat(np.arange(N), X), long, label, chains.first.ravel())
    return begun, np.repeat(lengths[sentence] - nth, X)


def _together(left: FoundSpans, right: FoundSpans) -> FoundSpans:
    sentence, cell, long, label = (np.concatenate(pair) for pair in zip(left[:4], right[:4], strict=True))
    return FoundSpans(sentence, cell, long, label, np.concatenate([left.log_probability, right.log_probability]))


def _above(spans: FoundSpans, bars: Floats) -> FoundSpans:
    return spans.at(spans.log_probability >= bars[spans.sentence] - SLACK)


def _best(spans: FoundSpans, bars: Floats, n: int) -> tuple[FoundSpans, Floats]:
    """The n best of each sentence; and what a further one must reach, which is the n-th best if there are so many."""
    counts = np.bincount(spans.sentence, minlength=len(bars))
    if counts.max(initial=0) < n:
        return spans, bars
    order = np.lexsort((spans.label, spans.long, spans.cell, -spans.log_probability, spans.sentence))
    ranked, rank = spans.at(order), cells(counts)[1]
    lowest = ranked.at(rank == n - 1)
    bars = bars.copy()
    bars[lowest.sentence] = np.maximum(bars[lowest.sentence], lowest.log_probability)
    return ranked.at(rank < n), bars
