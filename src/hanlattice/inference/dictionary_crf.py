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

IMPOSSIBLE = FORBIDDEN * 1e6
ARCS_MOST = 1 << 20  # of a batch, which then takes some 200 MB

Bools = npt.NDArray[np.bool_]


class SpanArcs(NamedTuple):
    """Arcs, and the spans that they are or begin. All columns are [A]; labels are those of a
    `TagIds`.
    """

    arcs: Arcs
    label: Ints
    last_tag: Ints  # of the arc's last character
    runs_on: Bools  # the arc leads into the chain, and its span may be longer

    def at(self, chosen: Bools) -> SpanArcs:
        return SpanArcs(
            self.arcs.at(chosen), self.label[chosen], self.last_tag[chosen], self.runs_on[chosen]
        )


class WholeSpans(NamedTuple):
    """Spans that are one arc each, all [S]."""

    sentence: Ints
    start: Ints
    end: Ints
    label: Ints
    log_probability: Floats


class OpenSpans(NamedTuple):
    """Beginnings of spans that run on after an arc, all [S]. They may also end where the arc does."""

    sentence: Ints
    start: Ints
    end: Ints  # of the arc
    label: Ints
    log_probability: Floats  # of the arc
    log_end: Floats  # that the span ends there, given the arc
    is_inside: Bools  # the arc's last tag is one that stands inside spans


class DictionaryCRF(NumpyCRF):
    """A CRF with arcs, for the emissions that `with_dictionary` returns beside it.

    `tags` are those that the model has learnt. What it decodes are numbers of `tag_ids.names`,
    which go on with the tags of new labels; `label_numbers` are the numbers that the rulings have
    for the labels of `tag_ids`.
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
        return self.spans.arcs

    def decode(self, emissions: Array, lengths: Ints) -> Ints:
        return self._tags_of(ops.viterbi(emissions, lengths, self.scores, arcs=self.arcs)[0])

    def readings(self, emissions: Array, lengths: Ints, n: int) -> tuple[Ints, Floats]:
        paths, score = ops.nbest(emissions, lengths, self.scores, n, arcs=self.arcs)
        partition = self.arc_marginals(emissions, lengths).log_partition
        log = np.minimum(score - partition[:, None], 0.0)
        tags = self._tags_of(paths)
        ruled_out = score < IMPOSSIBLE / 2
        tags[ruled_out] = 0
        log[ruled_out | (log < FORBIDDEN / 2)] = -np.inf
        return tags, log

    def _tags_of(self, paths: Ints) -> Ints:
        """The tags of paths [..., T], whose characters in an arc a have −1 − a."""
        tags = paths.copy()
        *place, t = np.nonzero(paths < 0)
        arc = -1 - paths[(*place, t)]
        tags[(*place, t)] = self._tags_in_arcs(arc, t - self.arcs.start[arc])
        return tags

    def _tags_in_arcs(self, arc: Ints, nth: Ints) -> Ints:
        """The tags of the nth characters of arcs."""
        _, first, inside, _ = self.tag_ids.shapes[self.spans.label[arc]].T
        is_last = nth == (self.arcs.end - self.arcs.start)[arc] - 1
        return np.where(is_last, self.spans.last_tag[arc], np.where(nth == 0, first, inside))

    def marginals(self, emissions: Array, lengths: Ints) -> Floats:
        """[B, T, K]: the probability of each tag of `tag_ids`."""
        known = self.arc_marginals(emissions, lengths)
        found = np.zeros((*known.tags.shape[:2], len(self.tag_ids.names)))
        found[:, :, : len(self.tags)] = known.tags[:, :, : len(self.tags)]
        chance = np.exp(known.arcs)
        sentence, start, end, _, last, _ = self.arcs
        # The chain counts an arc at its last character; here it counts at all of them.
        counted = last < len(self.tags)
        at = (sentence[counted], end[counted] - 1, last[counted])
        np.subtract.at(found, at, chance[counted])
        arc, nth = cells(end - start)
        at = (sentence[arc], start[arc] + nth, self._tags_in_arcs(arc, nth))
        np.add.at(found, at, chance[arc])
        return found.clip(0.0)

    def log_probability(self, emissions: Array, lengths: Ints, spans: TaggedSpans) -> Floats:
        """[S]: of tags of the chain, around which arcs may stand, but not over them."""
        found: Floats = ops.span_log_probability(
            emissions, lengths, self.scores, spans, arcs=self.arcs
        )
        return found

    def arc_marginals(self, emissions: Array, lengths: Ints) -> ArcMarginals:
        found = ops.arc_marginals(emissions, lengths, self.scores, self.arcs)
        # Rounding can make a certain span a little more than certain.
        return found._replace(arcs=np.minimum(found.arcs, 0.0))

    def whole_spans(self, emissions: Array, lengths: Ints) -> WholeSpans:
        """All spans that are an arc each."""
        chosen = ~self.spans.runs_on
        sentence, start, end, *_ = self.arcs.at(chosen)
        log = self.arc_marginals(emissions, lengths).arcs[chosen]
        return WholeSpans(sentence, start, end, self.spans.label[chosen], log)

    def open_spans(self, emissions: Array, lengths: Ints) -> OpenSpans:
        """The beginnings of all spans that run on after an arc."""
        arcs, label, last_tag, _ = self.spans.at(self.spans.runs_on)
        log = self.arc_marginals(emissions, lengths).arcs[self.spans.runs_on]
        there = self._single_tags(arcs)
        ending = there._replace(blocked_next=self.goes_on[arcs.last])
        answer = self.log_probability(emissions, lengths, _concatenated(there, ending))
        log_end = answer[len(label) :] - answer[: len(label)]
        is_inside = last_tag == self.tag_ids.shapes[label, 2]
        return OpenSpans(arcs.sentence, arcs.start, arcs.end, label, log, log_end, is_inside)

    def _single_tags(self, arcs: Arcs) -> TaggedSpans:
        """The last characters of arcs that lead into the chain, whatever follows."""
        nothing = np.zeros((len(arcs.end), len(self.goes_on)), dtype=bool)
        return TaggedSpans(arcs.sentence, arcs.end - 1, arcs.end, arcs.last[:, None], nothing)

    def span_log_probability(
        self, emissions: Array, lengths: Ints, sentence: Ints, start: Ints, end: Ints, tags: Ints
    ) -> Floats:
        """[S]: of whole spans with these tags [S, L], whether they are arcs, run on after one, or
        neither.
        """
        label = self.tag_ids.label_of_tag[tags[:, 0]]
        log = self.arc_marginals(emissions, lengths).arcs
        arc = self._find_whole(sentence, start, end, label)
        found = np.full(len(sentence), -np.inf)
        found[arc >= 0] = log[arc[arc >= 0]]

        rest = np.flatnonzero(arc < 0)
        passed = self._find_passed(sentence[rest], start[rest], end[rest], label[rest], tags[rest])
        runs_on = passed >= 0
        passed = passed[runs_on]
        # Behind its arc a span has tags of the chain, from the arc's last character on.
        begin = start[rest].copy()
        begin[runs_on] = self.arcs.end[passed] - 1
        nth = np.arange(tags.shape[1]) + (begin - start[rest])[:, None]
        in_chain = np.take_along_axis(tags[rest], np.minimum(nth, tags.shape[1] - 1), 1)
        last = tags[rest, (end - start)[rest] - 1]
        spans = TaggedSpans(sentence[rest], begin, end[rest], in_chain, self.goes_on[last])
        entered = self._single_tags(self.arcs.at(passed))
        answer = self.log_probability(emissions, lengths, _concatenated(spans, entered))
        found[rest] = answer[: len(rest)]
        found[rest[runs_on]] += log[passed] - answer[len(rest) :]
        return found

    def _find_whole(self, sentence: Ints, start: Ints, end: Ints, label: Ints) -> Ints:
        """[S]: the arc that each of these spans is, −1 for none."""
        arcs = np.flatnonzero(~self.spans.runs_on)
        known = (*self.arcs.at(arcs)[:3], self.spans.label[arcs])
        return _at(arcs, _find_rows(known, (sentence, start, end, label)))

    def _find_passed(self, sentence: Ints, start: Ints, end: Ints, label: Ints, tags: Ints) -> Ints:
        """[S]: the arc after which each of these spans runs on, −1 for none."""
        arcs = np.flatnonzero(self.spans.runs_on)
        known = (self.arcs.sentence[arcs], self.arcs.start[arcs], self.spans.label[arcs])
        asked = (sentence, start, label)
        # All arcs of one start and label that run on have one length.
        length = _at((self.arcs.end - self.arcs.start)[arcs], _find_rows(known, asked))
        passes = (length > 0) & (length <= end - start)
        tag = np.where(passes, tags[np.arange(len(tags)), length.clip(1, tags.shape[1]) - 1], -1)
        return _at(arcs, _find_rows((*known, self.spans.last_tag[arcs]), (*asked, tag)))


def _at(values: Ints, places: Ints) -> Ints:
    """The values at these places, −1 where a place is."""
    return np.append(values, -1)[places]


def _find_rows(known: Sequence[Ints], asked: Sequence[Ints]) -> Ints:
    """[S]: the row of the columns `known` that each row of `asked` equals, −1 for none. No number
    is below −1.
    """
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
    pairs = (
        TaggedSpans(
            *spans[:3], np.pad(spans.tags, ((0, 0), (0, width - spans.tags.shape[1]))), spans[4]
        )
        for spans in (left, right)
    )
    return TaggedSpans(*map(np.concatenate, zip(*pairs, strict=True)))


def arc_counts(rulings: Rulings, sentences: int, learnt: int) -> Ints:
    """[sentences]: not more than so many arcs come of these rulings, with so many labels that the
    model has learnt.
    """
    count = np.where(rulings.label < learnt, rulings.end - rulings.start + 2, 1)
    count = np.where(rulings.label == ANY, count * learnt, count)
    found: Ints = np.bincount(rulings.sentence, count, minlength=sentences).astype(np.int64)
    return found


def with_dictionary(
    crf: Any,
    emissions: Any,
    lengths: Ints,
    rulings: Rulings,
    tag_ids: TagIds,
    labels: Sequence[str],
    trust: float,
) -> tuple[DictionaryCRF, Floats]:
    """A CRF, and emissions for it, under which these rulings hold in a batch.

    Args:
        crf: That of the runtime or of `nn`; the result is the runtime's, on the CPU.
        emissions: [B, T, K], an array or a tensor.
        lengths: [B]
        rulings: What the dictionary says of spans of the batch.
        tag_ids: The tags that the model has learnt.
        labels: The names of all labels that the rulings number: those learnt, then new ones.
        trust: The bonus of entries that have none of their own.
    """
    base: NumpyCRF = crf if isinstance(crf, NumpyCRF) else crf.values()
    given = _impossible(on_host(emissions).astype(np.float64))
    spans = _for_each_label(rulings, len(tag_ids.labels))
    spans = spans._replace(bonus=np.where(np.isnan(spans.bonus), trust, spans.bonus))
    learnt = np.arange(len(tag_ids.labels))
    named = np.unique(spans.label)
    new = named[named >= len(learnt)]
    label_numbers = np.concatenate([learnt, new])
    spans = spans._replace(label=np.searchsorted(label_numbers, spans.label))
    tag_ids = tag_ids.with_labels([labels[number] for number in new.tolist()])
    is_new = spans.label >= len(learnt)
    starts = _find_starts(spans.at(~is_new), lengths)
    _check_count(
        int(starts.longest.sum()) + 2 * len(starts.longest) + int(is_new.sum()), given.shape[1]
    )
    steps = _impossible(base.exact.transitions)
    arcs = _joined_arcs(
        *_learnt_arcs(base, steps, given, starts, spans.at(~is_new), tag_ids),
        _new_arcs(base, steps, given, spans.at(is_new), tag_ids),
    )
    only, first, _, _ = tag_ids.shapes[starts.label].T
    given[starts.sentence, starts.start, only] = IMPOSSIBLE
    given[starts.sentence, starts.start, first] = IMPOSSIBLE
    arcs = _without_cut_arcs(arcs, given, rulings.at(rulings.label == CUT_BEFORE), base)
    arcs = _with_forced_spans(arcs, given, spans.at(np.isposinf(spans.bonus)))
    arcs, twins = _end_in_twins(arcs, base)
    room = np.full((*given.shape[:2], len(twins)), IMPOSSIBLE)
    found = DictionaryCRF(base, arcs, tag_ids, label_numbers, twins)
    return found, np.concatenate([given, room], axis=2)


def _impossible(scores: Floats) -> Floats:
    """What is forbidden so far, impossible from here on."""
    return np.where(scores <= FORBIDDEN / 2, IMPOSSIBLE, scores)


def _for_each_label(rulings: Rulings, learnt: int) -> Rulings:
    """The rulings on spans; one on all labels becomes one on each that the model has learnt."""
    some = rulings.at(rulings.label >= 0)
    every = rulings.at(rulings.label == ANY)
    each = every.at(np.repeat(np.arange(len(every.label)), learnt))
    each = each._replace(label=np.tile(np.arange(learnt), len(every.label)))
    return Rulings(*(np.concatenate(pair) for pair in zip(some, each, strict=True)))


def _check_count(arcs: int, characters: int) -> None:
    if arcs > ARCS_MOST:
        raise InputError(
            f"the dictionary's entries make {arcs:,} spans in a text of {characters:,} characters, "
            f"and {ARCS_MOST:,} is the limit: give the words fewer labels, or use shorter texts"
        )


class _Starts(NamedTuple):
    """Where entries with a learnt label start, each place and label once; all [S]."""

    sentence: Ints
    start: Ints
    label: Ints
    longest: Ints  # characters of the longest entry
    has_room: Bools  # the sentence goes on behind it
    of_entry: Ints  # [entries]: the row of each entry


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
    """The spans from each start on: those up to the longest entry, and the beginnings of longer
    ones.
    """
    sentence, start, label, longest, has_room, of_entry = starts
    only, first, inside, last = tag_ids.shapes[label].T
    row, depth = cells(longest)
    offset = np.cumsum(longest) - longest
    score = np.empty(len(row))
    score[offset] = given[sentence, start, only]
    open_score = given[sentence, start, first]  # of the span so far, if it goes on
    for nth in range(1, int(longest.max(initial=0))):
        here = np.flatnonzero(longest > nth)
        before = (first if nth == 1 else inside)[here]
        at = given[sentence[here], start[here] + nth]
        nth_here = np.arange(len(here))
        ends = steps[before, last[here]] + at[nth_here, last[here]]
        score[offset[here] + nth] = open_score[here] + ends
        open_score[here] += steps[before, inside[here]] + at[nth_here, inside[here]]
    bonus = np.where(np.isposinf(entries.bonus), 0.0, np.maximum(entries.bonus, FORBIDDEN))
    np.add.at(score, offset[of_entry] + entries.end - entries.start - 1, bonus)
    alone = depth == 0
    last_tag = np.where(alone, only[row], last[row])
    enters = np.where(alone, only[row], first[row])
    place = sentence[row], start[row], start[row] + depth + 1
    whole = SpanArcs(
        Arcs(*place, enters, last_tag, score), label[row], last_tag, np.zeros(len(row), dtype=bool)
    )

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
    """Entries with labels that are new to the model: they have the scores of O."""
    outside = crf.ids.get("O", 0)
    score = np.maximum(np.where(np.isposinf(entries.bonus), 0.0, entries.bonus), FORBIDDEN)
    length = entries.end - entries.start
    for nth in range(int(length.max(initial=0))):
        here = np.flatnonzero(length > nth)
        score[here] += given[entries.sentence[here], entries.start[here] + nth, outside]
    score += (length - 1) * steps[outside, outside]
    only, _, _, last = tag_ids.shapes[entries.label].T
    tag = np.full(len(length), outside)
    arcs = Arcs(entries.sentence, entries.start, entries.end, tag, tag, score)
    last_tag = np.where(length == 1, only, last)
    return SpanArcs(arcs, entries.label, last_tag, np.zeros(len(length), dtype=bool))


def _joined_arcs(*parts: SpanArcs) -> SpanArcs:
    arcs = Arcs(*map(np.concatenate, zip(*(part.arcs for part in parts), strict=True)))
    return SpanArcs(arcs, *map(np.concatenate, zip(*(part[1:] for part in parts), strict=True)))


def _without_cut_arcs(spans: SpanArcs, emissions: Floats, cuts: Rulings, crf: NumpyCRF) -> SpanArcs:
    """No span goes on at a cut: no tag of the chain that does, and no arc over it."""
    inside = np.flatnonzero(~crf.allowed_start)
    emissions[cuts.sentence[:, None], cuts.start[:, None], inside] = IMPOSSIBLE
    is_cut = np.zeros(emissions.shape[:2], dtype=bool)
    is_cut[cuts.sentence, cuts.start] = True
    sentence, start, end, *_ = spans.arcs
    return spans.at(_count(is_cut, sentence, start + 1, end) == 0)


def _with_forced_spans(spans: SpanArcs, emissions: Floats, forced: Rulings) -> SpanArcs:
    """Where a span is forced nothing else can be: neither another arc nor a tag of the chain."""
    taken = np.zeros(emissions.shape[:2], dtype=bool)
    row, nth = cells(forced.end - forced.start)
    taken[forced.sentence[row], forced.start[row] + nth] = True
    emissions[taken] = IMPOSSIBLE
    sentence, start, end, *_ = spans.arcs
    known = forced.sentence, forced.start, forced.end, forced.label
    is_forced = _find_rows(known, (sentence, start, end, spans.label)) >= 0
    return spans.at((_count(taken, sentence, start, end) == 0) | (is_forced & ~spans.runs_on))


def _count(marked: Bools, sentence: Ints, start: Ints, end: Ints) -> Ints:
    """[S]: how many characters from `start` to `end` are marked [B, T]."""
    before = np.cumsum(marked, axis=1)
    before = np.pad(before, ((0, 0), (1, 0)))
    return before[sentence, end] - before[sentence, start]


def _end_in_twins(spans: SpanArcs, crf: NumpyCRF) -> tuple[SpanArcs, Ints]:
    """Where a tag may be followed by one that makes its span longer, a whole span ends in a twin of
    the tag.

    The twin has the tag's scores, but nothing that makes the span longer may follow it. Only BIO
    needs that.
    """
    last = spans.arcs.last
    may_go_on: Bools = np.any(crf.goes_on, axis=1)
    closes = ~spans.runs_on & may_go_on[last]
    twins = np.unique(last[closes])
    last = np.where(closes, len(crf.tags) + np.searchsorted(twins, last), last)
    return spans._replace(arcs=spans.arcs._replace(last=last)), twins


def _with_closed_twins(crf: NumpyCRF, twins: Ints) -> CRFScores:
    """The scores of a chain, with twins of some tags behind the tags; no step leads into them."""
    start, steps, end = map(_impossible, crf.exact)
    K = len(start)
    size = K + len(twins)
    wide = CRFScores(
        np.full(size, IMPOSSIBLE), np.full((size, size), IMPOSSIBLE), np.append(end, end[twins])
    )
    wide.start[:K] = start
    wide.transitions[:K, :K] = steps
    wide.transitions[K:, :K] = np.where(crf.goes_on[twins], IMPOSSIBLE, steps[twins])
    return wide
