"""Segmented lines: the words come back, and a sentence that is not made of words is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.data.formats.segmented import (
    from_words,
    read_segmented,
    segmented_line,
    words_of,
    write_segmented,
)
from hanlattice.errors import InputError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from tests.helpers.strategies import shares_folder

WORDS = st.text(
    (st.characters(exclude_categories=["Cs"]) | st.sampled_from("\ufeff\u200b\0é南")).filter(
        lambda c: not c.isspace()
    ),
    min_size=1,
    max_size=4,
)
SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))


@shares_folder
@given(lines=st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=5))
def test_round_trip(tmp_path, lines):
    items = [from_words(words) for words in lines]
    write_segmented(tmp_path / "w.seg", items)
    corpus = read_segmented(tmp_path / "w.seg")
    assert corpus.sentences == tuple(items)
    assert [words_of(sentence) for sentence in corpus.sentences] == lines
    assert (corpus.scheme, corpus.tags) == (None, None)


def test_white_space_between_words(tmp_path):
    path = tmp_path / "w.seg"
    path.write_bytes("\ufeff  南京市  长江大桥\t\r\n\n\u3000\x85\n很\u3000高\u2028。\n".encode())
    corpus = read_segmented(path)
    assert [words_of(sentence) for sentence in corpus.sentences] == [
        ["南京市", "长江大桥"],
        ["很", "高", "。"],
    ]
    assert corpus.sentences[0] == Sentence(
        "南京市长江大桥", (Span(0, 3, "WORD"), Span(3, 7, "WORD"))
    )


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        (Sentence("南京"), "sentence 2 is not segmented: no word covers character 1"),
        (Sentence("南京", (Span(0, 1, "WORD"),)), "no word covers character 2"),
        (
            Sentence("南京市", (Span(0, 1, "WORD"), Span(2, 3, "WORD"))),
            "no word covers character 2",
        ),
        (Sentence("南 京", (Span(0, 3, "WORD"),)), "cannot carry white space"),
        *(
            (Sentence(f"南{c}京", (Span(0, 3, "WORD"),)), "cannot carry white space")
            for c in "\r\n\u3000\xa0\x1c"
        ),
        (Sentence("\udc80", (Span(0, 1, "WORD"),)), "lone surrogate in sentence 2"),
        (Sentence("", ()), "not segmented"),
    ],
)
def test_what_a_line_cannot_carry_is_refused(tmp_path, sentence, says):
    with pytest.raises(InputError, match=says):
        write_segmented(tmp_path / "w.seg", [from_words(["好"]), sentence])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("", [], ""),
        ("好", [(0, 1)], "好"),
        ("南京市长江大桥", [(0, 3), (3, 7)], "南京市 长江大桥"),
        (" 南京\u3000市\t\t长 ", [(1, 3), (4, 5), (7, 8)], " 南京\u3000市\t\t长 "),
        ("\u3000 ", [], "\u3000 "),
        ("我在南京。", [(2, 4)], "我在 南京 。"),  # spans that leave something out
    ],
)
def test_a_line(text, words, line):
    assert segmented_line(text, [Span(start, end, "WORD") for start, end in words]) == line


@shares_folder
@given(
    st.lists(
        st.tuples(st.text(st.sampled_from(SPACES.replace("\n", "")), max_size=2), WORDS), max_size=6
    ),
    st.data(),
)
def test_a_line_adds_only_spaces_and_gives_the_words_back(tmp_path, pairs, data):
    text = data.draw(st.text(st.sampled_from(" \u3000\t"), max_size=2))
    words = []
    for white, word in pairs:
        text += white
        words.append(Span(len(text), len(text) + len(word), "WORD"))
        text += word
    text += data.draw(st.text(st.sampled_from(" \u3000"), max_size=2))
    line = segmented_line(text, words)
    assert line.split() == [word for _, word in pairs]
    index = 0
    for character in line:
        if text[index : index + 1] == character:
            index += 1
        else:
            assert character == " "
            assert index < len(text)
            assert not text[index].isspace()
            assert not text[index - 1].isspace()
    assert index == len(text)
    (tmp_path / "w.seg").write_bytes(f"\n{line}\n".encode())
    assert [words_of(sentence) for sentence in read_segmented(tmp_path / "w.seg").sentences] == [
        line.split()
    ][: len(pairs)]
