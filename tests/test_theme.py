"""One palette: a label has its colour in every picture of a model, and all of them can be read."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.explain.drawing import sketch
from hanlattice.explain.html import page
from hanlattice.explain.svg import picture
from hanlattice.explain.terminal import lines
from hanlattice.output import html_page, terminal_lines
from hanlattice.predict import Document
from hanlattice.text.span import Span
from hanlattice.text.tags import tag_set
from hanlattice.theme import INKS, TONES, page_shell, tones
from tests.helpers.explanations import explained

RESUME = ("CONT", "EDU", "LOC", "NAME", "ORG", "PRO", "RACE", "TITLE")
MODELS = [
    ("LOC", "ORG", "PER"),
    RESUME,
    ("GPE.NAM", "GPE.NOM", "LOC.NAM", "PER.NAM", "PER.NOM"),
    ("人名", "地名"),
]
WHITE = (255.0, 255.0, 255.0)
BLACK = (0.0, 0.0, 0.0)

Colour = tuple[float, float, float]


def parsed(colour: str) -> Colour:
    red, green, blue = (float(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
    return red, green, blue


def of_terminal(number: int) -> Colour:
    """A colour of the cube of 6 × 6 × 6 that terminals have from number 16 on."""
    steps = [0.0, 95.0, 135.0, 175.0, 215.0, 255.0]
    assert 16 <= number < 232
    red, rest = divmod(number - 16, 36)
    return steps[red], steps[rest // 6], steps[rest % 6]


def over(above: Colour, below: Colour, opacity: float) -> Colour:
    red, green, blue = (a * opacity + b * (1 - opacity) for a, b in zip(above, below, strict=True))
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """As WCAG 2 has it: from 1 to 21."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Colour) -> float:
    parts = (part / 255 for part in colour)
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@given(
    st.lists(st.sampled_from([*RESUME, "PER", "PER.NAM", "GPE", "甲", "乙", "丙"]), unique=True),
    st.randoms(),
)
def test_the_order_of_labels_does_not_matter(labels, random):
    found = tones(labels)
    assert list(found) == labels
    random.shuffle(labels)
    assert tones(labels) == found
    assert set(found.values()) <= set(range(len(TONES)))


@pytest.mark.parametrize("labels", MODELS, ids=lambda labels: labels[0])
def test_labels_of_a_model_differ(labels):
    for one, other in combinations(labels, 2):
        alike = one.split(".")[0] == other.split(".")[0]
        assert (tones(labels)[one] == tones(labels)[other]) == alike


def test_known_labels_have_one_tone_in_all_models():
    for label in ("LOC", "ORG", "PER", "GPE", "WORD"):
        assert (
            tones([label, *RESUME])[label]
            == tones([label])[label]
            == tones([f"{label}.NAM"])[f"{label}.NAM"]
        )


def test_more_labels_than_tones():
    labels = [f"L{at:02}" for at in range(30)]
    assert set(tones(["PER", *labels]).values()) == set(range(len(TONES)))
    assert tones(["PER", *labels])["PER"] not in {
        tones(["PER", *labels])[label] for label in labels
    }


@pytest.mark.parametrize("labels", MODELS, ids=lambda labels: labels[0])
def test_a_label_has_one_colour_in_all_pictures(labels):
    """In a text that has only one of them, and with the labels of the model in any order."""
    for label in labels:
        spans = (Span(0, 2, label, 0.5, "南京"),)
        tone = TONES[tones(labels)[label]]
        document = Document("南京", spans)
        line, _ = terminal_lines([document], labels[::-1])
        assert line.startswith(f"\x1b[38;5;{tone.terminal}m[")
        names = tuple(tag_set(labels, "BMES"))
        chances = ((1.0, *[0.0] * (len(names) - 1)),) * 2
        explanation = replace(explained("南京", [], spans), tag_names=names, marginals=chances)
        styles = [piece.style for line in lines(explanation) for piece in line]
        assert f"color({tone.terminal})" in styles

        name = f"t{sketch(explanation).bands[0].tone}"
        for source in (picture(explanation), "".join(page([explanation]))):
            assert f'<g class="{name}">' in source
            assert re.findall(rf"\.{name}{{fill:(#\w+)}}", source) == [tone.light, tone.dark]
        source = "".join(html_page([document], labels[::-1]))
        assert f'<mark class="{name}" data-label=' in source
        assert re.findall(
            rf"\.{name} {{ background: (#\w+)33; border-color: (#\w+); }}", source
        ) == [
            (tone.light, tone.light),
            (tone.dark, tone.dark),
        ]


def test_labels_can_be_read_in_a_picture():
    """A label stands on the page, its own tint, and the colour of the cell over both."""
    for dark in (0, 1):
        page_colour = parsed(INKS["page"][dark])
        cell = parsed(INKS["cell"][dark])
        for tone in TONES:
            ink = parsed(tone[dark])
            assert contrast(ink, over(cell, over(ink, page_colour, 0.17), 0.6)) >= 4.5, tone


def test_text_can_be_read_on_its_mark():
    for dark in (0, 1):
        page_colour = parsed(INKS["page"][dark])
        ink = parsed(INKS["ink"][dark])
        for tone in TONES:
            assert contrast(ink, over(parsed(tone[dark]), page_colour, 0x33 / 255)) >= 7, tone


def test_a_page_has_the_palette_and_escapes_its_title():
    head, *body, end = page_shell(
        "<title>&\x00", "p{color:var(--faint)}", ["<p>一</p>", "<p>二</p>"]
    )
    assert "<title>&lt;title&gt;&amp;\\x00</title>" in head
    assert "p{color:var(--faint)}" in head
    for name, colour in INKS.items():
        assert re.findall(rf"--{name}:(#\w+);", head) == [colour.light, colour.dark]
    assert (body, end) == (["<p>一</p>", "<p>二</p>"], "</body>\n</html>\n")


def test_a_terminal_may_be_light_or_dark():
    numbers = [
        colour.terminal for colour in (*TONES, *INKS.values()) if colour.terminal is not None
    ]
    for number in numbers:
        assert contrast(of_terminal(number), WHITE) >= 3.5, number
        assert contrast(of_terminal(number), BLACK) >= 3.5, number
    assert len(set(numbers)) == len(numbers) == len(TONES) + 3  # words, subwords, added words
