"""Cuts cover the texts, with a plain loop's positions; rjieba's words are rjieba's, and gold ones
the given ones.
"""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
import rjieba
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Span
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.text.normalize import fold
from hanlattice.text.segment import PLACES, SEGMENTERS, Cuts, make_segmenter
from hanlattice.text.sentence import Sentence
from tests.helpers.strategies import any_character, any_text
from tests.helpers.words import segmented_sentences

ORDINARY = [
    "南京市长江大桥",
    "他来到了网易杭研大厦，买了3.14公斤苹果。",
    "",
    "Python 3.11  and C++\t你好\r\n再见",
    "小明硕士毕业于中国科学院计算所，后在日本京都大学深造",
]
ODD = [
    "\0\0我们",
    "京\ud800\udfff市",
    "😀👨‍👩‍👧e\u0301",
    "\u3000\u3000 \n",
    "１９９８年ＡＢＣ",
    "\ufeff",
    "㌀½ﷺ",
]
mixed_text = st.text(
    any_character | st.sampled_from("我们南京市长江大桥的一二是12ab .%+-_"), max_size=30
)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def words_of(cuts: Cuts, texts: list[str]) -> list[list[str]]:
    """The words of each text, as text."""
    pairs = iter(zip(cuts.start.tolist(), cuts.end.tolist(), strict=True))
    return [
        [text[slice(*next(pairs))] for _ in range(count)]
        for text, count in zip(texts, cuts.counts, strict=True)
    ]


def plain_positions(words: list[list[str]]) -> str:
    letters = ""
    for word in (word for row in words for word in row):
        letters += "S" if len(word) == 1 else "B" + "M" * (len(word) - 2) + "E"
    return letters


def letters(cuts: Cuts) -> str:
    return "".join(PLACES[index] for index in cuts.positions())


# ---- Cuts


@given(st.lists(st.lists(st.integers(1, 5), max_size=5), max_size=5))
def test_positions_and_lengths_are_those_of_a_plain_loop(sizes):
    start = [sum(row[:index]) for row in sizes for index in range(len(row))]
    end = [sum(row[: index + 1]) for row in sizes for index in range(len(row))]
    cuts = Cuts(ints(*map(len, sizes)), ints(*start), ints(*end))
    assert letters(cuts) == plain_positions([["x" * size for size in row] for row in sizes])
    assert cuts.lengths().tolist() == [sum(row) for row in sizes]
    assert cuts.positions().dtype == np.int64


@pytest.mark.parametrize(
    ("counts", "start", "end", "says"),
    [
        ([0.5], [], [], "counts must be whole numbers"),
        ([[1]], [0], [1], "counts must have one dimension"),
        ([1], [0, 1], [1, 2], "as many words as counts has: 1"),
        ([2], [0, 1], [1], "as many words"),
        ([-1, 1], [], [], "not be negative: -1"),
        ([1], [0], [0], "start < end"),
        ([1], [1], [2], "word 0 begins at 1 of its text, not at 0"),
        ([2], [0, 2], [1, 3], "word 1 begins at 2 of its text, not at 1"),
        ([2], [0, 1], [2, 3], "word 1 begins at 1 of its text, not at 2"),
        ([1, 0, 1], [0, 2], [2, 3], "word 1 begins at 2 of its text, not at 0"),
    ],
)
def test_cuts_that_are_none(counts, start, end, says):
    with pytest.raises(ValueError, match=says):
        Cuts(np.array(counts), np.array(start), np.array(end))


def test_parts_of_speech_are_as_many_as_words():
    with pytest.raises(ValueError, match="as many words"):
        Cuts(ints(1), ints(0), ints(2), ("n", "v"))


# ---- rjieba


def test_on_ordinary_text_the_words_are_rjiebas():
    cuts = make_segmenter("rjieba")(ORDINARY)
    words = words_of(cuts, ORDINARY)
    assert [[fold(word) for word in row] for row in words] == [
        rjieba.cut(fold(text)) for text in ORDINARY
    ]
    assert words[0] == ["南京市", "长江大桥"]
    assert cuts.pos is None


def test_parts_of_speech_are_rjiebas():
    cuts = make_segmenter("rjieba", pos=True)(ORDINARY)
    assert cuts.pos == tuple(part for text in ORDINARY for _, part in rjieba.tag(fold(text)))


@given(st.lists(mixed_text, max_size=4))
def test_words_join_to_any_text_and_parts_of_speech_do_not_move_them(texts):
    cuts, tagged = (make_segmenter("rjieba", pos)(texts) for pos in (False, True))
    assert ["".join(row) for row in words_of(cuts, texts)] == texts
    assert words_of(tagged, texts) == words_of(cuts, texts)
    assert letters(cuts) == plain_positions(words_of(cuts, texts))
    assert len(tagged.pos or ()) == len(cuts.start)


@given(any_text)
def test_a_text_is_cut_the_same_alone_and_among_others(text):
    segment = make_segmenter("rjieba")
    assert (
        words_of(segment(["长江", text, "大桥"]), ["长江", text, "大桥"])[1]
        == words_of(segment([text]), [text])[0]
    )


@pytest.mark.parametrize("text", ODD)
def test_odd_characters_survive(text):
    cuts = make_segmenter("rjieba", pos=True)([text])
    assert "".join(words_of(cuts, [text])[0]) == text


def test_full_width_text_is_cut_like_plain_text():
    texts = ["１９９８年ＡＢＣ", "1998年ABC"]
    wide, plain = words_of(make_segmenter("rjieba")(texts), texts)
    assert plain == ["1998", "年", "ABC"]
    assert wide == ["１９９８", "年", "ＡＢＣ"]


def test_no_texts_and_empty_texts():
    for name in SEGMENTERS:
        assert make_segmenter(name)([]).positions().tolist() == []
        assert make_segmenter(name, pos=True)(["", ""]).counts.tolist() == [0, 0]


def test_a_very_long_text():
    text = "我们去南京市长江大桥。" * 20_000
    cuts = make_segmenter("rjieba")([text])
    assert cuts.lengths().tolist() == [len(text)]


def test_rjieba_is_looked_for_when_a_text_comes(monkeypatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    segment = make_segmenter("rjieba")
    with pytest.raises(
        HanlatticeError, match=r"rjieba is not installed.*pip install 'hanlattice\[segment\]'"
    ):
        segment(["南京"])


def test_words_that_do_not_join_to_the_text_are_refused(monkeypatch):
    monkeypatch.setattr(rjieba, "cut", lambda text: [word for word in text if word != " "])
    with pytest.raises(
        HanlatticeError, match="the words of text 1 have 2 characters, but the text has 3"
    ):
        make_segmenter("rjieba")(["好", "南 京"])


@pytest.mark.parametrize("name", SEGMENTERS)
def test_a_segmenter_that_was_used_can_be_pickled(name):
    sentence = Sentence("南京市", words=(Span(0, 2, "ns"), Span(2, 3, "n")))
    segment = make_segmenter(name, pos=True)
    before = segment([sentence.text], [sentence.words])
    after = pickle.loads(pickle.dumps(segment))([sentence.text], [sentence.words])
    assert (after.end.tolist(), after.pos) == (before.end.tolist(), before.pos)


# ---- gold


@given(st.lists(segmented_sentences(), max_size=4))
def test_gold_words_are_those_of_the_sentences(items):
    texts = [item.text for item in items]
    words = [item.words for item in items]
    cuts, tagged = (make_segmenter("gold", pos)(texts, words) for pos in (False, True))
    flat = [word for item in items for word in item.words or ()]
    assert cuts.start.tolist() == [word.start for word in flat]
    assert cuts.end.tolist() == [word.end for word in flat]
    assert cuts.lengths().tolist() == [len(text) for text in texts]
    assert (cuts.pos, tagged.pos) == (None, tuple(word.label for word in flat))


def test_a_text_without_gold_words_says_what_to_do():
    segment = make_segmenter("gold")
    lacks = r"segment\.by=gold needs the words of the text, and this text has none"
    says = rf"{lacks}: .* JSONL with words, or use"
    with pytest.raises(InputError, match=says):
        segment(["好"])
    with pytest.raises(InputError, match=says):
        segment(["好", "南京"], [(Span(0, 1, "a"),), None])
    assert segment(["好", ""], [(Span(0, 1, "a"),), None]).counts.tolist() == [1, 0]


def test_gold_words_of_another_text():
    with pytest.raises(
        HanlatticeError, match="the words of text 1 have 1 characters, but the text has 2"
    ):
        make_segmenter("gold")(["好", "南京"], [(Span(0, 1, "a"),), (Span(0, 1, "n"),)])


def test_an_unknown_segmenter():
    with pytest.raises(InputError, match="no segmenter is called 'jieba': expected rjieba or gold"):
        make_segmenter("jieba")
