"""The best set of spans: the one that comes out of trying all sets, with the probabilities of all
taggings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.inference import span_search
from hanlattice.inference.constraints import constrain
from hanlattice.inference.span_search import best_spans, candidates, span_scores
from hanlattice.nn.crf import CRF
from hanlattice.ops.crf import log_likelihood
from hanlattice.text.boundaries import CUT, FREE
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, labels_of, spans_to_tags, tags_to_spans
from tests.nn.test_nn_crf import draw, trained

Spans = tuple[Span, ...]


@cache
def every_set(n: int, start: int = 0) -> tuple[Spans, ...]:
    """All sets of spans X and Y from a character on that do not overlap: each is what one legal
    tagging says.
    """
    if start == n:
        return ((),)
    ends = ((end, label) for end in range(start + 1, n + 1) for label in "XY")
    begun = ((Span(start, end, label), *rest) for end, label in ends for rest in every_set(n, end))
    return (*every_set(n, start + 1), *begun)


def chances(module: CRF, emissions: Tensor) -> dict[Span, float]:
    """Of every span of a sentence [T, K], summed over all taggings."""
    sets = every_set(len(emissions))
    tags = torch.tensor(
        [[module.ids[t] for t in spans_to_tags(s, len(emissions), module.scheme)] for s in sets]
    )
    repeated = emissions.expand(len(sets), -1, -1)
    lengths = torch.full((len(sets),), len(emissions))
    found: dict[Span, float] = {}
    for spans, chance in zip(
        sets, log_likelihood(repeated, tags, lengths, module.scores).exp().tolist(), strict=True
    ):
        for span in spans:
            found[span] = found.get(span, 0.0) + chance
    return found


def rows(module: CRF, emissions: Tensor, lengths: Tensor, threshold: float) -> list[list[Span]]:
    labels = labels_of(module.tags)
    found = [list[Span]() for _ in lengths]
    for b, start, end, label, score in zip(
        *best_spans(module, emissions, lengths, threshold), strict=True
    ):
        found[b].append(Span(int(start), int(end), labels[label], float(score)))
    return found


def viterbi(module: CRF, emissions: Tensor, lengths: Tensor) -> Iterator[Spans]:
    for tags, length in zip(
        module.decode(emissions, lengths).tolist(), lengths.tolist(), strict=True
    ):
        yield tuple(tags_to_spans([module.tags[k] for k in tags[:length]], module.scheme))


drawn = {
    "scheme": st.sampled_from(SCHEMES),
    "seed": st.integers(0, 10_000),
    "scale": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
}


@settings(max_examples=40)
@given(**drawn, threshold=st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.9, 1.0]))
def test_no_set_is_better(scheme: str, seed: int, scale: float, threshold: float) -> None:
    module = trained(scheme, seed=seed)
    emissions, lengths = draw(module, 3, 5, seed, scale)
    for b, found in enumerate(rows(module, emissions, lengths, threshold)):
        chance = chances(module, emissions[b, : lengths[b]])
        assert [span.score for span in found] == pytest.approx(
            [chance[span] for span in found], abs=1e-9
        )
        assert all(span.score is not None and span.score > threshold for span in found)
        assert all(left.end <= right.start for left, right in pairwise(found))
        best = max(
            sum(chance[span] - threshold for span in each) for each in every_set(int(lengths[b]))
        )
        assert sum(chance[span] - threshold for span in found) == pytest.approx(best, abs=1e-9)


@settings(max_examples=30)
@given(**drawn)
def test_half_of_the_f1_as_the_bar_gives_the_largest_expected_f1(
    scheme: str, seed: int, scale: float
) -> None:
    """Also larger than that of the best tagging."""
    module = trained(scheme, seed=seed)
    emissions, _ = draw(module, 1, 5, seed, scale)
    chance = chances(module, emissions[0])

    def expected_f1(spans: Spans) -> float:
        return 2 * sum(chance[span] for span in spans) / (len(spans) + sum(chance.values()))

    (path,) = viterbi(module, emissions, torch.tensor([5]))
    f1 = expected_f1(path)
    before = -1.0
    while f1 > before:  # each time at least as large, and largest where it stays
        (found,) = rows(module, emissions, torch.tensor([5]), f1 / 2)
        f1, before = expected_f1(tuple(found)), f1
        assert f1 >= before - 1e-12
    assert f1 == pytest.approx(max(map(expected_f1, every_set(5))), abs=1e-9)


def test_two_short_spans_or_a_long_one():
    """The threshold decides whether one long span beats the two short spans that it overlaps."""
    start = np.array([0, 2, 0])
    end = np.array([2, 4, 4])
    assert span_search._apart(start, end, np.array([0.42, 0.42, 0.55]) - 0.1) == [True, True, False]
    assert span_search._apart(start, end, np.array([0.42, 0.42, 0.55]) - 0.4) == [
        False,
        False,
        True,
    ]
    assert span_search._apart(start, end, np.array([0.42, 0.42, 0.55]) - 0.6) == [False] * 3
    assert span_search._apart(start[:0], end[:0], np.empty(0)) == []


def test_a_sentence_does_not_feel_its_neighbours():
    module = trained("BMES", seed=5)
    emissions, lengths = draw(module, 40, 12, 5)
    together = rows(module, emissions, lengths, 0.1)
    assert sum(map(len, together)) > 40
    for b, found in enumerate(together):
        (alone,) = rows(module, emissions[b : b + 1, : lengths[b]], lengths[b : b + 1], 0.1)
        assert alone == found
        assert [span.score for span in alone] == pytest.approx(
            [span.score for span in found], rel=1e-9
        )


def test_what_is_computed_in_parts_is_the_same(monkeypatch):
    module = trained("BIO", seed=2)
    emissions, lengths = draw(module, 6, 9, 2)
    whole = candidates(module, emissions, lengths, 50, 0.02)
    monkeypatch.setattr(span_search, "AT_ONCE", 7)
    for one, other in zip(whole, candidates(module, emissions, lengths, 50, 0.02), strict=True):
        assert one.tolist() == other.tolist()


def test_known_gaps_hold():
    module = trained("BMES", seed=1)
    emissions, _ = draw(module, 1, 4, 1)
    gaps = torch.tensor([[CUT, FREE, CUT, FREE]])
    (found,) = rows(module, constrain(module, emissions, gaps), torch.tensor([4]), 0.05)
    assert found
    assert all(span.end <= 2 or span.start >= 2 for span in found)


def test_nothing_at_the_bar_is_chosen():
    """Neither where spans overlap nor where they do not: a score is never above 1."""
    module = CRF(["B-X", "E-X", "M-X", "O", "S-X"], "BMES").double()
    emissions = torch.full((1, 4, 5), -200.0, dtype=torch.float64)
    for at, tag in enumerate(("B-X", "E-X", "O", "O")):
        emissions[0, at, module.ids[tag]] = 200.0
    assert rows(module, emissions, torch.tensor([4]), 0.999) == [[Span(0, 2, "X")]]
    assert rows(module, emissions, torch.tensor([4]), 1.0) == [[]]


def test_odd_sizes():
    module = trained("BMES")
    emissions, _ = draw(module, 2, 1, 0)
    nothing = best_spans(module, emissions[:0], torch.zeros(0, dtype=torch.int64), 0.3)
    assert all(len(array) == 0 for array in nothing)
    outside = CRF(["O"], "BMES").double()
    assert rows(outside, torch.zeros(1, 3, 1, dtype=torch.float64), torch.tensor([3]), 0.3) == [[]]
    found = rows(module, emissions, torch.tensor([1, 1]), 0.01)
    spans = [[Span(0, 1, "X"), Span(0, 1, "Y")]] * 2
    scores = span_scores(module, emissions, torch.tensor([1, 1]), spans)
    assert [row[0].score for row in found] == pytest.approx([max(row) for row in scores])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_gpu_chooses_the_same(scheme: str) -> None:
    module = trained(scheme, seed=4)
    emissions, lengths = draw(module, 20, 15, 4, 2.0)
    here = rows(module, emissions, lengths, 0.2)
    there = rows(module.cuda(), emissions.cuda(), lengths.cuda(), 0.2)
    assert there == here
    assert [s.score for row in there for s in row] == pytest.approx(
        [s.score for row in here for s in row], abs=1e-9
    )
