"""Tags as numbers: over many texts at once, what `tags_to_spans` and `spans_to_tags` do for one,
legal tags or not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import TagError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, TagIds, spans_to_tags, tag_set, tags_to_spans
from tests.helpers.strategies import sentences

LABELS = ["LOC", "PER.NAM", "组织-A"]
schemes = st.sampled_from(SCHEMES)


def read(ids: TagIds, tags: list[list[int]]) -> list[list[Span]]:
    result: list[list[Span]] = [[] for _ in tags]
    flat = np.array([tag for row in tags for tag in row], dtype=np.int64)
    spans = ids.spans(flat, np.array([len(row) for row in tags], dtype=np.int64))
    for text, start, end, label in zip(*(array.tolist() for array in spans), strict=True):
        result[text].append(Span(start, end, ids.labels[label]))
    return result


@given(schemes, st.data())
def test_any_tags_legal_or_not(scheme: str, data: st.DataObject) -> None:
    names = data.draw(st.permutations(tag_set(LABELS, scheme)))
    tags = data.draw(st.lists(st.lists(st.integers(0, len(names) - 1), max_size=12), max_size=5))
    assert read(TagIds(names, scheme), tags) == [
        tags_to_spans([names[tag] for tag in row], scheme) for row in tags
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_span_goes_on_in_the_next_text(scheme: str) -> None:
    names = tag_set(LABELS, scheme)
    ids = TagIds(names, scheme)
    whole = ids.tags([[Span(0, 4, "LOC")]], np.array([4])).tolist()
    for cut in (1, 2, 3):
        texts = [whole[:cut], [], whole[cut:]]
        expected = [tags_to_spans([names[tag] for tag in text], scheme) for text in texts]
        assert read(ids, texts) == expected
    assert read(ids, [whole]) == [[Span(0, 4, "LOC")]]


@given(schemes, st.lists(sentences(), max_size=5), st.integers(0, 2))
def test_spans_to_tags_and_back(
    scheme: str, given_sentences: list[Sentence], empty_at: int
) -> None:
    rows = [(len(sentence), sentence.spans or ()) for sentence in given_sentences]
    rows.insert(min(empty_at, len(rows)), (0, ()))
    names = tag_set(LABELS, scheme)
    ids = TagIds(names, scheme)
    tags = ids.tags([spans for _, spans in rows], np.array([length for length, _ in rows]))
    expected = [spans_to_tags(spans, length, scheme) for length, spans in rows]
    assert [names[tag] for tag in tags.tolist()] == [tag for row in expected for tag in row]
    split = np.split(tags, np.cumsum([length for length, _ in rows])[:-1])
    assert read(ids, [part.tolist() for part in split]) == [list(spans) for _, spans in rows]


@given(schemes, sentences())
def test_a_label_that_no_tag_has_is_left_out(scheme: str, sentence: Sentence) -> None:
    names = tag_set(LABELS[:1], scheme)
    tags = TagIds(names, scheme).tags([sentence.spans or ()], np.array([len(sentence)]))
    kept = [span for span in sentence.spans or () if span.label == LABELS[0]]
    assert [names[tag] for tag in tags.tolist()] == spans_to_tags(kept, len(sentence), scheme)


def message_of(call: Callable[[], object]) -> str:
    """What the error says; "" where there is none."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


loose_spans = st.builds(
    lambda start, long, label: Span(start, start + long, label),
    st.integers(0, 7),
    st.integers(1, 4),
    st.sampled_from(LABELS),
)
loose_texts = st.lists(st.tuples(st.lists(loose_spans, max_size=4), st.integers(0, 10)), max_size=4)


@given(schemes, loose_texts)
def test_spans_that_cross_or_run_over_are_refused_like_those_of_one_text(
    scheme: str, given_texts: list[tuple[list[Span], int]]
) -> None:
    ids = TagIds(tag_set(LABELS, scheme), scheme)
    lengths = np.array([length for _, length in given_texts], dtype=np.int64)
    ordered = [sorted(spans) for spans, _ in given_texts]
    said = [
        message_of(partial(spans_to_tags, row, length, scheme))
        for row, length in zip(ordered, lengths.tolist(), strict=True)
    ]
    assert message_of(lambda: ids.tags(ordered, lengths)) == next(filter(None, said), "")
    unordered = message_of(lambda: ids.tags([spans for spans, _ in given_texts], lengths))
    assert bool(unordered) == any(said)


WRONG = {
    "after the end": (
        [(), (Span(1, 4, "LOC"),), ()],
        r"\[1, 4\) overlaps another, or the end of 3 characters",
    ),
    "after the last text's end": (
        [(), (), (Span(4, 6, "LOC"),)],
        r"\[4, 6\) .* the end of 5 characters",
    ),
    "twice": ([(Span(0, 2, "LOC"), Span(0, 2, "LOC"))], r"\[0, 2\) overlaps another"),
    "inside another": ([(Span(0, 4, "LOC"), Span(1, 2, LABELS[1]))], r"\[1, 2\) overlaps another"),
    "from right to left": ([(Span(2, 4, "LOC"), Span(0, 3, "LOC"))], r"\[0, 3\) overlaps another"),
}


@pytest.mark.parametrize(("spans", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_span_at_a_wrong_place_is_named(spans: list[tuple[Span, ...]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TagIds(tag_set(LABELS, "BMES"), "BMES").tags(spans, np.array([4, 3, 5]))


def test_a_span_may_end_where_the_next_begins_in_any_order():
    ids = TagIds(tag_set(LABELS, "BIO"), "BIO")
    spans = [Span(2, 4, "LOC"), Span(0, 2, "LOC")]
    assert ids.tags([spans, spans], np.array([4, 4])).tolist() == [1, 2, 1, 2] * 2


def test_a_span_that_is_left_out_is_in_nobodys_way():
    ids = TagIds(tag_set(LABELS[:1], "BIO"), "BIO")
    assert ids.tags([(Span(0, 2, "LOC"), Span(1, 9, "GPE"))], np.array([2])).tolist() == [1, 2]


def test_nothing_in_nothing_out():
    ids = TagIds(tag_set(LABELS, "BMES"), "BMES")
    nothing = np.empty(0, dtype=np.int64)
    assert [array.tolist() for array in ids.spans(nothing, nothing)] == [[], [], [], []]
    assert ids.tags([], nothing).tolist() == []


def test_tags_of_another_scheme_are_refused():
    with pytest.raises(TagError, match="'M-LOC' is not a tag of BIO"):
        TagIds(["O", "B-LOC", "M-LOC"], "BIO")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_missing_tag_is_named(scheme: str) -> None:
    names = tag_set(LABELS, scheme)
    for gone in names[1:]:
        with pytest.raises(
            TagError, match=f"the list of {scheme} tags lacks {gone}: expected all of every label"
        ):
            TagIds([name for name in names if name != gone], scheme)
    with pytest.raises(TagError, match="lacks O:"):
        TagIds([], scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_o_spans_cover_every_text(scheme: str) -> None:
    numbers = TagIds(tag_set(["WORD"], scheme)[1:], scheme)
    lengths = np.array([3, 0, 2])
    words = [[Span(0, 1, "WORD"), Span(1, 3, "WORD")], [], [Span(0, 2, "WORD")]]
    result = numbers.spans(numbers.tags(words, lengths), lengths)
    assert list(zip(*(array.tolist() for array in result[:3]), strict=True)) == [
        (0, 0, 1),
        (0, 1, 3),
        (2, 0, 2),
    ]
    with pytest.raises(ValueError, match="no span covers character 1 of text 2"):
        numbers.tags([*words[:2], [Span(0, 1, "WORD")]], lengths)
