"""Segmented lines: the words come back, and a sentence that is not made of words is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.data.segmented import from_words, read_segmented, words_of, write_segmented
from hanlattice.errors import InputError
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from tests.strategies import shares_folder

WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\u3000\r\n")
    | st.sampled_from("\ufeff\u00a0\u2028\u0085\x1c\0"),
    min_size=1,
    max_size=4,
)


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
    path.write_bytes("\ufeff  南京市  长江大桥\t\r\n\n\u3000\n很\u3000高 \u3000。\n".encode())
    corpus = read_segmented(path)
    assert [words_of(sentence) for sentence in corpus.sentences] == [["南京市", "长江大桥"], ["很", "高", "。"]]
    assert corpus.sentences[0] == Sentence("南京市长江大桥", (Span(0, 3, "WORD"), Span(3, 7, "WORD")))


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        (Sentence("南京"), "sentence 2 is not segmented: no word covers character 1"),
        (Sentence("南京", (Span(0, 1, "WORD"),)), "no word covers character 2"),
        (Sentence("南京市", (Span(0, 1, "WORD"), Span(2, 3, "WORD"))), "no word covers character 2"),
        (Sentence("南 京", (Span(0, 3, "WORD"),)), "cannot carry white space"),
        (Sentence("南京\r", (Span(0, 3, "WORD"),)), "cannot carry white space"),
        (Sentence("\udc80", (Span(0, 1, "WORD"),)), "lone surrogate in sentence 2"),
        (Sentence("", ()), "not segmented"),
    ],
)
def test_what_a_line_cannot_carry_is_refused(tmp_path, sentence, says):
    with pytest.raises(InputError, match=says):
        write_segmented(tmp_path / "w.seg", [from_words(["好"]), sentence])
    assert not list(tmp_path.iterdir())
