"""A CRF with a dictionary's labels: what it decodes and every probability equal those of all
taggings, enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.inference import dictionary_crf
from hanlattice.inference.crf import NumpyCRF
from hanlattice.inference.dictionary_crf import arc_counts, with_dictionary
from hanlattice.inference.span_search import (
    best_spans,
    candidates,
    decoded_span_scores,
    span_scores,
)
from hanlattice.text.rules import ANY, CUT_BEFORE, Rulings
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, TagIds, labels_of, may_follow, tag_set, tags_to_spans
from tests.nn.test_nn_crf import WORD_TAGS, draw, trained

NEW = ("NEW", "OTHER")
Ruling = tuple[int, int, int, float]


def every_tagging(tags: tuple[str, ...], length: int, scheme: str) -> Iterator[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [()]
    for _ in range(length):
        rows = [
            (*row, tag)
            for row in rows
            for tag in tags
            if may_follow(row[-1] if row else None, tag, scheme)
        ]
    return (row for row in rows if may_follow(row[-1], None, scheme))


def weighed(
    crf: NumpyCRF, emissions: np.ndarray, rulings: list[Ruling], labels: list[str], trust: float
) -> dict:
    """The weight of each tagging of one sentence that can be: what the dictionary's words add is
    added to its spans.

    Of what it forbids there is as little as can be: where every tagging has some, only those with
    the fewest count.
    """
    learnt = labels_of(crf.tags)
    tags = (*crf.tags, *tag_set([label for label in labels if label not in learnt], crf.scheme)[1:])
    start, between, end = crf.exact
    weights = {}
    broken = {}
    for tagging in every_tagging(tags, len(emissions), crf.scheme):
        numbers = [crf.ids.get(tag, crf.ids.get("O", 0)) for tag in tagging]
        total = (
            start[numbers[0]]
            + end[numbers[-1]]
            + sum(emissions[t, k] for t, k in enumerate(numbers))
        )
        total += sum(between[left, right] for left, right in pairwise(numbers))
        spans = {(span.start, span.end, span.label) for span in tags_to_spans(tagging, crf.scheme)}
        said = set()
        for low, high, label, bonus in rulings:
            if label == CUT_BEFORE:
                total += 0.0 if may_follow(None, tagging[low], crf.scheme) else -math.inf
            for name in learnt if label == ANY else [] if label == CUT_BEFORE else [labels[label]]:
                there = (low, high, name) in spans
                said.add((low, high, name))
                if bonus == math.inf:
                    total += 0.0 if there else -math.inf
                elif there and bonus == -math.inf:
                    broken[tagging] = broken.get(tagging, 0) + 1
                elif there:
                    total += trust if math.isnan(bonus) else bonus
        if (
            all(label not in NEW or (low, high, label) in said for low, high, label in spans)
            and total > -math.inf
        ):
            weights[tagging] = total
    fewest = min(broken.get(tagging, 0) for tagging in weights)
    weights = {
        tagging: weight for tagging, weight in weights.items() if broken.get(tagging, 0) == fewest
    }
    top = max(weights.values())
    whole = top + math.log(sum(math.exp(weight - top) for weight in weights.values()))
    return {tagging: weight - whole for tagging, weight in weights.items()}


@st.composite
def said(draw: st.DrawFn, length: int, labels: int, new: int) -> list[Ruling]:
    """Rulings on different spans of a sentence, at most one of which commands; `new` labels follow
    the learnt ones.
    """
    spans = [(a, b) for a in range(length) for b in range(a + 1, length + 1)]
    chosen = draw(st.lists(st.sampled_from(spans), min_size=1, max_size=4, unique=True))
    found: list[Ruling] = []
    for low, high in chosen:
        label = draw(st.integers(0, labels + new - 1))
        bonus = draw(st.sampled_from([2.0, 7.0, -3.0, math.nan]))
        if label < labels and draw(st.integers(0, 2)) == 0:
            label = draw(st.sampled_from([label, ANY]))
            bonus = -math.inf
        found.append((low, high, label, bonus))
    command = draw(st.sampled_from(["none", "force", "cut"]))
    low, high, label, _ = found[0]
    if command == "force" and label != ANY:
        found[0] = (low, high, label, math.inf)
    elif command == "cut" and length > 1:
        found.append((at := draw(st.integers(1, length - 1)), at + 1, CUT_BEFORE, 0.0))
    return found


def as_arrays(rows: list[list[Ruling]]) -> Rulings:
    flat = [(b, *ruling[:3]) for b, row in enumerate(rows) for ruling in row]
    bonus = [ruling[3] for row in rows for ruling in row]
    return Rulings(*np.array(flat, dtype=np.int64).T, np.array(bonus))


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    scheme=st.sampled_from(SCHEMES),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([0.5, 4.0]),
)
def test_everything_is_as_all_taggings_say(
    data: st.DataObject, scheme: str, seed: int, scale: float
) -> None:
    module = trained(scheme, seed=seed, tags=data.draw(st.sampled_from([None, WORD_TAGS[scheme]])))
    emissions, lengths = draw(module, 2, 4, seed, scale)
    crf = module.values()
    learnt = labels_of(module.tags)
    sizes = lengths.numpy().astype(np.int64)
    labels = [*learnt, *NEW] if "O" in module.tags else learnt
    trust = 1.5
    rows = [
        data.draw(said(length, len(learnt), len(labels) - len(learnt))) for length in sizes.tolist()
    ]
    given_ = emissions if data.draw(st.booleans()) else emissions.numpy()
    base = module if not isinstance(given_, np.ndarray) else crf
    rulings = as_arrays(rows)
    learnt_tags = TagIds(module.tags, scheme)
    ruled, states = with_dictionary(base, given_, sizes, rulings, learnt_tags, labels, trust)
    every = [
        weighed(crf, emissions.numpy()[b, :n], rows[b], labels, trust) for b, n in enumerate(sizes)
    ]

    best = ruled.decode(states, sizes)
    readings, logs = ruled.readings(states, sizes, 5)
    chances = ruled.marginals(states, sizes)
    found = candidates(ruled, states, sizes, 1000)
    for b, weights in enumerate(every):
        ranked = sorted(weights.values(), reverse=True)
        tagging = tuple(ruled.tag_ids.names[tag] for tag in best[b, : sizes[b]])
        assert weights[tagging] == pytest.approx(ranked[0], abs=1e-6)
        for tags, log, wanted in zip(readings[b], logs[b], ranked, strict=False):
            assert log == pytest.approx(wanted, abs=1e-6)
            reading = tuple(ruled.tag_ids.names[tag] for tag in tags[: sizes[b]])
            assert weights[reading] == pytest.approx(wanted, abs=1e-6)
        assert np.isfinite(logs[b]).sum() == min(5, len(ranked))
        for t in range(sizes[b]):
            for k, tag in enumerate(ruled.tag_ids.names):
                wanted = sum(math.exp(weight) for each, weight in weights.items() if each[t] == tag)
                assert chances[b, t, k] == pytest.approx(wanted, abs=1e-9)
        spans: dict[Span, float] = {}
        for each, weight in weights.items():
            for span in tags_to_spans(each, scheme):
                spans[span] = spans.get(span, 0.0) + math.exp(weight)
        here = found.at(found.sentence == b)
        columns = (here.start.tolist(), here.end.tolist(), here.label.tolist())
        names = ruled.tag_ids.labels
        scored = {
            Span(low, high, names[label]): p
            for low, high, label, p in zip(*columns, here.score, strict=True)
        }
        assert {span: p for span, p in spans.items() if p > 1e-200} == pytest.approx(
            scored, rel=1e-6, abs=1e-12
        )
        assert list(here.score) == sorted(here.score, reverse=True)
        few = candidates(ruled, states, sizes, 2, 0.01)
        assert list(few.at(few.sentence == b).score) == pytest.approx(
            [p for p in here.score if p >= 0.01][:2], abs=1e-9
        )

    flat = ruled.tag_ids.spans(np.concatenate([best[b, :n] for b, n in enumerate(sizes)]), sizes)
    scores = decoded_span_scores(ruled, states, sizes, best, *flat[:3])
    for b, low, high, label, p in zip(*(column.tolist() for column in flat), scores, strict=True):
        wanted = sum(
            math.exp(w)
            for each, w in every[b].items()
            if Span(low, high, ruled.tag_ids.labels[label]) in tags_to_spans(each, scheme)
        )
        assert p == pytest.approx(wanted, abs=1e-9)
    asked = [
        [Span(a, e, label) for a in range(n) for e in range(a + 1, n + 1) for label in learnt]
        for n in sizes
    ]
    for b, row in enumerate(span_scores(ruled, states, sizes, asked)):
        for span, p in zip(asked[b], row, strict=True):
            assert p == pytest.approx(
                sum(
                    math.exp(w)
                    for each, w in every[b].items()
                    if span in tags_to_spans(each, scheme)
                ),
                abs=1e-9,
            )
    assert (best_spans(ruled, states, sizes, 0.3).score > 0.3).all()


def entries(count: int, length: int, labels: int) -> Rulings:
    """So many entries of some characters in one sentence, spread over labels that are new to the
    model.
    """
    start = np.arange(count) % 40
    label = 2 + np.arange(count) % labels
    return Rulings(np.zeros_like(start), start, start + length, label, np.full(count, 1.0))


def test_the_cost_follows_the_entries_and_not_the_labels() -> None:
    """As many arcs for one label as for a thousand, and no more states of the chain than the model
    has tags.
    """
    module = trained("BMES", seed=1)
    tag_ids = TagIds(module.tags, "BMES")
    crf = module.values()
    emissions = np.random.default_rng(1).normal(size=(1, 50, len(module.tags)))
    names = [*tag_ids.labels, *(f"L{number}" for number in range(1000))]
    for labels in (1, 1000):
        given_ = crf, emissions, np.array([50]), entries(1000, 4, labels), tag_ids, names, 1.0
        ruled, states = with_dictionary(*given_)
        assert len(ruled.arcs.start) == 1000
        assert states.shape[2] == len(ruled.scores.start) == len(module.tags)
        assert len(ruled.tag_ids.labels) == len(tag_ids.labels) + labels
        assert not ruled.decode(states, np.array([50]))[0].min() < 0


def test_entries_inside_entries_cost_their_longest() -> None:
    """Words of 1 to n characters that start at one place make n spans, not a triangle of states."""
    module = trained("BMES", seed=1)
    tag_ids = TagIds(module.tags, "BMES")
    lengths = np.array([64])
    end = np.arange(1, 65)
    zeros = np.zeros_like(end)
    rulings = Rulings(zeros, zeros, end, zeros, np.full(64, 1.0))
    emissions = np.zeros((1, 64, len(module.tags)))
    ruled, _ = with_dictionary(
        module.values(), emissions, lengths, rulings, tag_ids, tag_ids.labels, 1.0
    )
    assert len(ruled.arcs.start) == 64
    assert arc_counts(rulings, 1, len(tag_ids.labels)) >= 64


def test_more_than_can_be_weighed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary_crf, "ARCS_MOST", 99)
    module = trained("BMES", seed=1)
    tag_ids = TagIds(module.tags, "BMES")
    emissions = np.zeros((1, 50, len(module.tags)))
    names = [*tag_ids.labels, "NEW"]
    given_ = module.values(), emissions, np.array([50]), entries(100, 2, 1), tag_ids, names, 1.0
    with pytest.raises(
        InputError, match="100 spans in a text of 50 characters, and 99 is the limit"
    ):
        with_dictionary(*given_)
