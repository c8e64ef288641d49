"""Tags: spans come back from every scheme, the scheme is recognised, and what is legal."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError, TagError
from hanlattice.text.span import Span
from hanlattice.text.tags import (
    SCHEMES,
    TagIds,
    check_label,
    detect_scheme,
    labels_of,
    legal_transitions,
    may_follow,
    schemes_with,
    spans_to_tags,
    split_tag,
    tag_set,
    tags_to_spans,
)
from tests.helpers.strategies import label_character, spans

schemes = st.sampled_from(SCHEMES)
labels = st.sampled_from(["LOC", "PER"]) | st.text(label_character, min_size=1, max_size=3)
some_spans = st.integers(0, 9).flatmap(
    lambda length: st.tuples(st.just(length), spans(length, labels))
)


@given(some_spans, schemes)
def test_spans_come_back(drawn, scheme):
    length, given_spans = drawn
    tags = spans_to_tags(given_spans, length, scheme)
    assert len(tags) == length
    assert tags_to_spans(tags, scheme) == list(given_spans)


def test_what_each_scheme_writes():
    given_spans = [Span(0, 1, "A"), Span(1, 3, "A"), Span(4, 7, "B")]
    assert spans_to_tags(given_spans, 8, "BIO") == [
        "B-A",
        "B-A",
        "I-A",
        "O",
        "B-B",
        "I-B",
        "I-B",
        "O",
    ]
    assert spans_to_tags(given_spans, 8, "BMES") == [
        "S-A",
        "B-A",
        "E-A",
        "O",
        "B-B",
        "M-B",
        "E-B",
        "O",
    ]
    assert spans_to_tags(given_spans, 8, "BIOES") == [
        "S-A",
        "B-A",
        "E-A",
        "O",
        "B-B",
        "I-B",
        "E-B",
        "O",
    ]
    assert spans_to_tags(reversed(given_spans), 8, "BIO") == spans_to_tags(given_spans, 8, "BIO")
    assert spans_to_tags([], 0, "BIO") == []


@pytest.mark.parametrize(
    "wrong", [[Span(1, 4, "A")], [Span(5, 6, "A")], [Span(0, 2, "A"), Span(1, 3, "B")]]
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_that_no_tags_can_show(wrong, scheme):
    with pytest.raises(
        ValueError, match=r"span \[\d, \d\) overlaps another, or the end of 3 characters"
    ):
        spans_to_tags(wrong, 3, scheme)


@pytest.mark.parametrize("scheme", ["IOB1", "BILOU", "bio", ""])
def test_only_three_schemes_are_written(scheme):
    with pytest.raises(ValueError, match="is not a scheme: expected one of BIO, BMES, BIOES"):
        spans_to_tags([], 2, scheme)
    with pytest.raises(ValueError, match="is not a scheme"):
        may_follow("B-X", "I-X", scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legal_is_what_comes_back(scheme):
    tags = tag_set(["X", "Y"], scheme)
    start, between, end = legal_transitions(tags, scheme)
    numbers = range(len(tags))
    legal = 0
    for length in (1, 2, 3):
        for path in product(numbers, repeat=length):
            sequence = [tags[index] for index in path]
            comes_back = spans_to_tags(tags_to_spans(sequence, scheme), length, scheme) == sequence
            inner = all(between[left][right] for left, right in pairwise(path))
            assert (start[path[0]] and inner and end[path[-1]]) == comes_back, sequence
            legal += comes_back
    assert legal > 3**3  # O, and a single of either label, at every place


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("without", [(), ("O",)])
def test_legal_transitions_are_those_of_every_pair(scheme, without):
    tags = [tag for tag in tag_set(["X", "Y", "x", "y"], scheme) if tag not in without][::-1]
    start, between, end = legal_transitions(tags, scheme)
    assert between.tolist() == [
        [may_follow(left, right, scheme) for right in tags] for left in tags
    ]
    assert start.tolist() == [may_follow(None, tag, scheme) for tag in tags]
    assert end.tolist() == [may_follow(tag, None, scheme) for tag in tags]


def test_of_thousands_of_tags_few_pairs_are_asked_about(monkeypatch):
    """A model of 4,096 tags took half a minute to load: every pair of names was taken apart."""
    asked = []
    monkeypatch.setattr(
        "hanlattice.text.tags.may_follow", lambda *pair: asked.append(pair) or may_follow(*pair)
    )
    tags = tag_set([f"L{n}" for n in range(1000)], "BMES")
    legal_transitions(tags, "BMES")
    assert len(asked) <= 2 * len(tags) + 2 * 5 * 5


def test_tag_set_has_every_tag_once():
    assert tag_set(["X", "Y"], "BIO") == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    assert tag_set(["X"], "BMES") == ["O", "B-X", "M-X", "E-X", "S-X"]
    assert tag_set(["X"], "BIOES") == ["O", "B-X", "I-X", "E-X", "S-X"]
    assert tag_set([], "BMES") == ["O"]


BROKEN = [
    ("BIO", "I-X O B-X", [(2, 3, "X")]),
    ("BIO", "B-X I-Y I-X", [(0, 1, "X")]),
    ("BMES", "B-X M-X", []),
    ("BMES", "B-X O E-X", []),
    ("BMES", "B-X M-Y E-X", []),
    ("BMES", "B-X E-Y", []),
    ("BMES", "M-X E-X S-X", [(2, 3, "X")]),
    ("BMES", "B-X B-X E-X", [(1, 3, "X")]),
    ("BMES", "B-X S-X E-X", [(1, 2, "X")]),
    ("BMES", "E-X", []),
    ("BIOES", "B-X I-X", []),
    ("BIOES", "I-X I-X E-X", []),
    ("BIOES", "B-X E-X I-X E-X", [(0, 2, "X")]),
]


@pytest.mark.parametrize(("scheme", "tags", "found"), BROKEN)
def test_broken_spans_are_left_out(scheme, tags, found):
    assert tags_to_spans(tags.split(), scheme) == [Span(*span) for span in found]


IOB1 = [
    ("I-X I-X O I-X", [(0, 2, "X"), (3, 4, "X")]),
    ("I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),
    ("I-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")]),
    ("B-X I-X O", [(0, 2, "X")]),
    ("I-X B-X B-X", [(0, 1, "X"), (1, 2, "X"), (2, 3, "X")]),
    ("O", []),
    ("", []),
]


@pytest.mark.parametrize(("tags", "found"), IOB1)
def test_iob1(tags, found):
    assert tags_to_spans(tags.split(), "IOB1") == [Span(*span) for span in found]


def iob1_tags(given_spans: tuple[Span, ...], length: int) -> list[str]:
    """Return IOB1 by its definition: B only where a span directly follows one with its label."""
    tags = ["O"] * length
    last = Span(0, 1, "")
    for span in given_spans:
        tags[span.start : span.end] = [f"I-{span.label}"] * (span.end - span.start)
        if last.label == span.label and last.end == span.start:
            tags[span.start] = f"B-{span.label}"
        last = span
    return tags


@given(some_spans)
def test_iob1_comes_back_and_is_told_from_bio(drawn):
    length, given_spans = drawn
    tags = iob1_tags(given_spans, length)
    assert tags_to_spans(tags, "IOB1") == list(given_spans)
    assert detect_scheme([tags]) == ("IOB1" if given_spans else "BIO")


@given(st.lists(some_spans, max_size=3), schemes)
def test_the_scheme_is_one_that_reads_the_same_spans(drawn, scheme):
    """Short spans fit several schemes; whichever is taken, it reads what was written."""
    sequences = [spans_to_tags(given_spans, length, scheme) for length, given_spans in drawn]
    found = detect_scheme(sequences)
    assert [tags_to_spans(tags, found) for tags in sequences] == [
        list(given_spans) for _, given_spans in drawn
    ]


DETECTED = [
    ([], "BIO"),
    (["O O", ""], "BIO"),
    (["B-X I-X O"], "BIO"),
    (["B-X", "O B-Y"], "BIO"),
    (["I-X I-X", "O I-Y"], "IOB1"),
    (["I-X B-X"], "IOB1"),
    (["I-X I-Y"], "IOB1"),
    (["B-X I-X", "O I-X"], "BIO"),  # one slip does not make a corpus IOB1
    (["B-X I-Y"], "BIO"),
    (["B-X M-X E-X"], "BMES"),
    (["B-X E-X", "S-X"], "BMES"),
    (["S-X"], "BMES"),
    (["B-X I-X E-X"], "BIOES"),
    (["I-X S-X"], "BIOES"),
    (["B-X I-X", "S-X"], "BIOES"),
]


@pytest.mark.parametrize(("corpus", "scheme"), DETECTED)
def test_detect_scheme(corpus, scheme):
    assert detect_scheme(sentence.split() for sentence in corpus) == scheme


@pytest.mark.parametrize(
    ("corpus", "prefixes"), [("M-X I-X", "I, M"), ("B-X L-X", "B, L"), ("b-X", "b")]
)
def test_tags_of_no_scheme(corpus, prefixes):
    with pytest.raises(
        TagError,
        match=rf"the prefixes {prefixes} fit no scheme: expected one of BIO \(B I O\), BMES",
    ):
        detect_scheme([corpus.split()])


def test_schemes_with_prefixes():
    assert schemes_with([]) == schemes_with("OB") == list(SCHEMES)
    assert schemes_with("BI") == ["BIO", "BIOES"]
    assert schemes_with("S") == ["BMES", "BIOES"]
    assert schemes_with("IM") == schemes_with("X") == []


@pytest.mark.parametrize("label", ["\ud800", "A\udfff", "x" * 257, "地" * 10**6])
def test_a_label_that_no_file_can_carry_is_refused(label):
    assert split_tag("B-" + "x" * 256) == ("B", "x" * 256)
    for refuse in (
        split_tag,
        lambda tag: TagIds(["O", tag], "BIO"),
        lambda tag: may_follow(None, tag, "BIO"),
    ):
        with pytest.raises(TagError, match="a label has") as caught:
            refuse(f"B-{label}")
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("label", [0, None, 1.5, True, b"LOC", ["LOC"]])
def test_a_label_is_a_string(label):
    with pytest.raises(TypeError, match="a label must be a str, not "):
        check_label(label)


@given(st.sets(st.text(label_character, min_size=1)), schemes)
def test_labels_of_tags(labels, scheme):
    assert labels_of(tag_set(labels, scheme)) == sorted(labels)


@pytest.mark.parametrize("tag", ["", "o", "B", "B-", "-X", "BX", "BB-X", "B_X", "O-", " O"])
def test_what_is_not_a_tag(tag):
    with pytest.raises(
        TagError, match="is not a tag: expected O, or a prefix, a hyphen and a label, such as B-LOC"
    ):
        split_tag(tag)
    for scheme in SCHEMES:
        with pytest.raises(TagError):
            tags_to_spans([tag], scheme)
        with pytest.raises(TagError):
            may_follow(tag, None, scheme)


def test_a_label_may_have_hyphens_and_an_error_of_tags_is_one_of_input():
    assert split_tag("B-A-B") == ("B", "A-B")
    assert issubclass(TagError, InputError)


@pytest.mark.parametrize(
    ("tag", "scheme", "prefixes"),
    [("M-X", "BIO", "B, I"), ("I-X", "BMES", "B, M, E, S"), ("M-X", "BIOES", "B, I, E, S")],
)
def test_a_tag_of_another_scheme(tag, scheme, prefixes):
    with pytest.raises(
        TagError, match=f"'{tag}' is not a tag of {scheme}, whose prefixes are {prefixes} and O"
    ):
        tags_to_spans(["O", tag], scheme)
