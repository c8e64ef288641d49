"""From examples to spans, candidates and readings: batches of similar length, results in the order
of the examples.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hanlattice.evaluation.platt import Curves
from hanlattice.features import Batch, Examples, Indexer
from hanlattice.features.batches import first_places
from hanlattice.features.buckets import decoding_batches
from hanlattice.features.indexer import Places, chosen
from hanlattice.inference.crf import on_host
from hanlattice.inference.dictionary_crf import (
    ARCS_MOST,
    DictionaryCRF,
    arc_counts,
    with_dictionary,
)
from hanlattice.inference.span_search import Candidates, best_spans, candidates, decoded_span_scores
from hanlattice.inference.threshold import Threshold
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.rules import Rulings
from hanlattice.text.span import Span
from hanlattice.text.tags import FlatSpans

# Characters that a model reads at once, and no word is longer; longer texts are cut at sentence
# ends.
LIMIT = 512
# Sentences, and characters with padding, in a batch: large enough to be quick, and bounded whatever
# the sentences are.
BOUNDS = {"cpu": (128, 8192), "cuda": (1024, 65536)}
# Words of the lattice for each character of such a batch. Texts have one to three; a dictionary of
# words inside words
# can make hundreds, and then fewer sentences are read at once.
WORDS_PER_CHARACTER = 8


class Decodable(Protocol):
    """A tagger of arrays or of torch, as decoding sees it: emissions, and a CRF that reads them."""

    @property
    def device_kind(self) -> str: ...

    @property
    def crf(self) -> Any: ...

    @property
    def curves(self) -> Curves | None: ...

    def batch(self, examples: Examples, places: Ints) -> Batch: ...

    def constrained_emissions(self, batch: Batch, own: Places | None, trust: float) -> Any: ...


class Decoded(NamedTuple):
    """Spans, sentence by sentence and from left to right, and their probabilities; without
    `scores`, NaN.
    """

    spans: FlatSpans
    scores: npt.NDArray[np.float64]

    def at_least(self, score: float) -> Decoded:
        """Without the spans that are less probable."""
        high = self.scores >= score
        return Decoded(FlatSpans(*(array[high] for array in self.spans)), self.scores[high])

    def moved(self, text: Ints, by: Ints) -> Decoded:
        """Spans of pieces as spans of whole texts: piece p begins at character `by[p]` of
        `text[p]`.
        """
        piece, start, end, label = self.spans
        return Decoded(
            FlatSpans(text[piece], start + by[piece], end + by[piece], label), self.scores
        )


class Reading(NamedTuple):
    """All spans of one way to tag a text, and the logarithm of its probability."""

    log_probability: float
    spans: tuple[Span, ...]


def make_spans(
    found: Decoded, texts: Sequence[str], labels: Sequence[str], scores: bool = True
) -> list[list[Span]]:
    """The only place where flat arrays become spans: a list for each text. Give empty texts where
    none are needed.
    """
    rows: list[list[Span]] = [[] for _ in texts]
    columns = [array.tolist() for array in found.spans]
    values = found.scores.tolist() if scores else [None] * len(columns[0])
    for at, start, end, label, score in zip(*columns, values, strict=True):
        rows[at].append(Span(start, end, labels[label], score, texts[at][start:end]))
    return rows


def decode(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    scores: bool = False,
    trust: float = 0.0,
    threshold: Threshold = None,
) -> list[list[Span]]:
    """The spans of each sentence; with `scores`, each with its probability. The model must be in
    evaluation mode.
    """
    found = find_spans(tagger, indexer, examples, scores, trust, threshold)
    return make_spans(found, [""] * len(examples), examples.labels, scores)


def find_spans(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    scores: bool = False,
    trust: float = 0.0,
    threshold: Threshold = None,
) -> Decoded:
    """`decode`, as flat arrays. A user's words score `trust` more: for a segmenter each of their
    tags, else those that have a label and no number of their own, as spans with it.

    Without `bar` they are the spans of the best tagging, with it the best set of spans above it.
    """
    parts = [each.read(scores) for each in running(tagger, indexer, examples, trust, threshold)]
    return _in_order(parts, examples)


def tag_probabilities(
    tagger: Decodable, indexer: Indexer, examples: Examples
) -> npt.NDArray[np.float64]:
    """[N, K]: of each tag at each unit, sentence by sentence."""
    found = np.zeros((int(examples.units.sum()), len(indexer.tags)))
    first = first_places(examples.units)
    for batch in running(tagger, indexer, examples, 0.0, threshold=0.0):
        sentence, nth = cells(batch.units)
        found[first[batch.places][sentence] + nth] = batch.probabilities()[sentence, nth]
    return found


def find_candidates(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    n: int,
    min_score: float = 0.0,
    trust: float = 0.0,
    threshold: Threshold = None,
) -> tuple[Decoded, Decoded]:
    """The result of `find_spans`, with scores, and the n most probable spans of each sentence, the
    best first.
    """
    spans = []
    candidates = []
    for each in running(tagger, indexer, examples, trust, threshold):
        spans.append(each.read(True))
        candidates.append(each.candidates(n, min_score))
    return _in_order(spans, examples), _in_order(candidates, examples)


def find_readings(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    texts: Sequence[str],
    n: int,
    trust: float = 0.0,
) -> list[list[Reading]]:
    """The n best readings of each sentence, the best first; fewer where there are fewer. `texts`
    are the sentences.
    """
    found = [
        [Reading(0.0, ())] for _ in range(len(examples))
    ]  # the one reading of an empty sentence
    for batch in running(tagger, indexer, examples, trust):
        flat, log_probability = batch.readings(n)
        places = np.repeat(batch.places, n)
        flat = examples.in_characters(flat._replace(text=places[flat.text]))._replace(
            text=flat.text
        )
        each = [texts[at] for at in places.tolist()]
        spans = make_spans(Decoded(flat, np.empty(0)), each, examples.labels, scores=False)
        readings = [Reading(*pair) for pair in zip(log_probability, map(tuple, spans), strict=True)]
        for nth, place in enumerate(batch.places.tolist()):
            row = readings[nth * n : (nth + 1) * n]
            found[place] = [reading for reading in row if reading.log_probability > -np.inf]
    return found


def join_readings(pieces: Iterable[tuple[int, list[Reading]]], n: int) -> list[Reading]:
    """The n best readings of a text from those of its independent pieces, which begin at these
    offsets.
    """
    best = [Reading(0.0, ())]
    for offset, row in pieces:
        moved = [
            Reading(each.log_probability, tuple(span.shifted(offset) for span in each.spans))
            for each in row
        ]
        pairs = (
            Reading(left[0] + right[0], left[1] + right[1]) for left in best for right in moved
        )
        best = heapq.nlargest(n, pairs, key=lambda reading: reading.log_probability)
    return best


def running(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    trust: float,
    threshold: Threshold = None,
) -> Iterator[DecodingBatch]:
    """The sentences in batches. Each is yielded when the next has started, so that a GPU is busy
    while it is read.

    Those of which a dictionary says something have batches of their own.
    """
    most, characters = BOUNDS[tagger.device_kind]
    full = examples.lengths > 0
    ruled = examples.is_ruled
    weights = examples.matches.counts / (WORDS_PER_CHARACTER * characters)
    if examples.rulings is not None:
        weights = (
            weights
            + arc_counts(examples.rulings, len(examples), len(indexer.tag_ids.labels)) / ARCS_MOST
        )
    before: DecodingBatch | None = None
    batches = (
        kind[at]
        for kind in (np.flatnonzero(full & ~ruled), np.flatnonzero(full & ruled))
        for at in decoding_batches(examples.lengths[kind].tolist(), most, characters, weights[kind])
    )
    for places in batches:
        batch = DecodingBatch(tagger, indexer, examples, places, trust, threshold)
        if before is not None:
            yield before
        before = batch
    if before is not None:
        yield before


class DecodingBatch:
    """A batch whose emissions, and without `bar` whose best tags, are being computed."""

    def __init__(
        self,
        tagger: Decodable,
        indexer: Indexer,
        examples: Examples,
        places: Ints,
        trust: float,
        threshold: Threshold = None,
    ) -> None:
        batch = tagger.batch(examples, places)
        self.crf = tagger.crf
        self.places, self.units, self.there = places, examples.units[places], batch.units
        self.threshold = threshold
        self.curves = tagger.curves
        own = chosen(batch.lattice, examples.own) if trust and indexer.cuts else None
        self.emissions = tagger.constrained_emissions(batch, own, trust)
        self.tag_ids = indexer.tag_ids
        if rulings := examples.rulings_at(places):
            self._rule(rulings, examples.labels, trust)
        if threshold is None:
            self.tags: Callable[[], Ints] = self.crf.decoding(self.emissions, self.there)

    def _rule(self, rulings: Rulings, labels: Sequence[str], trust: float) -> None:
        """From here on with a CRF that knows what the dictionary says, on the CPU."""
        given = self.crf, self.emissions, self.units, rulings, self.tag_ids
        self.crf, self.emissions = with_dictionary(*given, labels, trust)
        self.there = self.units
        self.tag_ids = self.crf.tag_ids

    def _labels(self, label: Ints) -> Ints:
        """The indexer's numbers of labels, from those of `tag_ids`."""
        return self.crf.label_numbers[label] if isinstance(self.crf, DictionaryCRF) else label

    def read(self, scores: bool) -> tuple[FlatSpans, Any]:
        """Wait for the tags; the spans, counted in tags, and their scores, which a GPU may still be
        computing.

        The sentence of a span is its place among all examples.
        """
        if self.threshold is not None:
            found = best_spans(self.crf, self.emissions, self.there, self.threshold)
            return self._flat(found._replace(score=self.calibrated(found.label, found.score)))
        tags = self.tags()
        spans = self._spans(tags, self.units)
        values: Any = np.full(len(spans.text), np.nan)
        if scores:
            values = decoded_span_scores(self.crf, self.emissions, self.there, tags, *spans[:3])
            values = self.calibrated(spans.label, values)
        return spans._replace(text=self.places[spans.text]), values

    def _spans(self, tags: npt.NDArray[np.integer], lengths: Ints) -> FlatSpans:
        """Of padded tags, [rows, T]."""
        spans = self.tag_ids.spans(tags[np.arange(tags.shape[1]) < lengths[:, None]], lengths)
        return spans._replace(label=self._labels(spans.label))

    def candidates(self, n: int, min_score: float) -> tuple[FlatSpans, Any]:
        """The n most probable spans of each sentence, in the same form."""
        given = self.crf, self.emissions, self.there
        if self.curves is None:
            return self._flat(candidates(*given, n, min_score))
        every = candidates(*given, n, self.curves.lowest(min_score), each_label=True)
        return self._flat(
            every._replace(score=self.calibrated(every.label, every.score)).best(n, min_score)
        )

    def calibrated(self, label: Ints, scores: Any) -> Any:
        """The scores of spans with these labels, from their probabilities."""
        return scores if self.curves is None else self.curves(label, scores)

    def probabilities(self) -> npt.NDArray[np.float64]:
        """[B, T, K]: of each tag."""
        marginals: npt.NDArray[np.float64] = on_host(self.crf.marginals(self.emissions, self.there))
        return marginals

    def new_label_scores(self) -> dict[tuple[int, Span], float]:
        """The probabilities of the spans that a label which is new to the model may have, by place
        in the batch.
        """
        if not isinstance(self.crf, DictionaryCRF):
            return {}
        *columns, log = self.crf.whole_spans(self.emissions, self.units)
        label = columns[-1]
        scores = self.calibrated(self._labels(label), np.exp(log))
        names = self.tag_ids.labels
        rows = zip(*(column.tolist() for column in columns), scores.tolist(), strict=True)
        return {
            (at, Span(low, high, names[label])): chance for at, low, high, label, chance in rows
        }

    def _flat(self, found: Candidates) -> tuple[FlatSpans, Any]:
        label = self._labels(found.label)
        return FlatSpans(self.places[found.sentence], found.start, found.end, label), found.score

    def readings(self, n: int) -> tuple[FlatSpans, list[float]]:
        """The spans of the n best taggings of each sentence, each counted as a text, and their log
        probabilities.
        """
        tags, log_probability = self.crf.readings(self.emissions, self.there, n)
        spans = self._spans(tags.reshape(-1, tags.shape[2]), np.repeat(self.units, n))
        numbers: list[float] = log_probability.ravel().tolist()
        return spans, numbers


def _in_order(parts: list[tuple[FlatSpans, Any]], examples: Examples) -> Decoded:
    """The spans of all batches, by sentence, counted in characters."""
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return Decoded(FlatSpans(nothing, nothing, nothing, nothing), np.empty(0))
    spans = [np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)]
    scores = _joined([values for _, values in parts])
    order = np.argsort(spans[0], kind="stable")
    return Decoded(
        examples.in_characters(FlatSpans(*(array[order] for array in spans))), scores[order]
    )


def _joined(parts: list[Any]) -> npt.NDArray[np.float64]:
    """The scores of all batches, arrays or tensors."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    import torch

    tensors = [part for part in parts if not isinstance(part, np.ndarray)]
    there = torch.cat(tensors).cpu().numpy()  # the one wait for all of them
    arrays = iter(np.split(there, np.cumsum([len(part) for part in tensors])[:-1]))
    return np.concatenate(
        [part if isinstance(part, np.ndarray) else next(arrays) for part in parts]
    )
