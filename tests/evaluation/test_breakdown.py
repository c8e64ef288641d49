"""Classes of sentences by length, and the tables and plots of what was scored by them."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.evaluation.breakdown import NAMES, draw, places_by_length, tables
from hanlattice.evaluation.ner import Score


@given(st.lists(st.integers(0, 300)))
def test_every_sentence_is_in_the_class_of_its_length(lengths):
    found = places_by_length(lengths)
    assert tuple(found) == NAMES
    assert sorted(at for places in found.values() for at in places) == list(range(len(lengths)))
    for name, places in found.items():
        low, _, high = name.replace(" or more", "–999").partition("–")
        assert all(int(low) <= max(1, lengths[at]) <= int(high) for at in places), name


@pytest.mark.parametrize(
    ("length", "name"),
    [
        (1, "1–20"),
        (20, "1–20"),
        (21, "21–40"),
        (100, "81–100"),
        (101, "101–249"),
        (249, "101–249"),
        (250, "250 or more"),
    ],
)
def test_borders(length, name):
    assert places_by_length([length])[name] == [0]


def report(*parts: str) -> dict[str, Any]:
    scores = [Score(0, 0, 0), Score(8, 6, 4), Score(1000, 0, 0)]
    rows = {
        "by_sentence_length": [
            {"characters": name, "sentences": 3, **score.as_dict()}
            for name, score in zip(NAMES, scores, strict=False)
        ],
        "by_lexicon_share": [
            {"share": share, "words": 1000, "places": 5, **score.as_dict()}
            for share, score in zip((0.0, 0.2, 1.0), scores, strict=True)
        ],
    }
    return {"overall": {}, **{part: rows[part] for part in parts}}


def test_tables():
    assert list(tables(report())) == []
    lengths, shares = tables(report("by_sentence_length", "by_lexicon_share"))
    assert lengths.headings == (
        "characters",
        "sentences",
        "precision",
        "recall",
        "F1",
        "gold",
        "found",
        "correct",
    )
    assert lengths.rows[0] == ("1–20", "3", "–", "–", "–", "0", "0", "0")
    assert lengths.rows[1] == ("21–40", "3", "66.67", "50.00", "57.14", "8", "6", "4")
    assert shares.title == "By share of the lexicon, of 1,000 words"
    assert shares.headings[:3] == ("share", "places", "precision")
    assert [row[:2] for row in shares.rows] == [(f"{n} %", "5") for n in (0, 20, 100)]


@pytest.mark.parametrize(
    "parts", [["by_sentence_length"], ["by_lexicon_share", "by_sentence_length"]]
)
def test_plots(parts, tmp_path):
    for name in ("one.svg", "two.svg"):
        draw(report(*parts), tmp_path / name)
    told = ["".join(node.itertext()) for node in ElementTree.parse(tmp_path / "one.svg").iter()]
    assert told.count("F1") == len(parts)
    assert {"21–40", "sentences", "characters"} <= set(told)
    assert ("20 %" in told) == ("by_lexicon_share" in parts)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
