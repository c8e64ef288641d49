"""Span: checked when it is made, compared by place and label, and shown as JSONL has it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Span


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 2), (3, 2), (0, 0)])
def test_a_span_has_a_place(start, end):
    with pytest.raises(ValueError, match=rf"a span needs 0 <= start < end, not \[{start}, {end}\)"):
        Span(start, end, "LOC")


def test_score_and_text_do_not_count_in_comparisons():
    plain = Span(0, 3, "LOC")
    scored = Span(0, 3, "LOC", 0.5, "南京市")
    assert plain == scored
    assert hash(plain) == hash(scored)
    assert plain not in (Span(0, 3, "PER"), Span(0, 2, "LOC"), Span(1, 3, "LOC"))
    assert sorted([Span(2, 3, "A"), Span(0, 3, "B"), Span(0, 3, "A"), Span(0, 1, "C")]) == [
        Span(0, 1, "C"),
        Span(0, 3, "A"),
        Span(0, 3, "B"),
        Span(2, 3, "A"),
    ]


@given(st.integers(0, 9), st.integers(1, 9), st.integers(0, 1000))
def test_shifting_there_and_back(start, length, by):
    span = Span(start, start + length, "LOC", 0.25, "x")
    moved = span.shifted(by)
    assert (moved.start, moved.end) == (start + by, start + length + by)
    assert dataclasses.astuple(moved.shifted(-by)) == dataclasses.astuple(span)
    with pytest.raises(ValueError, match="a span needs"):
        span.shifted(-start - 1)


def test_as_a_record():
    assert Span(0, 3, "LOC", None, "南京市").as_dict() == {
        "start": 0,
        "end": 3,
        "label": "LOC",
        "text": "南京市",
    }
    assert Span(0, 1, "LOC", 0.98765).as_dict() == {
        "start": 0,
        "end": 1,
        "label": "LOC",
        "text": "",
        "score": 0.9877,
    }
    assert Span(0, 1, "LOC", 0.0).as_dict()["score"] == 0.0


def test_a_span_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Span(0, 1, "LOC").start = 1  # type: ignore[misc]
