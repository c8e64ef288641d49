"""The probabilities of spans, the most probable spans, and the best set of spans.

A span is exactly these characters with exactly this label, whatever surrounds it. Its probability
is exact, and the search finds the best spans without scoring every span.

The CRF may be a NumpyCRF, or the CRF of `nn` with tensors. The search itself runs on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import reduce
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.errors import TagError
from hanlattice.inference.crf import TagRules, on_host
from hanlattice.inference.dictionary_crf import DictionaryCRF, OpenSpans, WholeSpans
from hanlattice.ops.crf import TaggedSpans
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.span import Span
from hanlattice.text.tags import labels_of, spans_to_tags

# A smaller probability counts as zero, so that no forbidden span is found.
SMALLEST = 1e-300
# Logarithms of one probability that were computed in two ways differ by less than this.
SLACK = 1e-6
# Tags, and pairs of tags, whose probabilities are computed at once.
AT_ONCE = 1 << 19
Floats = npt.NDArray[np.float64]
# A NumPy array, or a tensor.
Values = Any


class Chains(NamedTuple):
    """Log probabilities of the tags of spans, [N, X]: for N characters of all sentences, X labels.

    Tags are a Markov chain: a sequence is as probable as its first tag, times each next tag given
    the tag before it.
    """

    alone: Floats  # a span of this one character
    first: Floats  # the first tag of a longer span
    first_inside: Floats  # next comes a tag inside the span, given `first`
    first_last: Floats  # next comes the last tag, and the span ends, given `first`
    inside_inside: Floats  # next comes a tag inside, given a tag inside
    inside_last: Floats  # next comes the last tag, and the span ends, given a tag inside


class FoundSpans(NamedTuple):
    """Spans, all [S]."""

    sentence: Ints
    cell: Ints  # the first character, counted over all sentences
    long: Ints  # the number of characters
    label: Ints
    log_probability: Floats

    def at(self, chosen: npt.NDArray[np.bool_] | Ints) -> FoundSpans:
        """Return the chosen spans."""
        sentence, cell, long, label, log_probability = self
        return FoundSpans(
            sentence[chosen], cell[chosen], long[chosen], label[chosen], log_probability[chosen]
        )


def search(
    chains: Chains,
    lengths: Ints,
    n: int,
    floor: float,
    known: FoundSpans | None = None,
    open_spans: FoundSpans | None = None,
) -> FoundSpans:
    """Return the n most probable spans of each sentence, in any order.

    Spans grow by one character at a time from every place. No span is more probable than the tags
    that it begins with, so a beginning below the n-th best span so far is given up.

    Args:
        floor: The lowest log probability of a span.
        known: Spans outside the chains, which compete with the others.
        open_spans: Beginnings, up to a character inside their span, that the chains continue.
    """
    cell, label = np.nonzero(np.maximum(chains.alone, chains.first) >= floor - SLACK)
    sentence, nth = cells(lengths)
    room = (lengths[sentence] - nth)[cell]
    first = chains.first[cell, label]
    begun = FoundSpans(sentence[cell], cell, np.ones_like(cell), label, first)
    # What a further span of each sentence must reach.
    floors = np.full(len(lengths), floor)
    alone = begun._replace(log_probability=chains.alone[begun.cell, begun.label])
    best = _above(alone, floors)
    if known is not None:
        best = _together(best, _above(known, floors))
    best, floors = _best(best, floors, n)
    later = begun.at(np.empty(0, dtype=np.int64)) if open_spans is None else open_spans
    last_later = int(later.long.max(initial=0))
    for long in count(2):
        if long - 1 <= last_later:
            joins = later.at(later.long == long - 1)
            begun = _together(begun, joins)
            # The characters from the start of the span to the end of its sentence.
            left = np.cumsum(lengths)[joins.sentence] - joins.cell
            room = np.concatenate([room, left])
        grows = (room >= long) & (begun.log_probability >= floors[begun.sentence] - SLACK)
        begun = begun.at(grows)
        room = room[grows]
        if not len(room) and long > last_later:
            break
        ends = chains.first_last if long == 2 else chains.inside_last
        goes_on = chains.first_inside if long == 2 else chains.inside_inside
        before = begun.cell + long - 2, begun.label
        begun = begun._replace(long=np.full_like(begun.cell, long))
        ended = _above(begun._replace(log_probability=begun.log_probability + ends[before]), floors)
        if len(ended.cell):
            best, floors = _best(_together(best, ended), floors, n)
        begun = begun._replace(log_probability=begun.log_probability + goes_on[before])
    return best


def _together(left: FoundSpans, right: FoundSpans) -> FoundSpans:
    return FoundSpans(*(np.concatenate(pair) for pair in zip(left, right, strict=True)))


def _above(spans: FoundSpans, floors: Floats) -> FoundSpans:
    return spans.at(spans.log_probability >= floors[spans.sentence] - SLACK)


def _best(spans: FoundSpans, floors: Floats, n: int) -> tuple[FoundSpans, Floats]:
    """Return the n best spans of each sentence, and the floors: the n-th best, if there are n."""
    counts = np.bincount(spans.sentence, minlength=len(floors))
    if counts.max(initial=0) < n:
        return spans, floors
    keys = spans.label, spans.long, spans.cell, -spans.log_probability, spans.sentence
    ranked = spans.at(np.lexsort(keys))
    rank = cells(counts)[1]
    lowest = ranked.at(rank == n - 1)
    floors = floors.copy()
    floors[lowest.sentence] = np.maximum(floors[lowest.sentence], lowest.log_probability)
    return ranked.at(rank < n), floors


class Candidates(NamedTuple):
    """Spans [start, end), all [S], sentence by sentence, best first.

    A label is an index of the sorted labels of the CRF's tags.
    """

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    score: Floats

    def at(self, chosen: npt.NDArray[np.bool_] | Ints) -> Candidates:
        """Return the chosen spans."""
        sentence, start, end, label, score = self
        return Candidates(
            sentence[chosen], start[chosen], end[chosen], label[chosen], score[chosen]
        )

    def best(self, n: int, least: float) -> Candidates:
        """Return the n best spans of each sentence, best first, without scores below `least`."""
        kept = self.at(np.lexsort((self.label, self.end, self.start, -self.score, self.sentence)))
        kept = kept.at(kept.score >= max(least, SMALLEST))
        # The index of the first span of each span's sentence.
        first = np.searchsorted(kept.sentence, kept.sentence)
        return kept.at(np.arange(len(first)) - first < n)


def span_scores(
    crf: Any, emissions: Values, lengths: Values, spans: Sequence[Sequence[Span]]
) -> list[list[float]]:
    """Return the probability of each span of each sentence; refuse labels that the CRF lacks."""
    if len(spans) != len(lengths):
        raise ValueError(f"spans for {len(spans)} sentences came with {len(lengths)} lengths")
    flat = [(b, span) for b, row in enumerate(spans) for span in row]
    if not flat:
        return [[] for _ in spans]
    asked = _tagged(crf, flat, on_host(lengths))
    in_order = iter(_probability(crf, emissions, lengths, *asked).tolist())
    return [[next(in_order) for _ in row] for row in spans]


def decoded_span_scores(
    crf: Any, emissions: Values, lengths: Values, tags: Ints, sentence: Ints, start: Ints, end: Ints
) -> Values:
    """[S]: return the probabilities of spans, all [S], in decoded tags [B, T], in float64.

    The result is where the emissions are, perhaps still computing; `tags` and spans are arrays.
    """
    # [S, L] characters; those beyond the end of a span are not read.
    place = start[:, None] + np.arange((end - start).max(initial=1))
    own = tags[sentence[:, None], np.minimum(place, tags.shape[1] - 1)].astype(np.int64)
    return _probability(crf, emissions, lengths, sentence, start, end, own)


def candidates(
    crf: Any,
    emissions: Values,
    lengths: Values,
    n: int,
    min_score: float = 0.0,
    each_label: bool = False,
) -> Candidates:
    """Return the n most probable spans of each sentence, which may overlap.

    Args:
        crf: Decodes emissions [B, T, K] of sentences of `lengths` [B].
        min_score: The lowest probability of a span. Impossible spans are never returned.
        each_label: Return the n best spans of each label, and perhaps more.
    """
    sizes = on_host(lengths).astype(np.int64)
    floor = float(np.log(max(min_score, SMALLEST)))
    chains = _chains(crf, emissions, lengths, sizes, min_score)
    find = _search_each if each_label else search
    of_arcs: tuple[FoundSpans, ...] = ()
    if isinstance(crf, DictionaryCRF):
        of_arcs = _from_arcs(crf, emissions, sizes, chains)
    found = find(chains, sizes, n, floor, *of_arcs)
    start = found.cell - (np.cumsum(sizes) - sizes)[found.sentence]
    score = np.minimum(np.exp(found.log_probability), 1.0)
    every = Candidates(found.sentence, start, start + found.long, found.label, score)
    return every.best(sys.maxsize if each_label else n, min_score)


def _search_each(
    chains: Chains,
    lengths: Ints,
    n: int,
    floor: float,
    known: FoundSpans | None = None,
    open_spans: FoundSpans | None = None,
) -> FoundSpans:
    """`search` for one label after the other."""
    parts = []
    for label in range(chains.alone.shape[1]):
        own = Chains(*(part[:, [label]] for part in chains))
        others = []
        for spans in (known, open_spans):
            if spans is not None:
                # `own` has one label, number 0.
                spans = spans.at(spans.label == label)
                others.append(spans._replace(label=np.zeros_like(spans.label)))
        found = search(own, lengths, n, floor, *others)
        parts.append(found._replace(label=found.label + label))
    if known is not None:
        # Labels that are new to the model have no chain.
        new = known.at(known.label >= chains.alone.shape[1])
        parts.append(_above(new, np.full(len(lengths), floor)))
    return reduce(_together, parts)


def _from_arcs(
    crf: DictionaryCRF, emissions: Floats, sizes: Ints, chains: Chains
) -> tuple[FoundSpans, FoundSpans]:
    """Return the spans that end with an arc, and beginnings that the chains continue.

    The chains then start no span of one character where an arc starts: `known` has that span.
    """
    first = np.cumsum(sizes) - sizes
    whole = crf.whole_spans(emissions, sizes)
    begun = crf.open_spans(emissions, sizes)
    for spans in (whole, begun):
        learnt = spans.label < chains.alone.shape[1]
        cell = first[spans.sentence[learnt]] + spans.start[learnt]
        chains.alone[cell, spans.label[learnt]] = -np.inf

    def located(spans: WholeSpans | OpenSpans, log: Floats) -> FoundSpans:
        cell = first[spans.sentence] + spans.start
        return FoundSpans(spans.sentence, cell, spans.end - spans.start, spans.label, log)

    ended = located(begun, begun.log_probability + begun.log_end)
    known = _together(located(whole, whole.log_probability), ended)
    return known, located(begun, begun.log_probability).at(begun.is_inside)


def best_spans(crf: Any, emissions: Values, lengths: Values, threshold: float) -> Candidates:
    """Return the set of spans without overlap that has the largest sum of score − threshold.

    The spans of a sentence come from left to right, and all scores exceed the threshold. If the
    threshold is half of the resulting F1, no other set has a higher expected F1. That is twice the
    sum of the scores, divided by the number of chosen spans plus the expected number of gold spans.
    """
    found = candidates(crf, emissions, lengths, sys.maxsize, threshold)
    found = found.at(found.score > threshold)
    found = found.at(np.lexsort((found.label, found.start, found.end, found.sentence)))
    sentence, start, end, _, score = found
    # Most sentences have no overlaps, and keep all of their spans.
    overlaps = (sentence[1:] == sentence[:-1]) & (start[1:] < end[:-1])
    unsettled = np.flatnonzero(np.bincount(sentence[1:][overlaps]))
    kept = ~np.isin(sentence, unsettled)
    for low, high in np.searchsorted(sentence, [unsettled, unsettled + 1]).T.tolist():
        kept[low:high] = _apart(start[low:high], end[low:high], score[low:high] - threshold)
    return found.at(kept)


def _apart(start: Ints, end: Ints, weight: Floats) -> list[bool]:
    """Return whether each interval is in the set without overlap that has the largest weight.

    This is weighted interval scheduling, on intervals sorted by their ends.
    """
    # How many intervals end at or before the start of each.
    before = np.searchsorted(end, start, side="right").tolist()
    # best[n] is the largest weight of the first n intervals.
    best = [0.0]
    for compatible, gain in zip(before, weight.tolist(), strict=True):
        best.append(max(best[-1], best[compatible] + gain))
    kept = [False] * len(before)
    n = len(before)
    while n:
        kept[n - 1] = best[n] > best[n - 1]
        n = before[n - 1] if kept[n - 1] else n - 1
    return kept


# The columns are: a span alone, its first tag, a tag inside, and the four pairs of Chains. The rows
# are their tags, as indices of (single, first, inside, last); their number; whether the span ends.
_TAGS = np.array([[0, 0], [1, 1], [2, 2], [1, 2], [1, 3], [2, 2], [2, 3]])
_COUNT = np.array([1, 1, 1, 2, 2, 2, 2])
_ENDS = np.array([True, False, False, False, True, False, True])


def _chains(crf: Any, emissions: Values, lengths: Values, sizes: Ints, min_score: float) -> Chains:
    """Return the log probabilities of one tag, and of two in a row, where spans are possible.

    No span is more probable than any of its tags, so tags below `min_score` need no more.
    """
    rows = []
    for name in labels_of(crf.tags):
        shape = crf.span_tags(name)
        if min(shape) < 0:
            _raise_missing(crf, Span(0, 1 if shape[0] < 0 else 3, name))
        rows.append(shape)
    shapes = np.array(rows, dtype=np.int64).reshape(-1, 4)
    sentence, start = cells(sizes)
    # [N, K]: whether each tag of each character may be in a span of `min_score`.
    likely = np.ones((len(start), len(crf.tags)), dtype=np.bool_)
    if min_score:
        inside = np.arange(emissions.shape[1]) < sizes[:, None]
        marginals = on_host(crf.marginals(emissions, lengths))[inside]
        likely = marginals >= min_score * (1 - SLACK)
    after = np.roll(likely, -1, axis=0) & (start + 1 < sizes[sentence])[:, None]
    cell, label = np.nonzero(likely[:, shapes].any(2))
    now = likely[cell[:, None], shapes[label]]  # [P, 4]
    then = after[cell[:, None], shapes[label]]  # [P, 4]
    possible = now[:, _TAGS[:, 0]] & (then[:, _TAGS[:, 1]] | (_COUNT == 1))  # [P, 7]
    value = np.full(possible.shape, -np.inf)
    row, part = np.nonzero(possible)
    for low in range(0, len(row), AT_ONCE):
        r = row[low : low + AT_ONCE]
        p = part[low : low + AT_ONCE]
        c = cell[r]  # [S]
        tags = shapes[label[r, None], _TAGS[p]]  # [S, 2]
        blocked = crf.goes_on[tags[:, 1]] & _ENDS[p, None]
        spans = TaggedSpans(sentence[c], start[c], start[c] + _COUNT[p], tags, blocked)
        value[r, p] = on_host(crf.log_probability(emissions, lengths, spans))
    # A pair's probability given its first tag: columns 1 and 2 are those first tags.
    for pair, given in ((3, 1), (4, 1), (5, 2), (6, 2)):
        np.subtract(value[:, pair], value[:, given], out=value[:, pair], where=possible[:, pair])
    chains = np.full((len(Chains._fields), len(start), len(shapes)), -np.inf)
    chains[:, cell, label] = np.delete(value, 2, axis=1).T
    return Chains(*chains)


def _probability(
    crf: Any, emissions: Values, lengths: Values, sentence: Ints, start: Ints, end: Ints, tags: Ints
) -> Values:
    """[S]: return the probability of each span, given its tags, in float64."""
    if isinstance(crf, DictionaryCRF):
        log = crf.span_log_probability(emissions, lengths, sentence, start, end, tags)
        return np.minimum(np.exp(log), 1.0)
    last = tags[np.arange(len(tags)), end - start - 1]
    # [S, K]: no tag may follow that would make the span longer.
    blocked = crf.goes_on[last]
    spans = TaggedSpans(sentence, start, end, tags, blocked)
    log = crf.log_probability(emissions, lengths, spans)
    return (
        np.minimum(np.exp(log), 1.0) if isinstance(log, np.ndarray) else log.exp_().clamp_(max=1.0)
    )


def _tagged(
    crf: TagRules, spans: list[tuple[int, Span]], lengths: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the sentences, starts and ends of spans, [S] each, and their tags, [S, L]."""
    labels = {label: number for number, label in enumerate({span.label for _, span in spans})}
    numbers = [(b, span.start, span.end, labels[span.label]) for b, span in spans]
    rows = np.array(numbers, dtype=np.int64)
    sentence, start, end, label = rows.T
    late = end > lengths[sentence]
    if late.any():
        b, low, high = rows[late.argmax(), :3].tolist()
        raise ValueError(
            f"span [{low}, {high}) ends after sentence {b}, which has {lengths[b]} characters"
        )
    shapes = np.array([crf.span_tags(name) for name in labels])  # [labels, 4]
    single, first, inside, last = shapes[label].T[:, :, None]  # each [S, 1]
    long = (end - start)[:, None]
    nth = np.arange(long.max())
    later = np.where(nth == long - 1, last, inside)
    tags = np.where(nth == 0, np.where(long == 1, single, first), later)
    missing = ((tags < 0) & (nth < long)).any(1)
    if missing.any():
        _raise_missing(crf, spans[int(missing.argmax())][1])
    return sentence, start, end, tags


def _raise_missing(crf: TagRules, span: Span) -> None:
    """Raise TagError with the first tag of the span that the CRF lacks."""
    long = span.end - span.start
    tags = spans_to_tags([Span(0, long, span.label)], long, crf.scheme)
    tag = next(tag for tag in tags if tag not in crf.ids)
    raise TagError(f"this CRF has no tag {tag!r}: its tags are {', '.join(crf.tags)}")
