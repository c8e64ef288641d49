"""The best ways to tag a whole text, each with its probability."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from hanlattice.batch import Examples, Indexer
from hanlattice.models.decode import Running, running
from hanlattice.models.tagger import Tagger
from hanlattice.text.spans import Span


class Reading(NamedTuple):
    """All spans of one way to tag a text, and the logarithm of its probability."""

    log_probability: float
    spans: tuple[Span, ...]


@torch.no_grad()
def find_readings(
    tagger: Tagger, indexer: Indexer, examples: Examples, n: int, trust: float = 0.0
) -> list[list[Reading]]:
    """The n best readings of each sentence, the best first; fewer where there are fewer."""
    found = [[Reading(0.0, ())] for _ in range(len(examples))]  # all that can be said of nothing
    for batch in running(tagger, indexer, examples, trust):
        for place, row in zip(batch.places.tolist(), _of_batch(batch, indexer, examples, n), strict=True):
            found[place] = row
    return found


def _of_batch(batch: Running, indexer: Indexer, examples: Examples, n: int) -> list[list[Reading]]:
    tags, log_probability = (x.cpu().numpy() for x in batch.crf.readings(batch.emissions, batch.there, n))
    lengths = np.repeat(batch.units, n)  # every reading as if it were a sentence
    inside = np.arange(tags.shape[2]) < lengths[:, None]
    flat = indexer.tag_ids.spans(tags.reshape(len(lengths), -1)[inside], lengths)
    edges = np.searchsorted(flat.text, np.arange(len(lengths) + 1))
    flat = examples.in_characters(flat._replace(text=batch.places[flat.text // n]))
    names = indexer.tag_ids.labels
    columns = (flat.start.tolist(), flat.end.tolist(), flat.label.tolist())
    spans = [Span(start, end, names[label]) for start, end, label in zip(*columns, strict=True)]
    readings = [
        Reading(value, tuple(spans[low:high]))
        for value, (low, high) in zip(log_probability.ravel().tolist(), pairwise(edges.tolist()), strict=True)
    ]
    rows = [readings[at : at + n] for at in range(0, len(readings), n)]
    return [[reading for reading in row if reading.log_probability > -np.inf] for row in rows]


def joined(pieces: Iterable[tuple[int, list[Reading]]], n: int) -> list[Reading]:
    """The n best readings of a text from those of its pieces, which begin at offsets and know nothing of each other."""
    best = [Reading(0.0, ())]
    for offset, row in pieces:
        moved = [Reading(each.log_probability, tuple(span.shifted(offset) for span in each.spans)) for each in row]
        pairs = (Reading(left[0] + right[0], left[1] + right[1]) for left in best for right in moved)
        best = heapq.nlargest(n, pairs, key=lambda reading: reading.log_probability)
    return best
