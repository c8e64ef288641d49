"""Cutting: nothing is lost, nothing is too long, and a cut falls at a sentence end where there is
one.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.text.boundaries import JOIN, joints, pieces, sentences
from tests.helpers.strategies import any_text

ENDS = "。！？!?；;…\n"
CLOSERS = "”’』」）)]】》"
BLANKS = "，,、：: \t\r\u3000"
limits = st.integers(1, 12)
prose = st.text(st.sampled_from("甲乙丙丁。！\n”）， "), max_size=60)


def sentence_ends(text: str) -> list[int]:
    """Return where a sentence is over: behind its end marks and closing marks."""
    ends = []
    for place in range(1, len(text) + 1):
        before = text[:place].rstrip(CLOSERS)
        if before and before[-1] in ENDS:
            closers = len(before) < place
            if place == len(text) or text[place] not in (CLOSERS if closers else CLOSERS + ENDS):
                ends.append(place)
    return ends


@given(any_text | prose, limits)
def test_the_pieces_are_the_text(text, limit):
    found = pieces(text, limit)
    assert "".join(text[start:end] for start, end in found) == text
    assert found[0][0] == 0
    assert found[-1][1] == len(text)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(found))
    if len(text) > limit:
        assert all(0 < end - start <= limit for start, end in found)
    else:
        assert found == [(0, len(text))]


@given(prose, limits)
def test_each_cut_is_the_last_good_one(text, limit):
    """After a sentence end if one is in reach, else after a comma or a blank, else at the limit."""
    strong = sentence_ends(text)
    weak = [place + 1 for place, character in enumerate(text) if character in BLANKS + "\n"]
    for start, end in pieces(text, limit)[:-1]:
        reach = range(start + 1, start + limit + 1)
        # Closing marks alone do not end a sentence whose end mark is in the piece before.
        is_end = [
            text[start:place].rstrip(CLOSERS)[-1:] in (*ENDS,) for place in range(len(text) + 1)
        ]
        ends = [place for place in strong if place in reach and is_end[place]]
        blanks = [place for place in weak if place in reach]
        assert end == (ends or blanks or [start + limit])[-1]


@given(
    st.lists(st.text(st.sampled_from("甲乙丙，"), min_size=1, max_size=6), min_size=2, max_size=12)
)
def test_sentences_that_fit_are_never_broken(sentences):
    whole = [sentence + "。”" for sentence in sentences]
    text = "".join(whole)
    starts = {len("".join(whole[:place])) for place in range(len(whole))}
    assert {start for start, _ in pieces(text, 8)} <= starts


@pytest.mark.parametrize("mark", ENDS)
@pytest.mark.parametrize("closer", ["", *CLOSERS, "」』"])
def test_every_sentence_end_keeps_its_closing_marks(mark, closer):
    first = "他说，好" + mark + closer
    assert pieces(first + "甲乙丙丁戊己", 8) == [(0, len(first)), (len(first), len(first) + 6)]


def test_a_closing_mark_just_beyond_the_limit_stays_with_its_sentence():
    assert pieces("甲。乙丙。”丁", 5) == [(0, 2), (2, 7)]


@pytest.mark.parametrize(
    "text", ["字" * 100_000, "。" * 100_000, "，" * 100_000, "字。" * 50_000, "”" * 100_000]
)
def test_a_hundred_thousand_characters(text):
    found = pieces(text, 512)
    assert all(end - start <= 512 for start, end in found)
    assert len(found) == -(-100_000 // 512)


@given(any_text | prose)
def test_sentences_are_the_text_without_some_of_its_white_space(text):
    found = list(sentences(text))
    assert "".join("".join(found).split()) == "".join(text.split())
    place = 0
    for sentence in found:
        assert sentence
        assert sentence == sentence.strip()
        place = text.index(sentence, place) + len(sentence)
        assert not sentence_ends(sentence)[:-1]


@given(prose)
def test_sentences_are_cut_at_every_end(text):
    edges = [0, *sentence_ends(text), len(text)]
    parts = [text[start:end].strip() for start, end in itertools.pairwise(edges)]
    assert list(sentences(text)) == [part for part in parts if part]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" \n\u3000", []),
        ("好。”他说！", ["好。”", "他说！"]),
        ("一\n二", ["一", "二"]),
        ("没有", ["没有"]),
        ("。。", ["。。"]),
    ],
)
def test_some_sentences(text, found):
    assert list(sentences(text)) == found


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_is_none(limit):
    with pytest.raises(ValueError, match=f"limit must be 1 or more, not {limit}"):
        pieces("文", limit)


def test_an_address_a_number_and_an_emoji_stay_whole():
    text = "他说好！见 https://example.com/a?b=1&c=2;d 第1,234,567号👨‍👩‍👧来"
    wholes = ("https://example.com/a?b=1&c=2;d", "1,234,567", "👨‍👩‍👧")
    for limit in range(len(wholes[0]), len(text)):
        found = [text[start:end] for start, end in pieces(text, limit)]
        assert all(any(whole in piece for piece in found) for whole in wholes), limit


@given(any_text, limits)
def test_it_cuts_inside_of_something_whole_only_if_it_must(text, limit):
    gaps = joints(text)
    for start, end in pieces(text, limit)[:-1]:
        assert gaps[end] != JOIN or all(gap == JOIN for gap in gaps[start + 1 : end + 1])
