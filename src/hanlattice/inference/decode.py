"""Decode examples into spans, candidates and readings, in batches of similar length."""

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
from hanlattice.text.span import Span
from hanlattice.text.tags import FlatSpans

# The most characters that a model reads at once, and so of a word. Longer texts are cut at sentence
# ends.
LIMIT = 512
# The most sentences, and characters with padding, of a batch: enough to be fast, in bounded memory.
BOUNDS = {"cpu": (128, 8192), "cuda": (1024, 65536)}
# The most lattice words of a batch, per character. Texts have one to three. A dictionary of words
# inside words can give hundreds; then a batch has fewer sentences.
WORDS_PER_CHARACTER = 8


class Decodable(Protocol):
    """What decoding needs of a tagger, be it NumPy or torch: emissions, and a CRF for them."""

    @property
    def device_kind(self) -> str: ...

    @property
    def crf(self) -> Any: ...

    @property
    def curves(self) -> Curves | None: ...

    def batch(self, examples: Examples, places: Ints) -> Batch: ...

    def constrained_emissions(self, batch: Batch, own: Places | None, trust: float) -> Any: ...


class Decoded(NamedTuple):
    """Spans by sentence, from left to right, with their probabilities, or NaN without `scores`."""

    spans: FlatSpans
    scores: npt.NDArray[np.float64]

    def at_least(self, score: float) -> Decoded:
        """Return only the spans with this probability or more."""
        high = self.scores >= score
        return Decoded(FlatSpans(*(array[high] for array in self.spans)), self.scores[high])

    def moved(self, text: Ints, by: Ints) -> Decoded:
        """Return spans of pieces as spans of texts: piece p starts at `by[p]` in text `text[p]`."""
        piece, start, end, label = self.spans
        spans = FlatSpans(text[piece], start + by[piece], end + by[piece], label)
        return Decoded(spans, self.scores)


class Reading(NamedTuple):
    """All spans of one way to tag a text, and the logarithm of its probability."""

    log_probability: float
    spans: tuple[Span, ...]


def make_spans(
    found: Decoded, texts: Sequence[str], labels: Sequence[str], scores: bool = True
) -> list[list[Span]]:
    """Return a list of Span objects for each text.

    Args:
        found: Flat arrays; `found.spans.text` indexes `texts`.
        texts: The source of `Span.text`. Empty strings do where nobody reads that.
        labels: The names of the label numbers.
        scores: Whether spans get their scores, or None.
    """
    rows: list[list[Span]] = [[] for _ in texts]
    values = found.scores.tolist() if scores else [None] * len(found.spans.text)
    # Python lists: reading single elements of NumPy arrays is several times slower.
    text, start, end, label = map(np.ndarray.tolist, found.spans)
    for row, low, high, number, score in zip(text, start, end, label, values, strict=True):
        rows[row].append(Span(low, high, labels[number], score, texts[row][low:high]))
    return rows


def decode(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    scores: bool = False,
    trust: float = 0.0,
    threshold: Threshold = None,
) -> list[list[Span]]:
    """Return the spans of each sentence, without their text. The arguments are `find_spans`'s."""
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
    """Find the spans of sentences.

    Args:
        tagger: In evaluation mode, if it is a torch module.
        indexer: The one that read the examples.
        examples: The sentences.
        scores: Whether to compute the probability of each span.
        trust: The bonus of a user's words. In a segmenter, it raises each of their tags; otherwise,
            whole spans of words that have a label and no trust of their own.
        threshold: None finds the spans of the best tagging. A number finds the best set of spans
            whose scores exceed it.
    """
    batches = running(tagger, indexer, examples, trust, threshold)
    return _in_order([batch.read(scores) for batch in batches], examples)


def tag_probabilities(
    tagger: Decodable, indexer: Indexer, examples: Examples
) -> npt.NDArray[np.float64]:
    """[N, K]: return the probability of each tag at each unit, sentence by sentence."""
    chances = np.zeros((int(examples.units.sum()), len(indexer.tags)))
    first = first_places(examples.units)
    # A threshold skips the search for the best tagging.
    for batch in running(tagger, indexer, examples, 0.0, threshold=0.0):
        sentence, nth = cells(batch.units)
        chances[first[batch.places][sentence] + nth] = batch.probabilities()[sentence, nth]
    return chances


def find_candidates(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    n: int,
    min_score: float = 0.0,
    trust: float = 0.0,
    threshold: Threshold = None,
) -> tuple[Decoded, Decoded]:
    """Return the spans of `find_spans` with scores, and the n likeliest spans of each sentence.

    Candidates may overlap. They come best first, without those below `min_score`.
    """
    spans = []
    candidates = []
    for batch in running(tagger, indexer, examples, trust, threshold):
        spans.append(batch.read(True))
        candidates.append(batch.candidates(n, min_score))
    return _in_order(spans, examples), _in_order(candidates, examples)


def find_readings(
    tagger: Decodable,
    indexer: Indexer,
    examples: Examples,
    texts: Sequence[str],
    n: int,
    trust: float = 0.0,
) -> list[list[Reading]]:
    """Return up to n best readings of each sentence, best first. `texts` are the sentences."""
    # An empty sentence is in no batch, and has one reading.
    rows = [[Reading(0.0, ())] for _ in range(len(examples))]
    for batch in running(tagger, indexer, examples, trust):
        flat, log_probability = batch.readings(n)
        places = np.repeat(batch.places, n)
        # `in_characters` needs the number of the sentence, `make_spans` that of the reading.
        moved = examples.in_characters(flat._replace(text=places[flat.text]))
        decoded = Decoded(moved._replace(text=flat.text), np.full(len(flat.text), np.nan))
        repeated = [texts[place] for place in places.tolist()]
        spans = make_spans(decoded, repeated, examples.labels, scores=False)
        readings = [Reading(*pair) for pair in zip(log_probability, map(tuple, spans), strict=True)]
        for nth, place in enumerate(batch.places.tolist()):
            row = readings[nth * n : (nth + 1) * n]
            rows[place] = [reading for reading in row if reading.log_probability > -np.inf]
    return rows


def join_readings(pieces: Iterable[tuple[int, list[Reading]]], n: int) -> list[Reading]:
    """Return the n best readings of a text from those of its independent pieces.

    Args:
        pieces: The offset of each piece in the text, and its readings.
        n: The most readings to return.
    """
    best = [Reading(0.0, ())]
    for offset, row in pieces:
        moved = [
            Reading(log_probability, tuple(span.shifted(offset) for span in spans))
            for log_probability, spans in row
        ]
        # Only the n best readings of a part can be in the n best of the whole.
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
    """Yield the sentences in batches, each after the next has started: a GPU never waits.

    Sentences with rulings of a user's dictionary have batches of their own.
    """
    most, characters = BOUNDS[tagger.device_kind]
    full = examples.lengths > 0
    kinds = [np.flatnonzero(full)]
    weights = examples.matches.counts / (WORDS_PER_CHARACTER * characters)
    if examples.rulings is not None:
        ruled = examples.is_ruled
        kinds = [np.flatnonzero(full & ~ruled), np.flatnonzero(full & ruled)]
        arcs = arc_counts(examples.rulings, len(examples), len(indexer.tag_ids.labels))
        weights = weights + arcs / ARCS_MOST
    previous: DecodingBatch | None = None
    for kind in kinds:
        lengths = examples.lengths[kind].tolist()
        for index in decoding_batches(lengths, most, characters, weights[kind]):
            batch = DecodingBatch(tagger, indexer, examples, kind[index], trust, threshold)
            if previous is not None:
                yield previous
            previous = batch
    if previous is not None:
        yield previous


class DecodingBatch:
    """A batch whose emissions are being computed, and without a threshold also its best tags.

    Attributes:
        places: [B], the places of its sentences among all examples.
        units: [B], the number of tags of each sentence, on the host.
        there: The same where the emissions are.
        crf: Decodes `emissions`. With rulings it is a DictionaryCRF on the host.
        tag_ids: The tags that `crf` decodes.
        tags: Waits for the best tags [B, T] and returns them; only without a threshold.
    """

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
        self.places = places
        self.units = examples.units[places]
        self.there = batch.units
        self.threshold = threshold
        self.curves = tagger.curves
        own = None
        if trust and indexer.cuts and examples.own is not None:
            own = chosen(batch.lattice, examples.own)
        self.emissions = tagger.constrained_emissions(batch, own, trust)
        self.tag_ids = indexer.tag_ids
        rulings = None if examples.rulings is None else examples.rulings_at(places)
        if rulings is not None:
            given = self.crf, self.emissions, self.units, rulings, self.tag_ids
            self.crf, self.emissions = with_dictionary(*given, examples.labels, trust)
            self.there = self.units
            self.tag_ids = self.crf.tag_ids
        if threshold is None:
            self.tags: Callable[[], Ints] = self.crf.decoding(self.emissions, self.there)

    def read(self, scores: bool) -> tuple[FlatSpans, Any]:
        """Wait for the tags; return the spans in units, and their scores, perhaps still computing.

        The text of a span is its sentence's place among all examples.
        """
        if self.threshold is not None:
            best = best_spans(self.crf, self.emissions, self.there, self.threshold)
            return self._flat(best._replace(score=self.calibrated(best.label, best.score)))
        tags = self.tags()
        spans = self._spans(tags, self.units)
        values: Any = np.full(len(spans.text), np.nan)
        if scores:
            values = decoded_span_scores(self.crf, self.emissions, self.there, tags, *spans[:3])
            values = self.calibrated(spans.label, values)
        return spans._replace(text=self.places[spans.text]), values

    def _spans(self, tags: npt.NDArray[np.integer], lengths: Ints) -> FlatSpans:
        """Return the spans of padded tags, [rows, T], with the label numbers of the examples."""
        spans = self.tag_ids.spans(tags[np.arange(tags.shape[1]) < lengths[:, None]], lengths)
        if isinstance(self.crf, DictionaryCRF):
            spans = spans._replace(label=self.crf.label_numbers[spans.label])
        return spans

    def candidates(self, n: int, min_score: float) -> tuple[FlatSpans, Any]:
        """Return the n likeliest spans of each sentence, in the form of `read`."""
        given = self.crf, self.emissions, self.there
        if self.curves is None:
            return self._flat(candidates(*given, n, min_score))
        # Calibration can reorder labels, but not spans of one label: search each label.
        spans = candidates(*given, n, self.curves.lowest(min_score), each_label=True)
        spans = spans._replace(score=self.calibrated(spans.label, spans.score))
        return self._flat(spans.best(n, min_score))

    def calibrated(self, label: Ints, scores: Any) -> Any:
        """Return the scores of spans with these labels, given their probabilities."""
        return scores if self.curves is None else self.curves(label, scores)

    def probabilities(self) -> npt.NDArray[np.float64]:
        """[B, T, K]: return the probability of each tag."""
        marginals: npt.NDArray[np.float64] = on_host(self.crf.marginals(self.emissions, self.there))
        return marginals

    def new_label_scores(self) -> dict[tuple[int, Span], float]:
        """Return the scores of all possible spans with a label that only the dictionary has.

        Keys are the row in the batch and the span.
        """
        if not isinstance(self.crf, DictionaryCRF):
            return {}
        *columns, label, log = self.crf.whole_spans(self.emissions, self.units)
        scores = self.calibrated(self.crf.label_numbers[label], np.exp(log))
        names = self.tag_ids.labels
        rows = zip(*(column.tolist() for column in (*columns, label, scores)), strict=True)
        return {(row, Span(low, high, names[k])): chance for row, low, high, k, chance in rows}

    def _flat(self, spans: Candidates) -> tuple[FlatSpans, Any]:
        label = spans.label
        if isinstance(self.crf, DictionaryCRF):
            label = self.crf.label_numbers[label]
        return FlatSpans(self.places[spans.sentence], spans.start, spans.end, label), spans.score

    def readings(self, n: int) -> tuple[FlatSpans, list[float]]:
        """Return the spans of n taggings of each sentence, and [B * n] log probabilities.

        Every tagging counts as a text. Where a sentence has fewer than n, the rest have −∞.
        """
        tags, log_probability = self.crf.readings(self.emissions, self.there, n)
        spans = self._spans(tags.reshape(-1, tags.shape[2]), np.repeat(self.units, n))
        return spans, log_probability.ravel().tolist()


def _in_order(parts: Sequence[tuple[FlatSpans, Any]], examples: Examples) -> Decoded:
    """Concatenate the spans of all batches by sentence, counted in characters."""
    if not parts:
        nothing = np.empty(0, dtype=np.int64)
        return Decoded(FlatSpans(nothing, nothing, nothing, nothing), np.empty(0))
    flat, values = zip(*parts, strict=True)
    if set(map(type, values)) != {np.ndarray}:
        import torch

        # One transfer, and one wait, for the scores of all batches on a GPU.
        tensors = [part for part in values if not isinstance(part, np.ndarray)]
        joined = torch.cat(tensors).cpu().numpy()
        copies = iter(np.split(joined, np.cumsum([len(part) for part in tensors])[:-1]))
        values = tuple(part if isinstance(part, np.ndarray) else next(copies) for part in values)
    text, start, end, label = map(np.concatenate, zip(*flat, strict=True))
    # Batches go by length. The sort is stable: spans of a sentence stay in their order.
    order = np.argsort(text, kind="stable")
    spans = FlatSpans(text[order], start[order], end[order], label[order])
    return Decoded(examples.in_characters(spans), np.concatenate(values)[order])
