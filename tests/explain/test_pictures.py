"""Pictures of any text are whole, safe and the same each time; what they show stands in the
explanation.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.explain import Explanation, Word
from hanlattice.explain.drawing import Interval, by_row, edges, labelled, rows, shown, sketch
from hanlattice.explain.html import page
from hanlattice.explain.svg import ROOM, THICK, Reach, lattice, levels, picture, touches, xml
from hanlattice.explain.terminal import lines
from hanlattice.explain.values import chance
from tests.helpers.explanations import WORDS, any_explanation, explained, nanjing

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """What is written in a picture, without the halos below it."""
    found = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return [element.text or "" for element in found if element.get("class") != "halo"]


class Checked(HTMLParser):
    """It fails where an element is not closed, and keeps what a reader would see."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onclick", "onload"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


@settings(max_examples=30)
@given(explanation=any_explanation(), most=st.sampled_from([200.0, 400.0, 960.0]))
def test_svg_of_anything(explanation: Explanation, most: float) -> None:
    svg = picture(explanation, 1, most)
    svg.encode("utf-8")
    assert svg == picture(explanation, 1, most)
    seen = texts(svg)
    for character in explanation.text:
        assert shown(character) in seen
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "style", "rect", "g", "text", "path", "polygon"
    }  # fmt: skip
    assert all(0 < float(root.get(name)) < 1e6 for name in ("width", "height"))
    for element in root.iter():
        assert all(
            float(element.get(name, "1")) >= 0
            for name in ("width", "height", "font-size", "stroke-width")
        )


@settings(max_examples=30)
@given(explanations=st.lists(any_explanation(), max_size=3))
def test_html_of_anything(explanations: list[Explanation]) -> None:
    html = "".join(page(explanations, 1))
    html.encode("utf-8")
    checked = Checked()
    checked.feed(html)
    checked.close()
    assert checked.open == []
    assert not checked.names & {"script", "img", "link", "iframe"}
    assert html.count("<section>") == len(explanations)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", html)


def test_the_words_and_spans_of_a_sentence_are_in_its_picture() -> None:
    explanation = nanjing()
    seen = texts(picture(explanation))
    for _, _, word in WORDS:
        assert sum(text.startswith(f"{word} ") for text in seen) == 2  # above and below
    assert "LOC 98%" in seen
    assert "LOC 100%" in seen
    assert "words that were added" in seen


def test_a_label_has_its_halo_right_below_it() -> None:
    """As an element of its own: `paint-order` is not known everywhere, and without it a halo covers
    its text.
    """
    svg = picture(nanjing())
    assert "paint-order" not in svg
    found = list(ElementTree.fromstring(svg).iter(f"{SVG}text"))
    below = [(one, other) for one, other in pairwise(found) if one.get("class") == "halo"]
    assert len(below) == 2 * len(WORDS)
    for halo, text in below:
        assert text.get("class") in ("f-word", "f-chosen")
        assert {**halo.attrib, "class": text.get("class")} == text.attrib
        assert halo.text == text.text


def test_rules_reach_nothing_outside_the_picture() -> None:
    """A notebook puts pictures into its own page: a rule for an element by name would be one for
    all of it.
    """
    rules = re.findall(
        r"([^{}]+)\{[^{}]+\}", ElementTree.fromstring(picture(nanjing())).findtext(f"{SVG}style")
    )
    assert len(rules) > 20
    assert all(rule.startswith(".") for rule in rules)


def test_a_notebook_shows_the_picture() -> None:
    assert nanjing()._repr_svg_() == picture(nanjing())
    assert explained("", [])._repr_svg_() is None


def test_an_arc_is_as_thick_as_its_share() -> None:
    root = ElementTree.fromstring(picture(nanjing()))
    thick = [float(path.get("stroke-width")) for path in root.iter(f"{SVG}path")]
    assert len(thick) == 2 * len(WORDS)
    assert set(thick) == {round(THICK * 0.5, 1), max(0.8, round(THICK * 0.05, 1))}


def test_a_word_across_a_break_is_drawn_in_both_rows() -> None:
    text = "天" * 40
    explanation = explained(text, [Word(0, 40, text, "words", False)])
    root = ElementTree.fromstring(picture(explanation, 1, 960.0))
    paths = list(root.iter(f"{SVG}path"))
    assert len(paths) == 2 * 4  # four rows, above and below
    assert len(list(root.iter(f"{SVG}polygon"))) == 2  # and it arrives once in each direction
    found = ["".join(piece.text for piece in line) for line in lines(explanation, 1, 100)]
    assert sum("╌" in line for line in found) == sum("天天" in line for line in found) > 1


def test_the_picture_of_words_alone() -> None:
    svg = lattice("南京市长江大桥", WORDS)
    seen = texts(svg)
    assert {word for _, _, word in WORDS} <= set(seen)
    assert not any("%" in text for text in seen)
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}path"))) == len(WORDS)


def legend(svg: str) -> dict[str, tuple[float, float]]:
    """Where the small texts stand."""
    found = [
        text
        for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
        if text.get("text-anchor") == "start"
    ]
    return {text.text or "": (float(text.get("x")), float(text.get("y"))) for text in found}


@pytest.mark.parametrize("length", [2, 7, 14, 16, 20, 40])
def test_what_colours_mean_stands_on_one_line(length: int) -> None:
    text = ("南京市长江大桥" * 6)[:length]
    svg = picture(explained(text, [Word(0, 2, "南京", "words", False)]))
    places = legend(svg)
    bars = [
        places[said] for said in ("share of the character itself", "of words", "of the cell before")
    ]
    others = [place for said, place in places.items() if place not in bars]
    assert len({y for _, y in bars}) == 1
    assert all(y < bars[0][1] for _, y in others)
    assert float(ElementTree.fromstring(svg).get("width")) > bars[-1][0] + 100


def test_a_page_of_a_long_text_is_not_huge() -> None:
    """A table cell holds only its number and a class, since a character has some kilobytes."""
    text = "南京市长江大桥" * 40
    words = [
        Word(at + s, at + e, word, "words", False)
        for at in range(0, len(text), 7)
        for s, e, word in WORDS
    ]
    html = "".join(page([explained(text, words)]))
    cells = re.findall(r"<td[^>]*>", html)
    assert len(cells) > 10 * len(text)
    assert set(cells) <= {"<td>", *(f'<td class="h{step}">' for step in range(1, 11))}
    assert html.count("{background:rgba(var(--heat),") == 10


def test_what_is_not_there_is_said() -> None:
    bare = explained("天气", [])
    assert "no word of the lexicon stands in this text" in texts(picture(bare))
    plain = Explanation("天", (), ("O",), (), (), ("O",), ((1.0,),), ((0, 1),), False)
    said = "this model has no lexicon: it reads characters alone"
    assert said in texts(picture(plain))
    assert said in ["".join(piece.text for piece in line) for line in lines(plain)]
    two = explained("天气", [Word(0, 2, "天气", "words", False)], layers=2)
    assert any("layer 2 of 2" in text for text in texts(picture(two, 2)))


@pytest.mark.parametrize(
    ("layers", "asked", "said"),
    [(1, 2, "one layer, 1;"), (3, 4, "layers 1 to 3;"), (2, 0, "layer 0")],
)
def test_a_layer_that_is_not_there(layers: int, asked: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        sketch(explained("天气", [], layers=layers), asked)


@given(
    widths=st.lists(st.sampled_from([44.0, 64.0]), max_size=40),
    most=st.sampled_from([50.0, 130.0, 900.0]),
    data=st.data(),
)
def test_rows_cover_everything_once(widths: list[float], most: float, data: st.DataObject) -> None:
    places = st.integers(0, len(widths))
    breaks = data.draw(st.lists(places, max_size=3))
    pairs = data.draw(st.lists(st.tuples(places, places), max_size=5))
    soft = [Interval(low, high) for low, high in pairs if high - low > 1]
    found = rows(widths, most, soft[:2], soft[2:], breaks)
    assert [at for start, end in found for at in range(start, end)] == list(range(len(widths)))
    assert all(edges(widths, row)[-1] <= most or row.end - row.start == 1 for row in found)
    assert not any(row.start < cut < row.end for row in found for cut in breaks)
    if widths:
        for nth, row in enumerate(found):
            mine = [
                at for at, each in enumerate(soft) if each.start < row.end and row.start < each.end
            ]
            assert by_row(soft, found)[nth] == mine


def test_a_row_ends_where_it_cuts_the_least() -> None:
    ten = [10.0] * 10
    assert rows(ten, 60.0, [Interval(4, 6)], [], []) == [(0, 6), (6, 10)]
    assert rows(ten, 60.0, [Interval(4, 7)], [], []) == [(0, 4), (4, 10)]
    assert rows(ten, 60.0, [], [Interval(5, 7)], []) == [(0, 5), (5, 10)]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=12))
def test_arcs_of_one_level_stand_apart(pairs: list[tuple[int, int]]) -> None:
    reaches = [Reach(float(left), float(left + long), long) for left, long in pairs]
    found = levels(reaches)
    for one, other in combinations(range(len(reaches)), 2):
        if found[one] == found[other]:
            first, second = sorted([reaches[one], reaches[other]])
            assert second.left >= first.right + ROOM
    assert not found or set(found) == set(range(max(found) + 1))


def test_no_two_arcs_touch_a_cell_at_one_place() -> None:
    spans = [Interval(start, end) for start, end, _ in WORDS]
    found = touches(spans, [64.0 * at for at in range(8)], 0)
    assert len({x for pair in found for x in pair}) == 2 * len(spans)
    for (start, end), (low, high) in zip(spans, found, strict=True):
        assert 64 * start < low < 64 * (start + 1)
        assert 64 * (end - 1) < high < 64 * end
    # 南京 and 南京市 begin together: the shorter stands inside
    inner = found[0]
    outer = found[1]
    assert outer[0] < inner[0]


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("南", "南"),
        (" ", "␣"),
        ("\u3000", "␣"),
        ("\n", "\\n"),
        ("\0", "\\x00"),
        ("\ud800", "\\ud800"),
        ("\u0301", "◌\u0301"),
        ("<", "<"),
    ],
)
def test_every_character_is_shown(character: str, expected: str) -> None:
    assert shown(character) == expected


def test_escapes() -> None:
    assert xml("<a b=\"'&\x00\n\ufffe>") == "&lt;a b=&quot;&#39;&amp;\\x00\n\\ufffe&gt;"
    assert labelled("南京", "4%") == "南京 4%"
    assert labelled("שלום", "4%") == "שלום\u200e 4%"
    assert (chance(0.9999), chance(1.0), chance(0.991)) == (">99%", "100%", "99%")
    assert (chance(0.0001), chance(0.0), chance(0.009)) == ("<1%", "0%", "1%")
