"""Sentence: spans lie in the text, in order and apart; words cover it; what the model sees is as
long as the text.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Span
from hanlattice.text.sentence import Sentence, SoftLabel
from tests.helpers.strategies import any_text, sentences
from tests.helpers.words import segmented_sentences


@given(any_text)
def test_what_the_model_sees_is_as_long_as_the_text(text):
    sentence = Sentence(text)
    assert len(sentence) == len(sentence.folded) == len(sentence.characters) == len(text)
    assert sentence.spans is None


def test_widths_and_digits():
    sentence = Sentence("Ａ座１2楼")
    assert (sentence.folded, sentence.characters) == ("A座12楼", "A座00楼")


@given(sentences(), st.data())
def test_spans_come_in_order(sentence, data):
    shuffled = data.draw(st.permutations(sentence.spans))
    assert Sentence(sentence.text, tuple(shuffled)) == sentence
    assert hash(Sentence(sentence.text, tuple(shuffled))) == hash(sentence)


def test_no_spans_is_not_unknown_spans():
    assert Sentence("南京", ()) != Sentence("南京")
    assert Sentence("", ()).spans == ()


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ([Span(1, 4, "LOC")], r"span \[1, 4\) ends after the text \(3 characters\)"),
        ([Span(3, 4, "LOC")], r"span \[3, 4\) ends after the text"),
        ([Span(1, 3, "LOC"), Span(0, 2, "PER")], r"spans overlap: \[0, 2\) and \[1, 3\)"),
        ([Span(0, 1, "LOC"), Span(0, 1, "LOC")], r"spans overlap: \[0, 1\) and \[0, 1\)"),
        ([Span(0, 3, "LOC"), Span(1, 2, "PER")], r"spans overlap: \[0, 3\) and \[1, 2\)"),
    ],
)
def test_spans_that_do_not_fit(spans, says):
    with pytest.raises(ValueError, match=says):
        Sentence("南京市", tuple(spans))


def test_side_by_side_is_not_overlap():
    assert Sentence("南京市", (Span(2, 3, "A"), Span(0, 2, "A"))).spans == (
        Span(0, 2, "A"),
        Span(2, 3, "A"),
    )


@given(segmented_sentences(), st.data())
def test_words_come_in_order_and_are_part_of_the_value(sentence, data):
    shuffled = data.draw(st.permutations(sentence.words))
    assert Sentence(sentence.text, sentence.spans, tuple(shuffled)) == sentence
    assert "".join(sentence.text[word.start : word.end] for word in sentence.words) == sentence.text
    assert Sentence(sentence.text, sentence.spans) != sentence


def test_words_of_an_empty_text():
    assert Sentence("", words=()).words == ()
    assert Sentence("").words is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], r"words leave a gap: none covers \[0, 3\)"),
        ([Span(1, 3, "n")], r"words leave a gap: none covers \[0, 1\)"),
        ([Span(0, 2, "n")], r"words leave a gap: none covers \[2, 3\)"),
        ([Span(2, 3, "n"), Span(0, 1, "n")], r"words leave a gap: none covers \[1, 2\)"),
        ([Span(0, 2, "n"), Span(1, 3, "n")], r"words overlap: \[1, 3\) begins before 2"),
        ([Span(0, 3, "n"), Span(0, 3, "n")], r"words overlap: \[0, 3\) begins before 3"),
        ([Span(0, 2, "n"), Span(2, 4, "n")], r"word \[2, 4\) ends after the text \(3 characters\)"),
    ],
)
def test_words_that_do_not_cover_the_text(words, says):
    with pytest.raises(ValueError, match=says):
        Sentence("南京市", words=tuple(words))


def test_doubts_come_in_order_and_are_about_a_character_each():
    soft_labels = (SoftLabel(2, "O", 0.4), SoftLabel(0, "B-LOC", 1.0), SoftLabel(2, "B-LOC", 0.6))
    assert Sentence("南 京", soft_labels=soft_labels).soft_labels == tuple(sorted(soft_labels))


@pytest.mark.parametrize("place", [-1, 1, 3])
def test_a_doubt_about_nothing_is_refused(place):
    with pytest.raises(
        ValueError, match=f"no doubt about character {place} of 3, or it is white space"
    ):
        Sentence("南 京", soft_labels=(SoftLabel(place, "O", 1.0),))


NAN = float("nan")
INFINITY = float("inf")


@pytest.mark.parametrize(
    "shares",
    [
        *((0.5, 0.4), (0.7, 0.5), (1.0, 0.0), (1.5, -0.5)),
        *(
            (NAN, 0.5),
            (0.5, NAN),
            (NAN, NAN),
            (INFINITY, 0.5),
            (INFINITY, -INFINITY),
            (10**400, 0.5),
        ),
    ],
)
def test_shares_that_do_not_add_up_are_refused(shares):
    with pytest.raises(ValueError, match="must be above 0 and add up to 1"):
        Sentence(
            "南京",
            soft_labels=tuple(
                SoftLabel(0, tag, share) for tag, share in zip("OB", shares, strict=True)
            ),
        )


def test_a_tag_has_one_share():
    """Three shares add up to more than 1, though two different ones do not."""
    with pytest.raises(ValueError, match="the tag 'O' comes twice at character 0"):
        Sentence(
            "南京",
            soft_labels=(SoftLabel(0, "O", 0.5), SoftLabel(0, "B", 0.5), SoftLabel(0, "O", 0.5)),
        )
