"""Spans of many sentences, in batches of similar length, given back in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.batch import Examples, Indexer
from hanlattice.batch.buckets import decoding_batches
from hanlattice.models.tagger import Tagger
from hanlattice.text.lattice import Ints
from hanlattice.text.spans import Span
from hanlattice.text.tags import FlatSpans, TagIds

# Sentences, and characters with padding, in a batch: large enough to be quick, and bounded whatever the sentences are.
BOUNDS = {"cpu": (128, 8192), "cuda": (1024, 65536)}


class Decoded(NamedTuple):
    """Spans, sentence by sentence and from left to right, and their probabilities; without `scores`, NaN."""

    spans: FlatSpans
    scores: npt.NDArray[np.float64]


def decode(tagger: Tagger, indexer: Indexer, examples: Examples, scores: bool = False) -> list[list[Span]]:
    """The spans of each sentence; with `scores`, each with its probability. The model must be in evaluation mode."""
    found = find_spans(tagger, indexer, examples, scores)
    return rows(found, len(examples), indexer.tag_ids.labels, scores)


def rows_of(found: Decoded, texts: Sequence[str], labels: Sequence[str]) -> list[list[Span]]:
    """Flat spans as lists, one for each text, each span with what stands there."""
    each = zip(texts, rows(found, len(texts), labels), strict=True)
    return [
        [Span(span.start, span.end, span.label, span.score, text[span.start : span.end]) for span in row]
        for text, row in each
    ]


def rows(found: Decoded, count: int, labels: Sequence[str], scores: bool = True) -> list[list[Span]]:
    """Flat spans as lists, one for each of `count` sentences."""
    made: list[list[Span]] = [[] for _ in range(count)]
    columns = [array.tolist() for array in found.spans]
    each = found.scores.tolist() if scores else [None] * len(columns[0])
    for at, start, end, label, score in zip(*columns, each, strict=True):
        made[at].append(Span(start, end, labels[label], score))
    return made


@torch.no_grad()
def find_spans(
    tagger: Tagger, indexer: Indexer, examples: Examples, scores: bool = False, trust: float = 0.0
) -> Decoded:
    """`decode`, as flat arrays.

    With `trust`, every tag that makes a word of the user's own a word of the text scores so much more.
    """
    parts = [each.read(indexer.tag_ids, scores) for each in running(tagger, indexer, examples, trust)]
    return _in_order(parts, examples)


@torch.no_grad()
def find_candidates(
    tagger: Tagger, indexer: Indexer, examples: Examples, n: int, min_score: float = 0.0, trust: float = 0.0
) -> tuple[Decoded, Decoded]:
    """What `find_spans` finds, with scores; and the n most probable spans of each sentence, by falling probability."""
    spans, candidates = [], []
    for each in running(tagger, indexer, examples, trust):
        spans.append(each.read(indexer.tag_ids, True))
        candidates.append(each.candidates(n, min_score))
    return _in_order(spans, examples), _in_order(candidates, examples)


def running(tagger: Tagger, indexer: Indexer, examples: Examples, trust: float) -> Iterator[Running]:
    """The sentences in batches. One is given only when the next is under way: a GPU does not wait while it is read."""
    device = tagger.output.weight.device
    most, characters = BOUNDS[device.type]
    full = np.flatnonzero(examples.lengths)
    before: Running | None = None
    for places in decoding_batches(examples.lengths[full].tolist(), most, characters):
        batch = Running(tagger, indexer, examples, full[places], device, trust)
        if before is not None:
            yield before
        before = batch
    if before is not None:
        yield before


class Running:
    """A batch whose tags are being computed."""

    def __init__(
        self, tagger: Tagger, indexer: Indexer, examples: Examples, places: Ints, device: torch.device, trust: float
    ) -> None:
        batch = examples.batch(places).to(device)
        self.crf, self.places, self.units, self.there = tagger.crf, places, examples.units[places], batch.units
        own = indexer.chosen(batch.lattice) if trust and indexer.cuts else None
        self.emissions = tagger.constrained_emissions(batch, own, trust)
        self.tags = self.crf.decode(self.emissions, batch.units).to(torch.int32).to("cpu", non_blocking=True)
        self.copied = torch.cuda.Event() if self.emissions.is_cuda else None  # type: ignore[no-untyped-call]
        if self.copied is not None:
            self.copied.record(torch.cuda.current_stream(self.emissions.device))  # which need not be the current device

    def read(self, tag_ids: TagIds, scores: bool) -> tuple[FlatSpans, Tensor]:
        """Wait for the tags; the spans, of sentences by their places in the whole, and scores that are under way.

        Starts and ends are counted in tags.
        """
        if self.copied is not None:
            self.copied.synchronize()
        tags = self.tags.numpy()
        inside = np.arange(tags.shape[1]) < self.units[:, None]
        spans = tag_ids.spans(tags[inside], self.units)
        values = torch.full((len(spans.text),), torch.nan, dtype=torch.float64)
        if scores:
            where = (torch.from_numpy(array) for array in (spans.text, spans.start, spans.end))
            values = self.crf.decoded_span_scores(self.emissions, self.there, self.tags, *where)
        return spans._replace(text=self.places[spans.text]), values

    def candidates(self, n: int, min_score: float) -> tuple[FlatSpans, Tensor]:
        """The n most probable spans of each sentence, likewise."""
        found = self.crf.candidates(self.emissions, self.there, n, min_score)
        return FlatSpans(self.places[found.sentence], *found[1:4]), torch.from_numpy(found.score)


def _in_order(parts: list[tuple[FlatSpans, Tensor]], examples: Examples) -> Decoded:
    """The spans of all batches, by sentence, in characters."""
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return Decoded(FlatSpans(nothing, nothing, nothing, nothing), np.empty(0))
    spans = [np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)]
    scores = torch.cat([values for _, values in parts]).cpu().numpy()  # the one wait for all of them
    order = np.argsort(spans[0], kind="stable")
    return Decoded(examples.in_characters(FlatSpans(*(array[order] for array in spans))), scores[order])
