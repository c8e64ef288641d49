"""What a text says about its words: each rule by example, and against a plain loop; `|` a cut, `·`
not known.
"""

from __future__ import annotations

import re
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.text.boundaries import CUT, FREE, JOIN, SPACED, joints, name_gaps
from tests.helpers.strategies import any_character, any_text

FAMILY = "👨‍👩‍👧‍👦"
THUMB = "👍🏽"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
PLAIN = [
    *"南京，：/@.,'’1３aＡé#",
    "3.14",
    "1,000",
    "http://",
    "www.",
    "a@b.cn",
    " ",
    "\u3000",
    "\t",
]
MARKED = [
    FAMILY,
    THUMB,
    ENGLAND,
    "🇨🇳",
    "🇨",
    "\u200d",
    "\ufe0f",
    "❤",
    "ᄒ",
    "ᅡ",
    "\u0301",
    "\u20e3",
    "\ud800",
]
PIECES = st.sampled_from(PLAIN + MARKED)
ODD_TEXT = st.lists(PIECES | any_character, max_size=20).map("".join)


def shown(text: str) -> str:
    marks = {CUT: "|", FREE: "·", JOIN: ""}
    return "".join(
        marks[gap] + character for gap, character in zip(joints(text).tolist(), text, strict=True)
    )


def bare(marked: str) -> str:
    return marked.replace("|", "").replace("·", "")


@pytest.mark.parametrize(
    "marked",
    [
        "",
        "|南·京·市·长·江",
        # white space
        "|南| |京|\u3000|\t|市| ",
        "| |a|\xa0|b|\u2028|c|\x1c|d",
        # Latin letters and digits
        "|看·Windows| |XP·了",
        "|AC·米·兰·10·亿·iPhone·4·S",
        "|Ａｐｐｌｅ·１９９８·年",
        "|café·的·Straße| |Łódź",
        "|e\u0301te\u0301·的·x̄y",
        "|don't| |I’m| |'·tis| |d·'| |'·a·'",
        "|l'e\u0301t",
        "|it's",
        "|e·-·mail| |a·_·b| |c·/·d",
        "|п·р",
        # numbers
        "|圆·周·率·3.14·和·３．１４",
        "|1,000,000·人·1,000.50·元·12,345·只",
        "|1998·,·200| |1·,·00| |1·,·0000| |1·,·000·,·00",
        "|1·.·2·.·3| |3·.·.·4| |.·5| |5·.",
        "|3.14·,·2.71| |3.14·,·271·.",
        "|1·，·000",
        "|3.5",
        "|①·②·10·²",
        "|٣٤·个",
        # addresses
        "|见|http://t.cn/zW?a=1&b=2#c|。·好",
        "|见|HTTPS://a.b/c_d|（·via| |@·x·）|www.baidu.com|，·好",
        '|(|http://a.com/x|)·.| |<·a·=·"|ftp://a.b|"·>',
        "|http://a.com/|南·京",
        "|http://a.com|！·http·：·x",
        "|ｈｔｔｐ：／／ｗｗｗ．ａ．ｃｏｍ／３|，·好",
        "|http://t.cn/a|😀",
        "|写·给|a.b+c@qq.com.cn|。",
        "|ａ＠ｑｑ．ｃｏｍ",
        "|a·@·b| |@·name·：·好·#·话·题·#| |a·@·b·.·5",
        "|www·.| |http·:·/·/| |http·:·/·/·。·awww·.·com",
        # clusters
        f"|看|{FAMILY}·{THUMB}|ok|🇨🇳·🇺🇸·🇨|好",
        f"|{ENGLAND}|x|1️⃣·2⃣·#️⃣|3",
        "|❤️|爱·❤·爱|☝🏻|x",
        "|👩‍❤️‍👨·👩‍❤‍👨|好",
        "|✈️|a·©·™",
        "|葛\U000e0100·城",
        "|ᄒ\u1161\u11ab·글",
        "|ﾊﾞ·か\u3099",
        "| |\u0301·a| |🏻|a",
        "|\u200d·a",
        "|a\u200db",
        "|\ud800·a·\u0378·\U0010ffff·\0",
    ],
)
def test_examples(marked):
    assert shown(bare(marked)) == marked


@given(ODD_TEXT | any_text)
def test_every_gap_is_judged_and_white_space_always_cuts(text):
    gaps = joints(text)
    assert gaps.shape == (len(text),)
    assert set(gaps.tolist()) <= {FREE, CUT, JOIN}
    for index, character in enumerate(text):
        if index == 0 or character.isspace() or text[index - 1].isspace():
            assert gaps[index] == CUT


@given(st.lists(ODD_TEXT.map(lambda text: text.replace("\n", "")), max_size=5))
def test_texts_in_one_are_judged_as_each_alone(texts):
    alone = [gap for text in texts for gap in (CUT, *joints(text).tolist())]
    assert joints("\n".join(texts)).tolist() == alone[1:]


WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F) if chr(code) not in ",!?;:()"} | {
    0x20: 0x3000
}


@given(st.lists(st.sampled_from("aZ09.,@/'#-_ 南。") | PIECES, max_size=20).map("".join), st.data())
def test_width_does_not_matter(text, data):
    index = data.draw(st.sets(st.integers(0, max(0, len(text) - 1))))
    wide = "".join(c.translate(WIDE) if place in index else c for place, c in enumerate(text))
    assert joints(wide).tolist() == joints(text).tolist()


def kind(character: str) -> str:
    if character.isspace():
        return "space"
    if character.isdecimal():
        return "digit"
    return (
        "letter" if "LATIN" in unicodedata.name(character, "") and character.isalpha() else "other"
    )


@given(st.text(st.sampled_from("aZéß0９٣Ａｚ \t\u3000\xa0南京，。—字"), max_size=20))
def test_letters_digits_and_space_as_a_plain_loop_has_them(text):
    expected = [CUT] * len(text)
    for index in range(1, len(text)):
        before = kind(text[index - 1])
        current = kind(text[index])
        if "space" not in (before, current):
            expected[index] = JOIN if before == current in ("letter", "digit") else FREE
    assert joints(text).tolist() == expected


def name_gaps_by_hand(text: str) -> list[int]:
    """Run by run of white space."""
    gaps = [FREE] * len(text)
    for result in re.finditer(r"(?<=\S)\s+(?=\S)", text):
        before = text[result.start() - 1]
        after = text[result.end()]
        run = result.group()
        if not {kind(before), kind(after)} & {"letter", "digit"}:
            few = len(run) <= 2 and all(
                unicodedata.category(character) == "Zs" for character in run
            )
            gaps[result.end()] = SPACED if few else CUT
    return gaps


@given(st.text(st.sampled_from("aéß0９٣Ａ \t\n\u3000\xa0\x85南京，。"), max_size=20))
@example("张\u3000三 李晓明")
@example("张  三   李\t四 \n王")
@example("\u3000\u3000南京 长江\n")
@example("New York 在 美国")
@example("第 3 中学")
def test_white_space_among_names_as_a_plain_loop_has_it(text):
    assert name_gaps(text).tolist() == name_gaps_by_hand(text)


@given(ODD_TEXT | any_text)
def test_only_white_space_says_something_of_names(text):
    gaps = name_gaps(text)
    assert gaps.shape == (len(text),)
    assert all(
        text[index - 1].isspace() and not text[index].isspace() for index in np.flatnonzero(gaps)
    )
    assert set(gaps.tolist()) <= {FREE, CUT, SPACED}


@given(ODD_TEXT)
def test_a_mark_is_never_parted_from_its_base(text):
    gaps = joints(text)
    for index in range(1, len(text)):
        mark = (
            unicodedata.category(text[index]).startswith("M")
            or text[index] == "\u200d"
            or text[index] in "🏻🏼🏽🏾🏿"
        )
        if mark and not text[index - 1].isspace():
            assert gaps[index] == JOIN


def test_code_points_of_every_kind():
    everything = "".join(
        map(chr, (*range(0x3400), *range(0xA000, 0xAC00), *range(0xD700, 0x11000), sys.maxunicode))
    )
    gaps = joints(everything)
    assert len(gaps) == len(everything)
    assert gaps[ord("b")] == JOIN == gaps[ord("1")]


@pytest.mark.parametrize("unit", ["a", "1", "a.", "1.", "1,000,", "a@", "a://", "www.", "-", "'"])
def test_long_runs_take_no_longer_than_their_length(unit):
    text = unit * 20_000  # a pattern that went back and forth would not come to an end here
    assert len(joints(text)) == len(text)
