"""Texts without white space: what is left, where it stood and what is known of its gaps, as a plain
loop has them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.text.boundaries import (
    CUT,
    FREE,
    JOIN,
    cuts_nothing,
    joints,
    name_gaps,
    names_without_space,
    remove_space,
    spans_without_space,
    without_space,
)
from hanlattice.text.span import Span
from hanlattice.text.trie import Matches
from tests.helpers.strategies import any_text, spans

SPACED = st.text(st.sampled_from("南京a1. \t\n\r\u3000\x1c\x85\u2028"), max_size=12)
texts = st.lists(SPACED | any_text, max_size=6)


@given(texts)
@example([])
@example([""])
@example(["", " ", ""])
@example(["南京", "南\n京", "\n"])
@example(["\n", "南", "a\n\nb"])
@example(["1 2", "12", "a b"])
def test_what_is_left_and_where_it_stood(given_texts: list[str]) -> None:
    solid = without_space(given_texts)
    assert list(solid.texts) == ["".join(text.split()) for text in given_texts]
    places = [
        index
        for text in given_texts
        for index, character in enumerate(text)
        if not character.isspace()
    ]
    if solid.offsets is None:
        assert not any(character.isspace() for text in given_texts for character in text)
    else:
        assert solid.offsets.tolist() == places
        assert any(character.isspace() for text in given_texts for character in text)


@given(SPACED | any_text)
def test_a_text_alone(text: str) -> None:
    assert remove_space(text) == "".join(character for character in text if not character.isspace())


@given(texts)
@example(["1", "2"])
@example(["a\nb", "c"])
def test_the_gaps_are_those_of_each_text_alone(given_texts: list[str]) -> None:
    alone = [
        gap
        for text in given_texts
        for gap, character in zip(joints(text).tolist(), text, strict=True)
        if not character.isspace()
    ]
    gaps = without_space(given_texts).gaps
    assert gaps is not None
    assert gaps.tolist() == alone
    ends = [len("".join(text.split())) for text in given_texts]
    firsts = [sum(ends[:index]) for index, length in enumerate(ends) if length]
    assert all(gaps[index] == CUT for index in firsts)


@given(texts)
@example(["a1 1.5", "南 ab"])
def test_words_that_cut_nothing(given_texts: list[str]) -> None:
    """Every span of every text as a word, by a plain loop."""
    solid = without_space(given_texts)
    rows = []
    expected = []
    for text in given_texts:
        gaps = [
            gap for gap, one in zip(joints(text).tolist(), text, strict=True) if not one.isspace()
        ] + [CUT]
        rows.append(
            [(start, end) for start in range(len(gaps) - 1) for end in range(start + 1, len(gaps))]
        )
        expected += [gaps[start] != JOIN != gaps[end] for start, end in rows[-1]]
    places = np.array([place for row in rows for place in row], dtype=np.int64).reshape(-1, 2)
    matches = Matches(
        np.array([len(row) for row in rows], dtype=np.int64),
        *places.T,
        np.zeros(len(places), np.int64),
    )
    lengths = np.array([len(text) for text in solid.texts], dtype=np.int64)
    assert cuts_nothing(given_texts, matches, lengths, solid.offsets).tolist() == expected


@given(texts)
@example(["南京", "长江 大桥"])
@example(["张", "\u3000三", "李四"])
def test_for_names_the_same_is_left_with_gaps_of_its_own(given_texts: list[str]) -> None:
    solid = names_without_space(given_texts)
    other = without_space(given_texts)
    assert solid.texts == other.texts
    assert (solid.offsets is None) == (other.offsets is None) == (solid.gaps is None)
    if solid.offsets is not None and other.offsets is not None and solid.gaps is not None:
        assert solid.offsets.tolist() == other.offsets.tolist()
        alone = [
            gap
            for text in given_texts
            for gap, character in zip(name_gaps(text).tolist(), text, strict=True)
            if not character.isspace()
        ]
        assert solid.gaps.tolist() == alone


def test_white_space_cuts_what_would_be_one_word() -> None:
    def gaps(*given_texts: str) -> list[int]:
        result = without_space(given_texts).gaps
        assert result is not None
        return result.tolist()

    assert gaps("19 98", "1998") == [CUT, JOIN, CUT, JOIN, CUT, JOIN, JOIN, JOIN]
    assert gaps("南京 市") == [CUT, FREE, CUT]


def moved(text: str, span: Span) -> tuple[int, int]:
    """Its edges in the text without white space, found by counting."""
    before = sum(not character.isspace() for character in text[: span.start])
    return before, before + sum(
        not character.isspace() for character in text[span.start : span.end]
    )


@given(
    (SPACED | any_text).flatmap(
        lambda text: st.tuples(st.just(text), spans(len(text), st.sampled_from(["WORD", "LOC"])))
    )
)
def test_spans_move_with_their_characters(drawn: tuple[str, tuple[Span, ...]]) -> None:
    text, given_spans = drawn
    solid, result = spans_without_space(text, given_spans)
    assert solid == "".join(text.split())
    kept = [span for span in given_spans if text[span.start : span.end].split()]
    assert [(span.start, span.end) for span in result] == [moved(text, span) for span in kept]
    assert [span.label for span in result] == [span.label for span in kept]
    for span, before in zip(result, kept, strict=True):
        assert solid[span.start : span.end] == "".join(text[before.start : before.end].split())


@pytest.mark.parametrize("text", ["", " ", "\n\u3000"])
def test_nothing_is_left_of_white_space(text: str) -> None:
    given_spans = [Span(0, len(text), "WORD")] if text else []
    assert spans_without_space(text, given_spans) == ("", [])
