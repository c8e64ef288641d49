"""What people are shown: one line that a terminal cannot obey, plurals, and probabilities that are
not nothing.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.text.display import counted, rounded, visible
from hanlattice.text.span import Span
from tests.helpers.strategies import any_text


@given(any_text)
def test_visible_keeps_what_it_is_told_to(text: str) -> None:
    lines = visible(text, "\n\t")
    assert lines.count("\n") == text.count("\n")
    assert lines.count("\t") == text.count("\t")
    assert lines.replace("\n", "").replace("\t", "").replace("\u3000", "").isprintable()
    assert lines.split("\n") == [visible(line, "\t") for line in text.split("\n")]


def test_visible():
    assert visible("a\x1b[0m\x9b\x7f\n\ud800南\u3000") == "a\\x1b[0m\\x9b\\x7f\\n\\ud800南\u3000"


@pytest.mark.parametrize(
    ("number", "says"), [(0, "0 spans"), (1, "1 span"), (2, "2 spans"), (1234, "1,234 spans")]
)
def test_counted(number, says):
    assert counted(number, "span") == says


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_probability_keeps_its_size_and_its_place(one: float, other: float) -> None:
    assert (rounded(one) == 0) == (one == 0)
    assert rounded(one) == pytest.approx(one, rel=0.06)
    if one <= other:
        assert rounded(one) <= rounded(other)


def test_a_small_probability_is_not_none():
    assert [rounded(p) for p in (0.98765, 0.00123, 0.000987, 3.14e-9, 1.0)] == [
        0.9877,
        0.0012,
        0.00099,
        3.1e-9,
        1.0,
    ]
    assert rounded(0.123456789, 6) == 0.123457
    assert rounded(0.0000123456, 6) == 1.2e-5
    assert Span(0, 1, "LOC", 2.345e-6).as_dict()["score"] == 2.3e-6
    assert math.isclose(rounded(5e-324), 4.9e-324, rel_tol=0.1)
