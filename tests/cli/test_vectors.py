"""`hanlattice vectors neighbours` and `vectors check`, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hanlattice.text.vectors import Vectors, write_vectors
from tests.helpers.command import hanlattice

WORDS = ("桥", "江", "长江", "大桥", "[b]")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    matrix = np.array([[1, 0], [0.9, 0.1], [0, 1], [1, 0.5], [-1, 0]], np.float32)
    write_vectors(tmp_path / "v.bin", Vectors(WORDS, matrix), binary=True)
    return tmp_path / "v.bin"


def test_neighbours(file):
    outcome = hanlattice("vectors", "neighbours", "桥", "长江", "--vectors", file, "-n", "2")
    assert outcome.code == 0
    assert outcome.text == "桥: 江 0.994  大桥 0.894\n长江: 大桥 0.447  江 0.110\n"


def test_neighbours_as_json(file):
    outcome = hanlattice("vectors", "neighbours", "桥", "-v", file, "--json")
    result = json.loads(outcome.text)
    assert [row["word"] for row in result["桥"]] == ["江", "大桥", "长江", "[b]"]
    assert result["桥"][-1]["cosine"] == -1


def test_neighbours_of_a_sum(file):
    ask = ("vectors", "neighbours", "桥", "-", "江", "+", "长江", "大桥", "-v", file)
    assert hanlattice(*ask, "-n", "1").text == "桥 - 江 + 长江: 大桥 0.453\n大桥: 江 0.938\n"
    result = json.loads(hanlattice(*ask, "--json").text)
    assert {query: [row["word"] for row in rows] for query, rows in result.items()} == {
        "桥 - 江 + 长江": ["大桥", "[b]"],
        "大桥": ["江", "桥", "长江", "[b]"],
    }


def test_sums_that_are_not_whole(file):
    ask = ("vectors", "neighbours", "-v", file)
    hanlattice(*ask, "-", "桥").refused(
        "- 桥: expected a word before '-', as in 国王 - 男人 + 女人"
    )
    hanlattice(*ask, "桥", "+").refused("桥 +: expected a word after '+'")
    hanlattice(*ask, "桥", "-", "+", "江").refused("桥 - + 江: expected a word before '+'")
    hanlattice(*ask, "桥", "-", "桥").refused(
        "桥 - 桥: these vectors add up to nothing; leave out a word"
    )
    hanlattice(*ask, "桥", "-", "水").refused("there is no vector of '水'")


def test_neighbours_of_a_download(file, cache):
    hanlattice("vectors", "neighbours", "桥", "-v", "@simplechinese/words.bin").refused(
        "data get simplechinese"
    )
    (cache / "simplechinese").mkdir(parents=True)
    (cache / "simplechinese" / "words.bin").write_bytes(file.read_bytes())
    assert (
        hanlattice("vectors", "neighbours", "桥", "-v", "@simplechinese/words.bin", "-n", "1").text
        == "桥: 江 0.994\n"
    )


def test_neighbours_of_very_large_vectors(tmp_path):
    """No warning of an overflow is printed."""
    (tmp_path / "v.vec").write_text("3 2\n甲 3e38 3e38\n乙 3e38 3e38\n丙 1 0\n", "utf-8")
    outcome = hanlattice("vectors", "neighbours", "甲", "-v", tmp_path / "v.vec")
    assert (outcome.code, outcome.text, outcome.err) == (0, "甲: 乙 1.000  丙 0.707\n", "")


def test_no_such_word_or_file(file, tmp_path):
    hanlattice("vectors", "neighbours", "长江大桥", "-v", file).refused(
        "no vector of '长江大桥'; similar words are 大桥, 长江"
    )
    hanlattice("vectors", "neighbours", "桥", "-v", tmp_path / "no").refused("no: cannot read")


def test_neighbours_goes_on_after_an_unknown_word(file):
    outcome = hanlattice("vectors", "neighbours", "水", "桥", "火", "-v", file, "-n", "1")
    assert (outcome.code, outcome.text) == (0, "桥: 江 0.994\n")
    assert [line[:26] for line in outcome.err.splitlines()] == [
        "note: there is no vector of"[:26]
    ] * 2
    none = hanlattice("vectors", "neighbours", "水", "火", "-v", file)
    assert (none.code, none.out) == (2, b"")
    assert "error: none of these words has a vector" in none.err


def test_check_a_sound_file(file):
    outcome = hanlattice("vectors", "check", file)
    assert outcome.code == 0
    assert outcome.text.endswith("the file is sound\n")
    for part in (
        "binary",
        "5 rows of width 2",
        "5, of which 2 single characters",
        "from 0.9055 to 1.118",
    ):
        assert part in outcome.text


def test_check_a_file_with_faults(tmp_path):
    (tmp_path / "v.vec").write_text("9 2\n[b]江 1 2\n桥 1\n水 nan 1\n河 inf 2\n", "utf-8")
    outcome = hanlattice("vectors", "check", tmp_path / "v.vec")
    assert outcome.code == 0
    assert outcome.text.endswith("the file can be used, but it is not sound: see above\n")
    for part in (
        "wrong, there are 4 rows",
        "too few numbers: 1, line 3",
        "a value is not finite: 2, line 4, 5",
    ):
        assert part in outcome.text


def test_check_a_binary_file_with_faults(tmp_path):
    rows = b"".join(
        w.encode() + b" " + np.array(v, "<f4").tobytes() for w, v in (("江", [1]), ("桥", [np.inf]))
    )
    (tmp_path / "v.bin").write_bytes(b"2 1\n" + rows)
    outcome = hanlattice("vectors", "check", tmp_path / "v.bin")
    assert outcome.code == 0
    assert "row 2 (byte 12): a value is not finite" in outcome.text
    assert "a value is not finite: 1, row 2" in outcome.text


def test_check_says_at_once_that_a_corpus_is_missing(tmp_path):
    """Corpora are checked before the vectors are read, which may be large and are broken here."""
    (tmp_path / "v.vec").write_text("nothing\n", "utf-8")
    hanlattice("vectors", "check", tmp_path / "v.vec", "-c", tmp_path / "no.txt").refused(
        "no.txt: cannot read"
    )


def test_check_a_file_that_cannot_be_used(tmp_path, file):
    (tmp_path / "no.bin").write_bytes(file.read_bytes()[:-3])
    hanlattice("vectors", "check", tmp_path / "no.bin").refused("no.bin: cut short: row 5 of 5")


def test_check_covers_corpora(file, tmp_path):
    (tmp_path / "raw.txt").write_text("长江大桥 1\n", "utf-8")
    (tmp_path / "c.bmes").write_text("长\tB-LOC\n江\tE-LOC\n\n大\tB-LOC\n江\tE-LOC\n", "utf-8")
    (tmp_path / "none.txt").write_text("水\n", "utf-8")
    corpora = [
        option
        for name in ("raw.txt", "c.bmes", "none.txt")
        for option in ("-c", str(tmp_path / name))
    ]
    raw, labelled, none = json.loads(hanlattice("vectors", "check", file, *corpora, "--json").text)[
        "corpora"
    ]
    assert (raw["positions_in"], raw["positions"], raw["types_in"], raw["types"]) == (2, 5, 2, 5)
    assert (raw["words"]["positions"], raw["words"]["lexicon"], raw["words"]["entities"]) == (
        2,
        3,
        None,
    )
    assert labelled["words"]["entities"] == {"tokens": 2, "tokens_in": 1, "types": 2, "types_in": 1}
    assert none["words"] is None
    shown = hanlattice("vectors", "check", file, *corpora).text
    for part in (
        "2 of 5 (40.0%)",
        "1 of 2 (50.0%)",
        "2 (0.33 a character)",
        "no word of two characters or more",
    ):
        assert part in shown


def test_the_form_of_a_corpus(file, tmp_path):
    (tmp_path / "a.bmes").write_text("长江\n", "utf-8")
    hanlattice("vectors", "check", file, "-c", tmp_path / "a.bmes").refused("a.bmes:1: ")
    assert (
        hanlattice("vectors", "check", file, "-c", tmp_path / "a.bmes", "--format", "raw").code == 0
    )
    (tmp_path / "b.txt").write_text("", "utf-8")
    hanlattice("vectors", "check", file, "-c", tmp_path / "b.txt").refused(
        "b.txt: the file is empty"
    )
