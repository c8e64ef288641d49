"""Folding: one code point for one code point whatever the text, so that offsets stay exact."""

from __future__ import annotations

import importlib.util
import re
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from hanlattice.text.normalize import (
    CodeTable,
    code_points,
    fold,
    fold_code_points,
    fold_digits,
    has_traditional,
)
from tests.helpers.strategies import any_text


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
    folded = fold(everything)
    plain = fold_digits(everything)
    assert len(folded) == len(plain) == len(everything)
    assert fold(folded) == folded
    assert folded[:0x30000] == "".join(
        map(fold, everything[:0x30000])
    )  # beyond, next to nothing is assigned
    assert set(re.findall(r"\d", plain)) == {"0"}
    assert folded.count("\n") == 1  # nothing becomes a line end, by which texts are joined
    for code in np.flatnonzero(code_points(folded) != np.arange(len(everything))).tolist():
        plain = unicodedata.normalize("NFKC", chr(code))
        assert 0xD800 <= code <= 0xDFFF or plain == folded[code] or has_traditional(plain)


@pytest.mark.parametrize(
    ("text", "folded", "digits"),
    [
        ("", "", ""),
        ("Ab 12。", "Ab 12。", "Ab 00。"),
        ("ＡＢ１２，（）", "AB12,()", "AB00,()"),
        ("\u3000", " ", " "),
        ("½ﷺ㌀", "½ﷺ㌀", "½ﷺ㌀"),  # these would become several characters
        ("①٣๓", "1٣๓", "000"),
        ("\ud800x\udfff", "\ufffdx\ufffd", "\ufffdx\ufffd"),
        ("漢字𠀀😀", "汉字𠀀😀", "汉字𠀀😀"),
        (
            "後天臺灣幹活乾杯，這個著名的麼",
            "后天台湾干活乾杯,这个著名的么",
            "后天台湾干活乾杯,这个著名的么",
        ),
        (
            "\uf900朗\uf92c",
            "岂朗郎",
            "岂朗郎",
        ),  # a compatibility ideograph of a traditional character
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
        assert table(code_points(text)).tolist() == [
            "ab\ud800\U0010ffff".index(character) for character in text
        ]
    assert sorted(asked) == sorted("ab\ud800\U0010ffff")


def test_the_table_is_what_opencc_has():
    pytest.importorskip("opencc")
    path = Path(__file__).parents[2] / "benchmarks" / "traditional.py"
    spec = importlib.util.spec_from_file_location("traditional", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    table = script.make_table()
    assert len(table) > 3000
    everything = "".join(table)
    assert fold(everything) == "".join(table.values())
    assert all(map(has_traditional, everything))
    assert not has_traditional("".join(table.values()) + script.SIMPLE_TOO)


def test_simplified_text_is_seen_as_it_is():
    """The characters of GB2312, but for five that only traditional text has."""
    common = b"".join(
        bytes((lead, trail)) for lead in range(0xB0, 0xF8) for trail in range(0xA1, 0xFF)
    )
    characters = common.decode("gb2312", "ignore")
    assert len(characters) == 6763
    assert {a + b for a, b in zip(characters, fold(characters), strict=True) if a != b} == {
        "夥伙",
        "後后",
        "於于",
        "菸烟",
        "麽么",
    }
