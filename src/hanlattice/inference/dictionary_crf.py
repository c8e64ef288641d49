"""A CRF for the sentences of one batch in which labelled entries of a user's dictionary occur.

A chain of tags does not know where a span began, so it cannot score "exactly these characters with
this label". An arc can: it takes all characters of a span in one step (`ops.crf.Arcs`). Two kinds
of labels get arcs:

- A label that the model has learnt. Where an entry with this label starts, every span of this label
  that starts there is an arc, up to the length of the longest entry, and the entry's own arc earns
  its bonus. A longer span takes an arc past that length and runs on in the chain. The chain itself
  starts no such span there, so every tagging is one path.
- A label that is new to the model. Its entries are the only spans it can have, an arc each, with
  the scores of O.

The cost grows with the entries that occur in a sentence, not with the labels of the dictionary, and
everything is exact: the best tagging, the n best, and the probability of every span.

A span that the dictionary forbids costs FORBIDDEN; what the scheme, the text or a command rules out
is IMPOSSIBLE, far below any number of those. So where every tagging has forbidden spans, those with
the fewest are left, as probable among each other as without the prohibition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError
from hanlattice.inference.crf import Array, Floats, NumpyCRF, on_host
from hanlattice.ops import crf as ops
from hanlattice.ops.crf import FORBIDDEN, ArcMarginals, Arcs, CRFScores, TaggedSpans
from hanlattice.text.lattice import Ints, cells
from hanlattice.text.rules import ANY, CUT_BEFORE, Rulings
from hanlattice.text.tags import TagIds

# Far below the sum of any number of FORBIDDEN steps.
IMPOSSIBLE = FORBIDDEN * 1e6
# The most arcs of a batch, which then takes about 200 MB.
ARCS_MOST = 1 << 20

Bools = npt.NDArray[np.bool_]


class SpanArcs(NamedTuple):
    """Arcs, and the spans that they are or begin, all [A]. Labels are numbers of a `TagIds`."""

    arcs: Arcs
    label: Ints
    last_tag: Ints  # of the arc's last character
    runs_on: Bools  # the arc leads into the chain, and its span may be longer

    def at(self, chosen: Bools) -> SpanArcs:
        """Return only the arcs where `chosen` is true."""
        arcs, label, last_tag, runs_on = self
        return SpanArcs(arcs.at(chosen), label[chosen], last_tag[chosen], runs_on[chosen])


class WholeSpans(NamedTuple):
    """Spans that are exactly one arc, all [S]."""

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    log_probability: Floats


class OpenSpans(NamedTuple):
    """Beginnings of spans that run on after an arc, all [S]; they may also end with the arc."""

    sentence: Ints
    start: Ints
    end: Ints  # of the arc
    label: Ints
    log_probability: Floats  # of the arc
    log_end: Floats  # of an end with the arc, given the arc
    is_inside: Bools  # whether the arc's last tag stands inside spans


class DictionaryCRF(NumpyCRF):
    """A CRF with arcs, for the emissions that `with_dictionary` returns with it.

    Attributes:
        tags: The tags that the model has learnt.
        tag_ids: These tags, then the tags of new labels. Decoded numbers are of `tag_ids.names`.
        label_numbers: The number in the rulings of each label of `tag_ids`.
    """

    def __init__(
        self, base: NumpyCRF, spans: SpanArcs, tag_ids: TagIds, label_numbers: Ints, twins: Ints
    ) -> None:
        self.tags = base.tags
        self.scheme = base.scheme
        self.ids = base.ids
        self.spans = spans
        self.tag_ids = tag_ids
        self.label_numbers = label_numbers
        self.scores = _with_closed_twins(base, twins)
        K = len(base.tags)
        self.goes_on = np.zeros((K + len(twins), K + len(twins)), dtype=bool)
        self.goes_on[:K, :K] = base.goes_on

    @property
    def arcs(self) -> Arcs:
        """The arcs that `ops.crf` reads."""
        return self.spans.arcs

    def decode(self, emissions: Array, lengths: Ints) -> Ints:
        """[B, T]: return the best tags, numbered by `tag_ids`."""
        return self._tags_of(ops.viterbi(emissions, lengths, self.scores, arcs=self.arcs)[0])

    def readings(self, emissions: Array, lengths: Ints, n: int) -> tuple[Ints, Floats]:
        """Return the n best taggings [B, n, T] and their log probabilities [B, n]."""
        paths, score = ops.nbest(emissions, lengths, self.scores, n, arcs=self.arcs)
        partition = self.arc_marginals(emissions, lengths).log_partition
        log = np.minimum(score - partition[:, None], 0.0)
        tags = self._tags_of(paths)
        ruled_out = score < IMPOSSIBLE / 2
        tags[ruled_out] = 0
        log[ruled_out | (log < FORBIDDEN / 2)] = -np.inf
        return tags, log

    def _tags_of(self, paths: Ints) -> Ints:
        """Return the tags of paths [..., T], where −1 − a stands for a character in arc a."""
        tags = paths.copy()
        *place, t = np.nonzero(paths < 0)
        arc = -1 - paths[(*place, t)]
        tags[(*place, t)] = self._tags_in_arcs(arc, t - self.arcs.start[arc])
        return tags

    def _tags_in_arcs(self, arc: Ints, nth: Ints) -> Ints:
        """Return the tag of the nth character of each arc."""
        _, first, inside, _ = self.tag_ids.shapes[self.spans.label[arc]].T
        is_last = nth == (self.arcs.end - self.arcs.start)[arc] - 1
        return np.where(is_last, self.spans.last_tag[arc], np.where(nth == 0, first, inside))

    def marginals(self, emissions: Array, lengths: Ints) -> Floats:
        """[B, T, K]: return the probability of each tag of `tag_ids`."""
        known = self.arc_marginals(emissions, lengths)
        K = len(self.tags)
        marginals = np.zeros((*known.tags.shape[:2], len(self.tag_ids.names)))
        marginals[:, :, :K] = known.tags[:, :, :K]
        chance = np.exp(known.arcs)
        sentence, start, end, _, last, _ = self.arcs
        # The chain counts an arc at its last character only. Count all of its characters instead.
        counted = last < K
        place = sentence[counted], end[counted] - 1, last[counted]
        np.subtract.at(marginals, place, chance[counted])
        arc, nth = cells(end - start)
        place = sentence[arc], start[arc] + nth, self._tags_in_arcs(arc, nth)
        np.add.at(marginals, place, chance[arc])
        return marginals.clip(0.0)

    def log_probability(self, emissions: Array, lengths: Ints, spans: TaggedSpans) -> Floats:
        """[S]: return the log probability of spans of the chain, with no arc over them."""
        given = emissions, lengths, self.scores
        log: Floats = ops.span_log_probability(*given, spans, arcs=self.arcs)
        return log

    def arc_marginals(self, emissions: Array, lengths: Ints) -> ArcMarginals:
        """Return the log probabilities of arcs, and the probabilities of tags in the chain."""
        marginals = ops.arc_marginals(emissions, lengths, self.scores, self.arcs)
        # Rounding can make a certain span a little more than certain.
        return marginals._replace(arcs=np.minimum(marginals.arcs, 0.0))

    def whole_spans(self, emissions: Array, lengths: Ints) -> WholeSpans:
        """Return all spans that are exactly one arc."""
        chosen = ~self.spans.runs_on
        sentence, start, end, *_ = self.arcs.at(chosen)
        log = self.arc_marginals(emissions, lengths).arcs[chosen]
        return WholeSpans(sentence, start, end, self.spans.label[chosen], log)

    def open_spans(self, emissions: Array, lengths: Ints) -> OpenSpans:
        """Return the beginnings of all spans that run on after an arc."""
        arcs, label, last_tag, _ = self.spans.at(self.spans.runs_on)
        log = self.arc_marginals(emissions, lengths).arcs[self.spans.runs_on]
        passing = self._single_tags(arcs)
        ending = passing._replace(blocked_next=self.goes_on[arcs.last])
        # One call for both: each runs over all sentences.
        both = self.log_probability(emissions, lengths, _concatenated(passing, ending))
        log_end = both[len(label) :] - both[: len(label)]
        is_inside = last_tag == self.tag_ids.shapes[label, 2]
        return OpenSpans(arcs.sentence, arcs.start, arcs.end, label, log, log_end, is_inside)

    def _single_tags(self, arcs: Arcs) -> TaggedSpans:
        """Return the last character of each arc as a span, whatever follows it."""
        nothing = np.zeros((len(arcs.end), len(self.goes_on)), dtype=bool)
        return TaggedSpans(arcs.sentence, arcs.end - 1, arcs.end, arcs.last[:, None], nothing)

    def span_log_probability(
        self, emissions: Array, lengths: Ints, sentence: Ints, start: Ints, end: Ints, tags: Ints
    ) -> Floats:
        """[S]: return the log probability of whole spans with tags [S, L], arcs or not."""
        label = self.tag_ids.label_of_tag[tags[:, 0]]
        log = self.arc_marginals(emissions, lengths).arcs
        answer = np.full(len(sentence), -np.inf)
        whole = np.flatnonzero(~self.spans.runs_on)
        known = *self.arcs.at(whole)[:3], self.spans.label[whole]
        arc = _at(whole, _find_rows(known, (sentence, start, end, label)))
        answer[arc >= 0] = log[arc[arc >= 0]]

        rest = np.flatnonzero(arc < 0)
        passed = self._find_passed(sentence[rest], start[rest], end[rest], label[rest], tags[rest])
        runs_on = passed >= 0
        passed = passed[runs_on]
        # After its arc a span has tags of the chain, from the arc's last character on.
        begin = start[rest].copy()
        begin[runs_on] = self.arcs.end[passed] - 1
        nth = np.arange(tags.shape[1]) + (begin - start[rest])[:, None]
        in_chain = np.take_along_axis(tags[rest], np.minimum(nth, tags.shape[1] - 1), 1)
        last = tags[rest, (end - start)[rest] - 1]
        spans = TaggedSpans(sentence[rest], begin, end[rest], in_chain, self.goes_on[last])
        entered = self._single_tags(self.arcs.at(passed))
        both = self.log_probability(emissions, lengths, _concatenated(spans, entered))
        answer[rest] = both[: len(rest)]
        # P(span) = P(arc) * P(chain part) / P(the chain part's first character).
        answer[rest[runs_on]] += log[passed] - both[len(rest) :]
        return answer

    def _find_passed(self, sentence: Ints, start: Ints, end: Ints, label: Ints, tags: Ints) -> Ints:
        """[S]: return the arc after which each span runs on, −1 for none."""
        arcs = np.flatnonzero(self.spans.runs_on)
        known = (self.arcs.sentence[arcs], self.arcs.start[arcs], self.spans.label[arcs])
        asked = (sentence, start, label)
        # All arcs that run on have one length for a start and label.
        length = _at((self.arcs.end - self.arcs.start)[arcs], _find_rows(known, asked))
        passes = (length > 0) & (length <= end - start)
        tag = np.where(passes, tags[np.arange(len(tags)), length.clip(1, tags.shape[1]) - 1], -1)
        return _at(arcs, _find_rows((*known, self.spans.last_tag[arcs]), (*asked, tag)))


def _at(values: Ints, places: Ints) -> Ints:
    """Return the values at these places, and −1 for place −1."""
    return np.append(values, -1)[places]


def _find_rows(known: Sequence[Ints], asked: Sequence[Ints]) -> Ints:
    """[S]: return the row of `known` that equals each row of `asked`, −1 for none.

    Both are columns of numbers from −1 on.
    """
    # Rows become numbers in a mixed base; one sorted search then compares all columns.
    key = np.zeros(len(known[0]), dtype=np.int64)
    wanted = np.zeros(len(asked[0]), dtype=np.int64)
    for mine, theirs in zip(known, asked, strict=True):
        size = int(max(mine.max(initial=0), theirs.max(initial=0))) + 2
        key = key * size + mine + 1
        wanted = wanted * size + theirs + 1
    order = np.argsort(key, kind="stable")
    place = np.searchsorted(key[order], wanted)
    row = np.append(order, -1)[place]
    return np.where((row >= 0) & (np.append(key, -1)[row] == wanted), row, -1)


def _concatenated(left: TaggedSpans, right: TaggedSpans) -> TaggedSpans:
    width = max(left.tags.shape[1], right.tags.shape[1])
    wide = []
    for spans in (left, right):
        padding = (0, 0), (0, width - spans.tags.shape[1])
        wide.append(spans._replace(tags=np.pad(spans.tags, padding)))
    return TaggedSpans(*map(np.concatenate, zip(*wide, strict=True)))


def arc_counts(rulings: Rulings, sentences: int, learnt: int) -> Ints:
    """[sentences]: return the most arcs that rulings make, if `learnt` labels are learnt."""
    # A learnt label has an arc for each length up to the entry's, and two that run on.
    count = np.where(rulings.label < learnt, rulings.end - rulings.start + 2, 1)
    count = np.where(rulings.label == ANY, count * learnt, count)
    arcs: Ints = np.bincount(rulings.sentence, count, minlength=sentences).astype(np.int64)
    return arcs


def with_dictionary(
    crf: Any,
    emissions: Any,
    lengths: Ints,
    rulings: Rulings,
    tag_ids: TagIds,
    labels: Sequence[str],
    trust: float,
) -> tuple[DictionaryCRF, Floats]:
    """Return a CRF and its emissions, both on the CPU, under which rulings hold in a batch.

    Args:
        crf: A NumpyCRF, or the CRF of `nn`.
        emissions: [B, T, K], an array or a tensor.
        lengths: [B]
        rulings: What the dictionary says of spans of the batch.
        tag_ids: The tags that the model has learnt.
        labels: The names of the label numbers in rulings: labels learnt, then new ones.
        trust: The bonus of entries that have none of their own.
    """
    base: NumpyCRF = crf if isinstance(crf, NumpyCRF) else crf.values()
    given = _impossible(on_host(emissions).astype(np.float64))
    learnt = np.arange(len(tag_ids.labels))
    # A ruling on ANY label becomes one on each label that the model has learnt.
    named = rulings.at(rulings.label >= 0)
    every = rulings.at(rulings.label == ANY)
    each = every.at(np.repeat(np.arange(len(every.label)), len(learnt)))
    each = each._replace(label=np.tile(learnt, len(every.label)))
    spans = Rulings(*(np.concatenate(pair) for pair in zip(named, each, strict=True)))
    spans = spans._replace(bonus=np.where(np.isnan(spans.bonus), trust, spans.bonus))
    new = np.unique(spans.label)
    new = new[new >= len(learnt)]
    label_numbers = np.concatenate([learnt, new])
    spans = spans._replace(label=np.searchsorted(label_numbers, spans.label))
    tag_ids = tag_ids.with_labels([labels[number] for number in new.tolist()])
    is_new = spans.label >= len(learnt)
    starts = _find_starts(spans.at(~is_new), lengths)
    count = int(starts.longest.sum()) + 2 * len(starts.longest) + int(is_new.sum())
    if count > ARCS_MOST:
        raise InputError(
            f"the dictionary's entries make {count:,} spans in a text of {given.shape[1]:,} "
            f"characters, and {ARCS_MOST:,} is the limit: give the words fewer labels, or use "
            "shorter texts"
        )
    steps = _impossible(base.exact.transitions)
    parts = [
        *_learnt_arcs(base, steps, given, starts, spans.at(~is_new), tag_ids),
        _new_arcs(base, steps, given, spans.at(is_new), tag_ids),
    ]
    arcs = SpanArcs(
        Arcs(*map(np.concatenate, zip(*(part.arcs for part in parts), strict=True))),
        *map(np.concatenate, zip(*(part[1:] for part in parts), strict=True)),
    )
    # Spans that start with an entry are arcs, so the chain must not start them as well.
    only, first, _, _ = tag_ids.shapes[starts.label].T
    given[starts.sentence, starts.start, only] = IMPOSSIBLE
    given[starts.sentence, starts.start, first] = IMPOSSIBLE
    arcs = _without_cut_arcs(arcs, given, rulings.at(rulings.label == CUT_BEFORE), base)
    arcs = _with_forced_spans(arcs, given, spans.at(np.isposinf(spans.bonus)))
    arcs, twins = _end_in_twins(arcs, base)
    # Only arcs lead to a twin.
    of_twins = np.full((*given.shape[:2], len(twins)), IMPOSSIBLE)
    ruled = DictionaryCRF(base, arcs, tag_ids, label_numbers, twins)
    return ruled, np.concatenate([given, of_twins], axis=2)


def _impossible(scores: Floats) -> Floats:
    """Lower FORBIDDEN scores to IMPOSSIBLE, so that a dictionary can forbid less strictly."""
    return np.where(scores <= FORBIDDEN / 2, IMPOSSIBLE, scores)


class _Starts(NamedTuple):
    """Where entries with learnt labels start, each place and label once; all [S]."""

    sentence: Ints
    start: Ints
    label: Ints
    longest: Ints  # characters of the longest entry
    has_room: Bools  # whether the sentence goes on after it
    of_entry: Ints  # [entries]: the row of each entry in these columns


def _find_starts(entries: Rulings, lengths: Ints) -> _Starts:
    places = np.stack([entries.sentence, entries.start, entries.label], axis=1)
    rows, of_entry = np.unique(places, axis=0, return_inverse=True)
    of_entry = of_entry.reshape(-1)
    longest = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(longest, of_entry, entries.end - entries.start)
    sentence, start, label = rows.T
    return _Starts(sentence, start, label, longest, start + longest < lengths[sentence], of_entry)


def _learnt_arcs(
    crf: NumpyCRF, steps: Floats, given: Floats, starts: _Starts, entries: Rulings, tag_ids: TagIds
) -> tuple[SpanArcs, SpanArcs]:
    """Return the spans from each start up to the longest entry, and beginnings of longer spans."""
    sentence, start, label, longest, has_room, of_entry = starts
    only, first, inside, last = tag_ids.shapes[label].T
    row, depth = cells(longest)
    offset = np.cumsum(longest) - longest
    score = np.empty(len(row))
    score[offset] = given[sentence, start, only]
    # The score of a span so far, if it goes on.
    open_score = given[sentence, start, first]
    for nth in range(1, int(longest.max(initial=0))):
        reach = np.flatnonzero(longest > nth)
        before = (first if nth == 1 else inside)[reach]
        emitted = given[sentence[reach], start[reach] + nth]
        order = np.arange(len(reach))
        ends = steps[before, last[reach]] + emitted[order, last[reach]]
        score[offset[reach] + nth] = open_score[reach] + ends
        open_score[reach] += steps[before, inside[reach]] + emitted[order, inside[reach]]
    # An infinite bonus forces the span: `_with_forced_spans` removes what could replace it.
    bonus = np.where(np.isposinf(entries.bonus), 0.0, np.maximum(entries.bonus, FORBIDDEN))
    np.add.at(score, offset[of_entry] + entries.end - entries.start - 1, bonus)
    alone = depth == 0
    last_tag = np.where(alone, only[row], last[row])
    enters = np.where(alone, only[row], first[row])
    place = sentence[row], start[row], start[row] + depth + 1
    arcs = Arcs(*place, enters, last_tag, score)
    whole = SpanArcs(arcs, label[row], last_tag, np.zeros(len(row), dtype=bool))

    longer = np.flatnonzero(has_room)
    before = np.where(longest == 1, first, inside)[longer]
    nth_longer, tag = np.nonzero(crf.goes_on[before])
    row = longer[nth_longer]
    end = start[row] + longest[row] + 1
    arrives = steps[before[nth_longer], tag] + given[sentence[row], end - 1, tag]
    arcs = Arcs(sentence[row], start[row], end, first[row], tag, open_score[row] + arrives)
    return whole, SpanArcs(arcs, label[row], tag, np.ones(len(row), dtype=bool))


def _new_arcs(
    crf: NumpyCRF, steps: Floats, given: Floats, entries: Rulings, tag_ids: TagIds
) -> SpanArcs:
    """Return the entries with labels that are new to the model; they have the scores of O."""
    outside = crf.ids.get("O", 0)
    score = np.maximum(np.where(np.isposinf(entries.bonus), 0.0, entries.bonus), FORBIDDEN)
    length = entries.end - entries.start
    for nth in range(int(length.max(initial=0))):
        reach = np.flatnonzero(length > nth)
        score[reach] += given[entries.sentence[reach], entries.start[reach] + nth, outside]
    score += (length - 1) * steps[outside, outside]
    only, _, _, last = tag_ids.shapes[entries.label].T
    tag = np.full(len(length), outside)
    arcs = Arcs(entries.sentence, entries.start, entries.end, tag, tag, score)
    last_tag = np.where(length == 1, only, last)
    return SpanArcs(arcs, entries.label, last_tag, np.zeros(len(length), dtype=bool))


def _without_cut_arcs(spans: SpanArcs, emissions: Floats, cuts: Rulings, crf: NumpyCRF) -> SpanArcs:
    """Drop arcs over a cut, and forbid the chain's tags that would continue a span there."""
    inside = np.flatnonzero(~crf.allowed_start)
    emissions[cuts.sentence[:, None], cuts.start[:, None], inside] = IMPOSSIBLE
    is_cut = np.zeros(emissions.shape[:2], dtype=bool)
    is_cut[cuts.sentence, cuts.start] = True
    sentence, start, end, *_ = spans.arcs
    return spans.at(_count(is_cut, sentence, start + 1, end) == 0)


def _with_forced_spans(spans: SpanArcs, emissions: Floats, forced: Rulings) -> SpanArcs:
    """Drop other arcs where a span is forced, and forbid all tags of the chain there."""
    taken = np.zeros(emissions.shape[:2], dtype=bool)
    row, nth = cells(forced.end - forced.start)
    taken[forced.sentence[row], forced.start[row] + nth] = True
    emissions[taken] = IMPOSSIBLE
    sentence, start, end, *_ = spans.arcs
    known = forced.sentence, forced.start, forced.end, forced.label
    is_forced = _find_rows(known, (sentence, start, end, spans.label)) >= 0
    return spans.at((_count(taken, sentence, start, end) == 0) | (is_forced & ~spans.runs_on))


def _count(marked: Bools, sentence: Ints, start: Ints, end: Ints) -> Ints:
    """[S]: count the characters in [start, end) that are marked [B, T]."""
    before = np.pad(np.cumsum(marked, axis=1), ((0, 0), (1, 0)))
    return before[sentence, end] - before[sentence, start]


def _end_in_twins(spans: SpanArcs, crf: NumpyCRF) -> tuple[SpanArcs, Ints]:
    """End whole spans in twins of their last tags, where the chain could make the span longer.

    A twin has the tag's scores, but no tag that makes the span longer may follow it. Only BIO
    needs twins.
    """
    last = spans.arcs.last
    may_go_on: Bools = np.any(crf.goes_on, axis=1)
    closes = ~spans.runs_on & may_go_on[last]
    twins = np.unique(last[closes])
    last = np.where(closes, len(crf.tags) + np.searchsorted(twins, last), last)
    return spans._replace(arcs=spans.arcs._replace(last=last)), twins


def _with_closed_twins(crf: NumpyCRF, twins: Ints) -> CRFScores:
    """Return the scores of a chain with twins of some tags after the tags; no step enters them."""
    start, steps, end = map(_impossible, crf.exact)
    K = len(start)
    size = K + len(twins)
    starts = np.full(size, IMPOSSIBLE)
    starts[:K] = start
    between = np.full((size, size), IMPOSSIBLE)
    between[:K, :K] = steps
    between[K:, :K] = np.where(crf.goes_on[twins], IMPOSSIBLE, steps[twins])
    return CRFScores(starts, between, np.append(end, end[twins]))
