"""Folding: one code point for one code point whatever the text, so that offsets stay exact."""

from __future__ import annotations

import re
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given

from hanlattice.text.normal import CodeTable, code_points, fold, fold_code_points, fold_digits
from tests.strategies import any_text


@given(any_text)
def test_one_code_point_for_one(text):
    for folding in (fold, fold_digits):
        folded = folding(text)
        assert len(folded) == len(text)
        assert folding(folded) == folded
        assert [folding(character) for character in text] == list(folded)
        folded.encode("utf-8")  # no lone surrogate is left


def test_every_code_point_there_is():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    folded, plain = fold(everything), fold_digits(everything)
    assert len(folded) == len(plain) == len(everything)
    assert fold(folded) == folded
    assert folded[:0x30000] == "".join(map(fold, everything[:0x30000]))  # beyond, next to nothing is assigned
    assert set(re.findall(r"\d", plain)) == {"0"}
    assert folded.count("\n") == 1  # nothing becomes a line end, by which texts are joined
    for code in np.flatnonzero(code_points(folded) != np.arange(len(everything))).tolist():
        assert 0xD800 <= code <= 0xDFFF or unicodedata.normalize("NFKC", chr(code)) == folded[code]


@pytest.mark.parametrize(
    ("text", "folded", "digits"),
    [
        ("", "", ""),
        ("Ab 12。", "Ab 12。", "Ab 00。"),
        ("ＡＢ１２，（）", "AB12,()", "AB00,()"),
        ("\u3000", " ", " "),
        ("½ﷺ㌀", "½ﷺ㌀", "½ﷺ㌀"),  # these would become several characters
        ("①٣๓", "1٣๓", "000"),
        ("豈\uf900", "豈豈", "豈豈"),  # a compatibility ideograph and its plain form
        ("\ud800x\udfff", "\ufffdx\ufffd", "\ufffdx\ufffd"),
        ("漢字𠀀😀", "漢字𠀀😀", "漢字𠀀😀"),  # traditional characters are not simplified
        ("\0\r\n\ufeff", "\0\r\n\ufeff", "\0\r\n\ufeff"),
    ],
)
def test_examples(text, folded, digits):
    assert fold(text) == folded
    assert fold_digits(text) == digits


@given(any_text)
def test_code_points_are_the_text(text):
    assert code_points(text).tolist() == [ord(character) for character in text]
    assert fold_code_points(code_points(text)) == fold(text)


def test_a_table_asks_once_for_each_character():
    asked: list[str] = []

    def place(character: str) -> int:
        asked.append(character)
        return "ab\ud800\U0010ffff".index(character)

    table = CodeTable(place)
    for text in ("", "aab", "b\ud800", "\U0010ffffaa", "ba"):
        assert table(code_points(text)).tolist() == ["ab\ud800\U0010ffff".index(character) for character in text]
    assert sorted(asked) == sorted("ab\ud800\U0010ffff")
