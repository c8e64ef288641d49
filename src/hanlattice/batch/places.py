"""Spans in texts: which of them lie apart from each other, and which have no cut inside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hanlattice.text.arrays import Ints
from hanlattice.text.joints import CUT, SPACED
from hanlattice.text.lexicon import Matches


class Places(NamedTuple):
    """Spans of a batch: [start, end) of a sentence."""

    sentence: Ints
    start: Ints
    end: Ints


def apart(places: Places) -> Places:
    """The spans without those that overlap a longer one, or an equally long one further left."""
    sentence, start, end = places
    taken = np.zeros((int(sentence.max(initial=-1)) + 1, int(end.max(initial=0))), dtype=bool)
    kept = []
    for at in np.lexsort((start, start - end, sentence)).tolist():
        room = taken[sentence[at], start[at] : end[at]]
        if not room.any():
            room[:] = True
            kept.append(at)
    kept.sort()
    return Places(*(array[kept] for array in places))


def within_cuts(matches: Matches, lengths: Ints, gaps: Ints) -> Matches:
    """The matches without those that have a CUT inside, or that some SPACED gap parts and another does not."""
    text = np.repeat(np.arange(len(lengths)), matches.counts)
    first = (np.cumsum(lengths) - lengths)[text]
    counted = np.cumsum([gaps == CUT, gaps == SPACED], axis=1)
    cuts, spaced = counted[:, first + matches.end - 1] - counted[:, first + matches.start]
    stays = (cuts == 0) & ((spaced == 0) | (spaced == matches.end - matches.start - 1))
    counts = np.bincount(text[stays], minlength=len(lengths))
    return Matches(counts, *(column[stays] for column in matches[1:]))
