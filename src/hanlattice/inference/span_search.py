"""Spans and their probabilities: of spans that are given, of those decoded, the most probable of
all, the best set.

The probability of a span is exact: of exactly these characters with this label, whatever surrounds
them. The search finds the best without scoring every span.

The CRF may be the runtime's, or that of `nn` with tensors: what follows from its probabilities is
found on the CPU.
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

SMALLEST = 1e-300  # a smaller probability counts as zero: a forbidden span must not be found
Floats = npt.NDArray[np.float64]
SLACK = (
    1e-6  # logarithms of one probability, come to in two ways, are nearer to each other than this
)
Values = Any  # an array of numpy, or a tensor
AT_ONCE = 1 << 19  # tags and pairs of tags whose probabilities are computed at once


class Chains(NamedTuple):
    """What a CRF says of the tags of spans, each [N, X]: for every character of all sentences, and
    every label.

    All are logarithms. Tags are a Markov chain: several are as probable as the first, times every
    next one given the one before.
    """

    alone: Floats  # the probability that a span of this one character is here
    first: Floats  # that the first tag of a longer one is
    first_inside: Floats  # given that, the probability that a tag inside comes next
    first_last: Floats  # or the last one, with nothing after it that would make the span longer
    inside_inside: Floats  # the same two, given a tag inside
    inside_last: Floats


class FoundSpans(NamedTuple):
    """Spans, all [S]: of a sentence, `long` characters from a cell on, which is a character's place
    in the whole.
    """

    sentence: Ints
    cell: Ints
    long: Ints
    label: Ints
    log_probability: Floats

    def at(self, chosen: npt.NDArray[np.bool_] | Ints) -> FoundSpans:
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
    """The n most probable spans of each sentence, of those whose log probability is `floor` or
    more, in any order.

    Spans grow by a character at a time from every place. None is more probable than the tags that
    it begins with, so a beginning below the n-th best span found so far is given up.

    Args:
        known: Spans that the chains do not make, to be found among the others.
        open_spans: Beginnings that the chains do not make either, whose last character is inside a
            span.
    """
    begun, room = _beginnings(chains, lengths, floor)
    bars = np.full(len(lengths), floor)
    alone = begun._replace(log_probability=chains.alone[begun.cell, begun.label])
    best = _above(alone, bars)
    if known is not None:
        best = _together(best, _above(known, bars))
    best, bars = _best(best, bars, n)
    later = begun.at(np.empty(0, dtype=np.int64)) if open_spans is None else open_spans
    last_later = int(later.long.max(initial=0))
    for long in count(2):
        if long - 1 <= last_later:
            joins = later.at(later.long == long - 1)
            begun = _together(begun, joins)
            room = np.concatenate([room, _room(lengths, joins)])
        grows = (room >= long) & (begun.log_probability >= bars[begun.sentence] - SLACK)
        begun = begun.at(grows)
        room = room[grows]
        if not len(room) and long > last_later:
            break
        ends, goes_on = (
            (chains.first_last, chains.first_inside)
            if long == 2
            else (chains.inside_last, chains.inside_inside)
        )
        before = begun.cell + long - 2, begun.label
        begun = begun._replace(long=np.full_like(begun.cell, long))
        ended = _above(begun._replace(log_probability=begun.log_probability + ends[before]), bars)
        if len(ended.cell):
            best, bars = _best(_together(best, ended), bars, n)
        begun = begun._replace(log_probability=begun.log_probability + goes_on[before])
    return best


def _room(lengths: Ints, spans: FoundSpans) -> Ints:
    """How many characters there are from the start of each span to the end of its sentence."""
    return np.cumsum(lengths)[spans.sentence] - spans.cell


def _beginnings(chains: Chains, lengths: Ints, floor: float) -> tuple[FoundSpans, Ints]:
    """Where spans may begin that are not below the floor, with the first tag of each; and how long
    each can be.
    """
    cell, label = np.nonzero(np.maximum(chains.alone, chains.first) >= floor - SLACK)
    sentence, nth = cells(lengths)
    begun = FoundSpans(sentence[cell], cell, np.ones_like(cell), label, chains.first[cell, label])
    return begun, (lengths[sentence] - nth)[cell]


def _together(left: FoundSpans, right: FoundSpans) -> FoundSpans:
    sentence, cell, long, label = (
        np.concatenate(pair) for pair in zip(left[:4], right[:4], strict=True)
    )
    return FoundSpans(
        sentence, cell, long, label, np.concatenate([left.log_probability, right.log_probability])
    )


def _above(spans: FoundSpans, bars: Floats) -> FoundSpans:
    return spans.at(spans.log_probability >= bars[spans.sentence] - SLACK)


def _best(spans: FoundSpans, bars: Floats, n: int) -> tuple[FoundSpans, Floats]:
    """The n best of each sentence; and what a further one must reach, which is the n-th best if
    there are so many.
    """
    counts = np.bincount(spans.sentence, minlength=len(bars))
    if counts.max(initial=0) < n:
        return spans, bars
    order = np.lexsort(
        (spans.label, spans.long, spans.cell, -spans.log_probability, spans.sentence)
    )
    ranked = spans.at(order)
    rank = cells(counts)[1]
    lowest = ranked.at(rank == n - 1)
    bars = bars.copy()
    bars[lowest.sentence] = np.maximum(bars[lowest.sentence], lowest.log_probability)
    return ranked.at(rank < n), bars


class Candidates(NamedTuple):
    """Spans `[start, end)`, all [S], sentence by sentence and in each by falling probability.

    A label is its place among the labels of the CRF's tags, sorted.
    """

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    score: Floats

    def at(self, chosen: npt.NDArray[np.bool_] | Ints) -> Candidates:
        sentence, start, end, label, score = self
        return Candidates(
            sentence[chosen], start[chosen], end[chosen], label[chosen], score[chosen]
        )

    def best(self, n: int, least: float) -> Candidates:
        """The n best of each sentence, without those below `least`, in that order."""
        kept = self.at(np.lexsort((self.label, self.end, self.start, -self.score, self.sentence)))
        kept = kept.at(kept.score >= max(least, SMALLEST))
        first = np.searchsorted(kept.sentence, kept.sentence)
        return kept.at(np.arange(len(first)) - first < n)


def span_scores(
    crf: Any, emissions: Values, lengths: Values, spans: Sequence[Sequence[Span]]
) -> list[list[float]]:
    """The probability of each span of each sentence: of exactly these characters with exactly this
    label.
    """
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
    """[S], float64: the same for spans `[start, end)`, all [S], that stand in decoded tags [B, T].

    The last four are arrays, the answer is where the emissions are; nothing waits for it.
    """
    at = start[:, None] + np.arange((end - start).max(initial=1))  # [S, L]
    found = tags[sentence[:, None], np.minimum(at, tags.shape[1] - 1)]
    return _probability(crf, emissions, lengths, sentence, start, end, found.astype(np.int64))


def candidates(
    crf: Any,
    emissions: Values,
    lengths: Values,
    n: int,
    min_score: float = 0.0,
    each_label: bool = False,
) -> Candidates:
    """The n most probable spans of each sentence, overlapping ones too, with the probabilities of
    `span_scores`.

    Those below `min_score` are left out, and those that cannot be. With `each_label`, those of each
    label, and perhaps more.
    """
    sizes = on_host(lengths).astype(np.int64)
    floor = float(np.log(max(min_score, SMALLEST)))
    chains = _chains(crf, emissions, lengths, sizes, min_score)
    find = _search_each if each_label else search
    if isinstance(crf, DictionaryCRF):
        known, open_spans = _from_arcs(crf, emissions, sizes, chains)
        found = find(chains, sizes, n, floor, known, open_spans)
    else:
        found = find(chains, sizes, n, floor)
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
        others = (
            None if spans is None else _of_label(spans, label) for spans in (known, open_spans)
        )
        found = search(own, lengths, n, floor, *others)
        parts.append(found._replace(label=found.label + label))
    if known is not None:  # labels that are new to the model have no chain
        parts.append(
            _above(known.at(known.label >= chains.alone.shape[1]), np.full(len(lengths), floor))
        )
    return reduce(_together, parts)


def _of_label(spans: FoundSpans, label: int) -> FoundSpans:
    """The spans with this label, as spans of a CRF that has no other."""
    found = spans.at(spans.label == label)
    return found._replace(label=np.zeros_like(found.label))


def _from_arcs(
    crf: DictionaryCRF, emissions: Floats, sizes: Ints, chains: Chains
) -> tuple[FoundSpans, FoundSpans]:
    """The spans that arcs make: whole ones, and the beginnings of longer ones, which the chains go
    on with.

    Where they start, the chains themselves start no span.
    """
    first = np.cumsum(sizes) - sizes
    whole = crf.whole_spans(emissions, sizes)
    begun = crf.open_spans(emissions, sizes)
    for spans in (whole, begun):
        learnt = spans.label < chains.alone.shape[1]
        chains.alone[
            first[spans.sentence[learnt]] + spans.start[learnt], spans.label[learnt]
        ] = -np.inf

    def found(spans: WholeSpans | OpenSpans, log: Floats) -> FoundSpans:
        cell = first[spans.sentence] + spans.start
        return FoundSpans(spans.sentence, cell, spans.end - spans.start, spans.label, log)

    ended = found(begun, begun.log_probability + begun.log_end)
    known = _together(found(whole, whole.log_probability), ended)
    return known, found(begun, begun.log_probability).at(begun.is_inside)


def best_spans(crf: Any, emissions: Values, lengths: Values, threshold: float) -> Candidates:
    """Of each sentence the spans that do not overlap, with the largest sum of score − bar, from
    left to right.

    If the bar is half of the F1 that comes out, no other choice has a higher expected F1, which is
    twice the sum of the scores over the number of spans chosen and the expected number of gold
    ones. No span at or below the bar is chosen.
    """
    found = candidates(crf, emissions, lengths, sys.maxsize, threshold)
    found = found.at(found.score > threshold)
    found = found.at(np.lexsort((found.label, found.start, found.end, found.sentence)))
    sentence, start, end, _, score = found
    overlaps = (sentence[1:] == sentence[:-1]) & (start[1:] < end[:-1])
    unsettled = np.flatnonzero(np.bincount(sentence[1:][overlaps]))
    kept = ~np.isin(sentence, unsettled)
    for low, high in np.searchsorted(sentence, [unsettled, unsettled + 1]).T.tolist():
        kept[low:high] = _apart(start[low:high], end[low:high], score[low:high] - threshold)
    return found.at(kept)


def _apart(start: Ints, end: Ints, weight: Floats) -> list[bool]:
    """Whether each interval is among those without overlap whose weights have the largest sum. They
    come by their ends.

    Weighted interval scheduling: `best[n]` is the largest sum of the first n.
    """
    before = np.searchsorted(
        end, start, side="right"
    ).tolist()  # how many end where this one begins, or earlier
    best = [0.0]
    for compatible, gain in zip(before, weight.tolist(), strict=True):
        best.append(max(best[-1], best[compatible] + gain))
    kept = [False] * len(before)
    n = len(before)
    while n:
        kept[n - 1] = best[n] > best[n - 1]
        n = before[n - 1] if kept[n - 1] else n - 1
    return kept


# A span alone, its first tag, a tag inside, and the four pairs of Chains: the places of their tags
# among a span's own
# (single, first, inside, last), how many there are, and whether the span ends with them.
_TAGS = np.array([[0, 0], [1, 1], [2, 2], [1, 2], [1, 3], [2, 2], [2, 3]])
_COUNT = np.array([1, 1, 1, 2, 2, 2, 2])
_ENDS = np.array([True, False, False, False, True, False, True])


def _chains(crf: Any, emissions: Values, lengths: Values, sizes: Ints, min_score: float) -> Chains:
    """The probabilities of one tag, and of two in a row, from which those of all spans follow.

    They are computed where a span of `min_score` may be: none is more probable than any of its
    tags.
    """
    shapes = np.array(
        [_whole_shape(crf, label) for label in labels_of(crf.tags)], dtype=np.int64
    ).reshape(-1, 4)
    sentence, start = cells(sizes)
    likely = _likely(crf, emissions, lengths, sizes, min_score)
    after = np.roll(likely, -1, axis=0) & (start + 1 < sizes[sentence])[:, None]
    cell, label = np.nonzero(likely[:, shapes].any(2))
    now, then = (each[cell[:, None], shapes[label]] for each in (likely, after))  # [P, 4]
    there = now[:, _TAGS[:, 0]] & (then[:, _TAGS[:, 1]] | (_COUNT == 1))  # [P, 7]
    value = np.full(there.shape, -np.inf)
    row, part = np.nonzero(there)
    for low in range(0, len(row), AT_ONCE):
        r = row[low : low + AT_ONCE]
        p = part[low : low + AT_ONCE]
        # [S], [S, 2]
        c = cell[r]
        tags = shapes[label[r, None], _TAGS[p]]
        blocked = crf.goes_on[tags[:, 1]] & _ENDS[p, None]
        spans = TaggedSpans(sentence[c], start[c], start[c] + _COUNT[p], tags, blocked)
        value[r, p] = on_host(crf.log_probability(emissions, lengths, spans))
    for pair, given in ((3, 1), (4, 1), (5, 2), (6, 2)):
        np.subtract(value[:, pair], value[:, given], out=value[:, pair], where=there[:, pair])
    chains = np.full((len(Chains._fields), len(start), len(shapes)), -np.inf)
    chains[:, cell, label] = np.delete(value, 2, axis=1).T
    return Chains(*chains)


def _likely(
    crf: Any, emissions: Values, lengths: Values, sizes: Ints, min_score: float
) -> npt.NDArray[np.bool_]:
    """[N, K]: whether each tag of each character may be in a span of `min_score`."""
    if not min_score:
        return np.ones((int(sizes.sum()), len(crf.tags)), dtype=np.bool_)
    there = np.arange(emissions.shape[1]) < sizes[:, None]
    likely: npt.NDArray[np.bool_] = on_host(crf.marginals(emissions, lengths))[
        there
    ] >= min_score * (1 - SLACK)
    return likely


def _whole_shape(crf: TagRules, label: str) -> list[int]:
    shape = crf.span_tags(label)
    if min(shape) < 0:
        _name_missing(crf, Span(0, 1 if shape[0] < 0 else 3, label))
    return shape


def _probability(
    crf: Any, emissions: Values, lengths: Values, sentence: Ints, start: Ints, end: Ints, tags: Ints
) -> Values:
    """[S], in float64."""
    if isinstance(crf, DictionaryCRF):
        log = crf.span_log_probability(emissions, lengths, sentence, start, end, tags)
        return np.minimum(np.exp(log), 1.0)
    last = tags[np.arange(len(tags)), end - start - 1]
    spans = TaggedSpans(
        sentence, start, end, tags, crf.goes_on[last]
    )  # [S, K]: what may not come straight after
    answer = crf.log_probability(emissions, lengths, spans)
    return (
        np.minimum(np.exp(answer), 1.0)
        if isinstance(answer, np.ndarray)
        else answer.exp_().clamp_(max=1.0)
    )


def _tagged(
    crf: TagRules, spans: list[tuple[int, Span]], lengths: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Spans with the numbers of their sentences: sentence, start, end, [S] each, and tags, [S, L]."""
    labels = {label: at for at, label in enumerate({span.label for _, span in spans})}
    rows = np.array(
        [(b, span.start, span.end, labels[span.label]) for b, span in spans], dtype=np.int64
    )
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
    at = np.arange(long.max())
    tags = np.where(
        at == 0, np.where(long == 1, single, first), np.where(at == long - 1, last, inside)
    )
    missing = ((tags < 0) & (at < long)).any(1)
    if missing.any():
        _name_missing(crf, spans[int(missing.argmax())][1])
    return sentence, start, end, tags


def _name_missing(crf: TagRules, span: Span) -> None:
    long = span.end - span.start
    tags = spans_to_tags([Span(0, long, span.label)], long, crf.scheme)
    tag = next(tag for tag in tags if tag not in crf.ids)
    raise TagError(f"this CRF has no tag {tag!r}: its tags are {', '.join(crf.tags)}")
