"""A CRF that knows what a dictionary says of some spans: so much more for exactly that span with that label.

A chain of tags does not know where its span began, so every label of which the dictionary speaks gets a lane of states
beside its tags: with n characters in its longest word, `open` 0 … n − 1 and `close` 0 … n − 1, for a span that began so
many characters ago and goes on, or ends here. A span that begins where a word of the dictionary does runs through the
lane, and leaves it for the plain tags only when it is longer than any word. So every tagging is one path, `close` d is
one span, and its emission takes the bonus. All operations on chains stay what they are, and exact.

A label that the model has not learnt has a lane alone, without plain tags: it has the scores of O, and exists only
where the dictionary says so.

What the dictionary forbids costs a span FORBIDDEN; what the scheme, the text and commands forbid is IMPOSSIBLE, below
any number of those. So where every tagging has forbidden spans, those with the fewest are left, as probable among each
other as without the prohibition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops.crf import FORBIDDEN, CRFScores, TaggedSpans, forbid, marginals
from hanlattice.runtime.crf import CRF, Array, Floats, on_host
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.rules import ANY, CUT_BEFORE, Rulings
from hanlattice.text.tags import TagIds, tag_set

IMPOSSIBLE = FORBIDDEN * 1e6


class Lane(NamedTuple):
    """The states of a label: `long` open ones from `first` on, then as many that close."""

    label: int
    tags: Ints  # [4]: of a span's only character, its first, those inside, its last
    like: Ints  # [4]: the tags whose scores they have
    first: int
    long: int
    is_new: bool  # the model has not learnt it

    def states(self, tags: Ints) -> Ints:
        """[2 × long]: of four tags, that of each state."""
        only, first, inside, last = tags.tolist()
        rest = self.long - 1
        return np.array([first, *[inside] * rest, only, *[last] * rest], dtype=np.int64)


class TrackedSpans(NamedTuple):
    """Spans that begin where a word of the dictionary does, all [S]."""

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    log_probability: Floats


class LabelledCRF(CRF):
    """`crf` with lanes, for the sentences of one batch. `tags` are those learnt; it decodes tags of new labels too."""

    def __init__(self, crf: CRF, lanes: Sequence[Lane], new: Sequence[str], starts: npt.NDArray[np.bool_]) -> None:
        self.set_tags(crf.tags, crf.scheme)
        self.lanes, self.starts = lanes, starts  # [lanes, B, T]
        self.all_tags = (*crf.tags, *new)
        plain = np.arange(len(crf.tags))
        self.like = np.concatenate([plain, *(lane.states(lane.like) for lane in lanes)])
        self.tag_of = np.concatenate([plain, *(lane.states(lane.tags) for lane in lanes)])
        start, between, end = crf.exact
        copied = CRFScores(start[self.like], between[self.like[:, None], self.like], end[self.like])
        self.allowed_start, self.allowed_between, self.allowed_end = self._allowed(crf)
        self.goes_on = self.allowed_between & ~self.allowed_start
        forbidden = forbid(copied, self.allowed_start, self.allowed_between, self.allowed_end)
        self.scores = CRFScores(*map(_impossible, forbidden))

    def _allowed(self, crf: CRF) -> tuple[npt.NDArray[np.bool_], ...]:
        K, size = len(crf.tags), len(self.like)
        start, end = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        between = np.zeros((size, size), dtype=bool)
        start[:K], end[:K], between[:K, :K] = crf.allowed_start, crf.allowed_end, crf.allowed_between
        for _, _, like, first, long, is_new in self.lanes:
            opens, closes = first + np.arange(long), first + long + np.arange(long)
            start[[opens[0], closes[0]]] = True
            end[closes] = True
            between[opens[:-1], opens[1:]] = between[opens[:-1], closes[1:]] = True
            if not is_new:  # longer than any word
                between[opens[-1], :K] = crf.goes_on[like[1 if long == 1 else 2]]
        own = np.arange(size) >= K
        between[:, own & start] |= end[:, None]  # after a span ended, or outside
        between[np.ix_(own & end, start)] = True
        return start, between, end

    def decode(self, emissions: Array, lengths: Ints) -> Ints:
        tags: Ints = self.tag_of[super().decode(emissions, lengths)]
        return tags

    def marginals(self, emissions: Array, lengths: Ints) -> Floats:
        """[B, T, K], K with the tags of new labels."""
        one_of = np.eye(len(self.all_tags))[self.tag_of]  # [states, K]
        found: Floats = super().marginals(emissions, lengths) @ one_of
        return found

    def readings(self, emissions: Array, lengths: Ints, n: int) -> tuple[Ints, Floats]:
        tags, log = super().readings(emissions, lengths, n)
        return self.tag_of[tags], log

    def path(self, sentence: Ints, start: Ints, end: Ints, tags: Ints) -> Ints:
        """The states of tagged spans, [S, L]."""
        states, nth, long = tags.copy(), np.arange(tags.shape[1]), (end - start)[:, None]
        for lane, starts in zip(self.lanes, self.starts, strict=True):
            rows = np.flatnonzero(starts[sentence, start] & np.isin(tags[:, 0], lane.tags[:2]))
            own = np.where(nth == long[rows] - 1, lane.first + lane.long + nth, lane.first + nth)
            states[rows] = np.where(nth < lane.long, own, tags[rows])
        return states

    def tracked(self, emissions: Array, lengths: Ints, floor: float) -> TrackedSpans:
        """All spans from the starts of its words on, but for those that are less probable than `floor`, a logarithm."""
        chance = marginals(emissions, lengths, self.exact)
        with np.errstate(divide="ignore"):
            found = [part for nth in range(len(self.lanes)) for part in self._of_lane(nth, emissions, lengths, chance)]
        sentence, start, end, label = (np.concatenate([each[column] for each in found]) for column in range(4))
        log = np.concatenate([each.log_probability for each in found])
        kept = log >= floor
        return TrackedSpans(sentence[kept], start[kept], end[kept], label[kept], log[kept])

    def _of_lane(self, nth: int, emissions: Array, lengths: Ints, chance: Floats) -> Iterator[TrackedSpans]:
        lane = self.lanes[nth]
        sentence, start = np.nonzero(self.starts[nth])
        room = lengths[sentence] - start
        row, depth = cells(np.minimum(room, lane.long))
        b, at = sentence[row], start[row] + depth
        log: Floats = np.log(chance[b, at, lane.first + lane.long + depth])
        yield TrackedSpans(b, start[row], at + 1, np.full_like(b, lane.label), log)
        row, more = cells(np.maximum(0, room - lane.long) * (not lane.is_new))  # those that leave the lane
        if len(row):
            b, begin, end = sentence[row], start[row], start[row] + lane.long + 1 + more
            place = np.arange((end - begin).max())
            _, first, inside, last = lane.tags
            tags = np.where(place == 0, first, np.where(place == (end - begin)[:, None] - 1, last, inside))
            states = self.path(b, begin, end, tags)
            spans = TaggedSpans(b, begin, end, states, self.goes_on[states[np.arange(len(b)), end - begin - 1]])
            yield TrackedSpans(
                b, begin, end, np.full_like(b, lane.label), self.log_probability(emissions, lengths, spans)
            )


def with_rulings(
    crf: Any, emissions: Any, rulings: Rulings, labels: Sequence[str], trust: float
) -> tuple[LabelledCRF, Floats]:
    """The CRF and the emissions of a batch in which these rulings hold. `labels` are those that they number.

    `crf` may be that of `nn`, and emissions tensors: what comes out is the runtime's, on the CPU.
    """
    base: CRF = crf if isinstance(crf, CRF) else crf.values()
    given = _impossible(on_host(emissions).astype(np.float64))
    spans = _every_label(rulings, len(TagIds(base.tags, base.scheme).labels))
    spans = spans._replace(bonus=np.where(np.isnan(spans.bonus), trust, spans.bonus))
    lanes, new = _lanes(base, labels, spans)
    starts = np.zeros((len(lanes), *given.shape[:2]), dtype=bool)
    for nth, lane in enumerate(lanes):
        own = spans.label == lane.label
        starts[nth, spans.sentence[own], spans.start[own]] = True
    made = LabelledCRF(base, lanes, new, starts)
    return made, _emissions(made, given, spans, rulings.at(rulings.label == CUT_BEFORE))


def _impossible(scores: Floats) -> Floats:
    """What is forbidden so far, impossible from here on."""
    return np.where(scores <= FORBIDDEN / 2, IMPOSSIBLE, scores)


def _every_label(rulings: Rulings, learnt: int) -> Rulings:
    """The rulings on spans; one on all labels becomes one on each that the model has learnt."""
    some, every = rulings.at(rulings.label >= 0), rulings.at(rulings.label == ANY)
    each = every.at(np.repeat(np.arange(len(every.label)), learnt))
    each = each._replace(label=np.tile(np.arange(learnt), len(every.label)))
    return Rulings(*(np.concatenate(pair) for pair in zip(some, each, strict=True)))


def _lanes(crf: CRF, labels: Sequence[str], spans: Rulings) -> tuple[list[Lane], list[str]]:
    """A lane for each label, and the tags of those that are new."""
    lanes: list[Lane] = []
    new: list[str] = []
    first = len(crf.tags)
    for label in np.unique(spans.label).tolist():
        long = int((spans.end - spans.start)[spans.label == label].max())
        like = tags = np.array(crf.span_tags(labels[label]))
        if is_new := bool(tags.min() < 0):
            own = tag_set([labels[label]], crf.scheme)[1:]
            both = CRF.__new__(CRF)
            both.set_tags((*crf.tags, *new, *own), crf.scheme)
            tags, like = np.array(both.span_tags(labels[label])), np.full(4, crf.ids["O"])
            new += own
        lanes.append(Lane(label, tags, like, first, long, is_new))
        first += 2 * long
    return lanes, new


def _emissions(crf: LabelledCRF, given: Floats, spans: Rulings, cuts: Rulings) -> Floats:
    """[B, T, states]"""
    emissions = given[:, :, crf.like]
    for lane, starts in zip(crf.lanes, crf.starts, strict=True):
        enters = [lane.first, lane.first + lane.long]
        if not lane.is_new:  # from here on through the lane alone
            plain = np.unique(lane.tags[:2])
            emissions[:, :, plain] = np.where(starts[:, :, None], IMPOSSIBLE, emissions[:, :, plain])
        emissions[:, :, enters] = np.where(starts[:, :, None], emissions[:, :, enters], IMPOSSIBLE)
        own = spans.at(spans.label == lane.label)
        at = own.sentence, own.end - 1, lane.first + lane.long + own.end - own.start - 1
        bonus = np.where(np.isposinf(own.bonus), 0.0, np.maximum(own.bonus, FORBIDDEN))
        earned = emissions[at] + bonus
        if lane.is_new:
            emissions[:, :, lane.first + lane.long : lane.first + 2 * lane.long] = IMPOSSIBLE
        emissions[at] = earned
        _force(emissions, own.at(np.isposinf(own.bonus)), lane)
    inside = np.flatnonzero(~crf.allowed_start)
    emissions[cuts.sentence[:, None], cuts.start[:, None], inside] = IMPOSSIBLE
    return emissions


def _force(emissions: Floats, spans: Rulings, lane: Lane) -> None:
    """Forbid all but these spans where they are."""
    for b, start, end in zip(*(column.tolist() for column in spans[:3]), strict=True):
        long = end - start
        path = [*range(lane.first, lane.first + long - 1), lane.first + lane.long + long - 1]
        kept = emissions[b, np.arange(start, end), path]
        emissions[b, start:end] = IMPOSSIBLE
        emissions[b, np.arange(start, end), path] = kept
