"""The most probable spans of a sentence: those that all spans, asked one by one, would give, and in
that order.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.errors import TagError
from hanlattice.inference import span_search
from hanlattice.inference.constraints import constrain
from hanlattice.inference.span_search import span_scores
from hanlattice.nn.crf import CRF
from hanlattice.text.boundaries import CUT, FREE, JOIN
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, labels_of, tag_set
from tests.nn.test_nn_crf import WORD_TAGS, draw, trained


def every_span(module: CRF, emissions: Tensor, lengths: Tensor) -> list[list[Span]]:
    """All spans that a sentence can have, each with its probability, the best first."""
    labels = labels_of(module.tags)
    spans = [
        [Span(a, b, x) for a in range(n) for b in range(a + 1, n + 1) for x in labels]
        for n in lengths.tolist()
    ]
    scores = span_scores(module, emissions, lengths, spans)
    rows = [
        [
            Span(span.start, span.end, span.label, score)
            for span, score in zip(row, each, strict=True)
            if score > 1e-300
        ]
        for row, each in zip(spans, scores, strict=True)
    ]
    return [sorted(row, key=lambda span: -(span.score or 0.0)) for row in rows]


def candidates(
    module: CRF, emissions: Tensor, lengths: Tensor, n: int, min_score: float = 0.0
) -> list[list[Span]]:
    labels = labels_of(module.tags)
    found: list[list[Span]] = [[] for _ in lengths]
    for b, start, end, label, score in zip(
        *span_search.candidates(module, emissions, lengths, n, min_score), strict=True
    ):
        found[b].append(Span(int(start), int(end), labels[label], float(score)))
    return found


def assert_same(actual: list[Span], expected: list[Span]) -> None:
    """The same spans; those that are as good as equal may come in another order."""
    assert [span.score for span in actual] == pytest.approx(
        [span.score for span in expected], rel=1e-9, abs=1e-12
    )
    scores = {(span.start, span.end, span.label): span.score for span in expected}
    for span in actual:
        assert span.score == pytest.approx(
            scores.get((span.start, span.end, span.label), -1), rel=1e-9, abs=1e-12
        )


@settings(max_examples=30)
@given(
    scheme=st.sampled_from(SCHEMES),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([0.0, 1.0, 8.0]),
    longest=st.integers(1, 9),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_all_spans_come_with_the_probability_that_they_have(
    scheme: str, seed: int, scale: float, longest: int, dtype: torch.dtype
) -> None:
    module = trained(scheme, seed=seed).to(dtype)
    emissions, lengths = draw(module, 3, longest, seed, scale)
    emissions = emissions.to(dtype)
    expected = every_span(module, emissions, lengths)
    for actual, wanted in zip(candidates(module, emissions, lengths, 1000), expected, strict=True):
        assert_same(actual, wanted)


@settings(max_examples=30)
@given(
    scheme=st.sampled_from(SCHEMES),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1.0, 8.0]),
    n=st.integers(1, 12),
    min_score=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
)
def test_the_best_of_them(scheme: str, seed: int, scale: float, n: int, min_score: float) -> None:
    module = trained(scheme, seed=seed)
    emissions, lengths = draw(module, 4, 11, seed, scale)
    expected = every_span(module, emissions, lengths)
    for actual, wanted in zip(
        candidates(module, emissions, lengths, n, min_score), expected, strict=True
    ):
        high = [span for span in wanted if span.score is not None and span.score >= min_score][:n]
        assert len(actual) == len(high)
        assert [span.score for span in actual] == pytest.approx(
            [span.score for span in high], rel=1e-9
        )
        scores = [span.score for span in actual]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("scheme", ["BMES", "BIO"])
def test_what_cannot_be_is_not_found(scheme):
    """Of a segmenter, whose gaps may be known: words across a cut, or from inside of what belongs
    together.
    """
    module = trained(scheme, seed=3, tags=WORD_TAGS[scheme])
    emissions, _ = draw(module, 1, 4, 3)
    under = constrain(module, emissions, torch.tensor([[CUT, FREE, CUT, JOIN]]))
    (found,) = candidates(module, under, torch.tensor([4]), 100)
    assert {(span.start, span.end) for span in found} == {(0, 1), (0, 2), (1, 2), (2, 4)}
    assert found[0] == Span(2, 4, "WORD")
    assert found[0].score == pytest.approx(1.0)


def test_little_is_looked_at_where_the_model_is_sure(monkeypatch):
    """Most beginnings are given up at their first character: the work does not grow with the square
    of the length.
    """
    module = CRF(tag_set("XY", "BMES"), "BMES").double()
    emissions = torch.zeros(1, 400, len(module.tags), dtype=torch.float64)
    emissions[..., 0] = 12.0  # O
    emissions[0, 100, module.ids["B-X"]] = emissions[0, 101, module.ids["E-X"]] = 30.0
    sizes: list[int] = []
    real = span_search._above
    monkeypatch.setattr(
        span_search,
        "_above",
        lambda spans, bars: (sizes.append(len(spans.cell)), real(spans, bars))[1],
    )
    (found,) = candidates(module, emissions, torch.tensor([400]), 1)
    assert [(span.start, span.end, span.label) for span in found] == [(100, 102, "X")]
    assert sizes[0] == 800
    assert sum(sizes[1:]) < 10


def test_odd_sizes():
    module = trained("BMES")
    emissions, _ = draw(module, 2, 1, 0)
    (one, other) = candidates(module, emissions, torch.tensor([1, 1]), 10)
    assert {span.label for span in one} == {span.label for span in other} == {"X", "Y"}
    outside = CRF(["O"], "BMES").double()
    assert candidates(outside, torch.zeros(1, 3, 1, dtype=torch.float64), torch.tensor([3]), 5) == [
        []
    ]
    nothing = span_search.candidates(module, emissions[:0], torch.zeros(0, dtype=torch.int64), 5)
    assert all(len(array) == 0 for array in nothing)
    assert nothing.score.dtype == np.float64


def test_tags_that_are_missing_are_named():
    with pytest.raises(TagError, match="no tag 'I-X'"):
        span_search.candidates(CRF(["O", "B-X"], "BIO"), torch.zeros(1, 2, 2), torch.tensor([2]), 1)
