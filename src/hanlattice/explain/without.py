"""What each word of a lattice does: the text is read once more for every word, each time without that one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hanlattice.batch import Examples
from hanlattice.explain.values import Without
from hanlattice.models.checkpoint import Model
from hanlattice.models.decode import BOUNDS, Decoded, Running, rows_of
from hanlattice.text.lattice import Ints
from hanlattice.text.lexicon import Matches
from hanlattice.text.spans import Span
from hanlattice.text.tags import FlatSpans


def without_each(model: Model, text: str, examples: Examples, found: FlatSpans, trust: float) -> tuple[Without, ...]:
    """For each word of one text, in the lattice's order. `found` are its spans, counted in characters that are read.

    As many are read at a time as a batch may have, so that memory stays bounded.
    """
    tagger, names = model.tagger, model.indexer.tag_ids.labels
    device = tagger.output.weight.device
    columns = (array.tolist() for array in found[1:])
    asked = [Span(start, end, names[label]) for start, end, label in zip(*columns, strict=True)]
    made: list[Without] = []
    for words in _turns(examples, *BOUNDS[device.type]):
        fewer = _without(examples, words)
        running = Running(tagger, model.indexer, fewer, np.arange(len(words)), device, trust)
        spans, scores = running.read(model.indexer.tag_ids, True)
        there = rows_of(Decoded(fewer.in_characters(spans), scores.cpu().numpy()), [text] * len(words), names)
        chances = tagger.crf.span_scores(running.emissions, running.there, [asked] * len(words))
        made += (Without(0, tuple(each), tuple(row)) for each, row in zip(chances, there, strict=True))
    return tuple(made)


def _turns(examples: Examples, most: int, characters: int) -> Iterator[Ints]:
    """The places of the words, as many at a time as a batch may have sentences."""
    count, size = int(examples.matches.counts[0]), max(1, min(most, characters // max(1, int(examples.lengths[0]))))
    return (np.arange(low, min(low + size, count)) for low in range(0, count, size))


def _without(examples: Examples, words: Ints) -> Examples:
    """The one text, once for each of these words, and without it."""
    times = len(words)
    counts, *columns = examples.matches
    stays = np.arange(counts[0]) != words[:, None]  # [times, W]
    fewer = Matches(np.repeat(counts - 1, times), *(np.tile(column, (times, 1))[stays] for column in columns))
    return replace(
        examples,
        lengths=np.repeat(examples.lengths, times),
        chars=np.tile(examples.chars, times),
        matches=fewer,
        symbols=None if examples.symbols is None else np.tile(examples.symbols, times),
        states=None if examples.states is None else np.tile(examples.states, (times, 1)),
        extra_ids={name: np.tile(numbers, times) for name, numbers in examples.extra_ids.items()},
        offsets=None if examples.offsets is None else np.tile(examples.offsets, times),
    )
