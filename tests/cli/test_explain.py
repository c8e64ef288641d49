"""`hanlattice explain`: a picture in the terminal, lines of JSON, an SVG, a page."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hanlattice.predict import load
from tests.helpers import models
from tests.helpers.command import hanlattice

TEXT = "王小明在青石镇工作。"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_in_the_terminal_and_without_colours_in_a_pipe(lattice_folder):
    outcome = hanlattice("explain", TEXT, "-m", lattice_folder, "--shares")
    assert (outcome.code, outcome.err) == (0, "")
    assert "\x1b" not in outcome.text
    first, brackets, heads, *rest = outcome.text.split("\n")
    assert first == "王 小 明 在 青 石 镇 工 作 。"
    assert "PER" in brackets
    assert "LOC" in brackets
    assert heads.split() == ["forward", "→", "←", "backward"]
    assert [line.split()[1] for line in rest if "├" in line] == ["王小明", "青石镇", "工作"]
    assert all(len(line) <= 100 for line in rest)


def test_json_is_the_explanation(lattice_folder):
    outcome = hanlattice(
        "explain",
        "-m",
        lattice_folder,
        "-f",
        "json",
        "-",
        stdin=f"{TEXT}\n\n\udcff".encode("utf-8", "surrogateescape"),
    )
    assert outcome.code == 0
    assert outcome.err.startswith("note: standard input:3: not UTF-8")
    records = [json.loads(line) for line in outcome.text.splitlines()]
    tagger = load(lattice_folder)
    assert records == [
        json.loads(json.dumps(tagger.explain(text, True).to_dict()))
        for text in (TEXT, "", "\ufffd")
    ]


@pytest.mark.parametrize("form", ["terminal", "json", "svg", "html"])
def test_without_tells_what_each_word_changes(lattice_folder, form):
    asked = ("explain", "在青石镇工作。", "-m", lattice_folder, "--format", form)
    shares = hanlattice(*asked, "--shares")
    both = hanlattice(*asked, "--shares", "--without")
    told = hanlattice(*asked)
    assert (shares.code, both.code, told.code, told.err) == (0, 0, 0, "")
    assert "without" not in shares.text
    assert "without" in both.text
    assert "without" in told.text
    assert (told.text == both.text) == (form == "json")


def test_svg_to_a_file(lattice_folder, out):
    outcome = hanlattice("explain", TEXT, "-m", lattice_folder, "--format", "svg", "--out", out)
    assert (outcome.code, outcome.out, outcome.err[:5]) == (0, b"", "note:")
    assert ElementTree.fromstring(out.read_bytes()).tag.endswith("svg")
    assert (
        hanlattice("explain", TEXT, "-m", lattice_folder, "--format", "svg").out == out.read_bytes()
    )


def test_svg_is_of_one_text(lattice_folder, out):
    hanlattice("explain", TEXT, TEXT, "-m", lattice_folder, "-f", "svg", "-o", out).refused(
        "shows one text, and there are more", "html"
    )
    hanlattice("explain", "-", "-m", lattice_folder, "-f", "svg", "-o", out).refused(
        "there is none"
    )
    assert not out.exists()


def test_a_page_of_several_texts(lattice_folder, out, tmp_path):
    file = tmp_path / "in.txt"
    file.write_text(f"{TEXT}\n<script>alert(1)</script>\n", "utf-8")
    assert hanlattice("explain", file, "-m", lattice_folder, "-f", "html", "-o", out).code == 0
    html = out.read_text("utf-8")
    assert (html.count("<section>"), html.count("<svg")) == (
        2,
        3,
    )  # the first has words, and so shares too
    assert "<script" not in html
    assert html.endswith("</html>\n")


def test_a_users_words(lattice_folder, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("小明在\n", "utf-8")
    outcome = hanlattice("explain", TEXT, "-m", lattice_folder, "-l", words, "-f", "json")
    (record,) = [json.loads(line) for line in outcome.text.splitlines()]
    assert [word["word"] for word in record["words"] if word["chosen"]] == ["小明在"]


def test_mistakes_are_told(lattice_folder, char_folder, tmp_path, made):
    hanlattice("explain", TEXT, "-m", lattice_folder, "--layer", "2").refused(
        "the model has one layer, 1; there is no layer 2"
    )
    hanlattice("explain", TEXT, "-m", lattice_folder, "--trust", "2").refused(
        "--trust needs --lexicon"
    )
    hanlattice("explain", TEXT, "-m", tmp_path / "nothing").refused("nothing")
    hanlattice("explain", "nothing.txt", "-m", lattice_folder).refused("there is no such file")
    hanlattice("explain", TEXT, "-m", char_folder, "-l", tmp_path / "words.txt").refused(
        "no lexicon"
    )
    words = models.tagger(made, tmp_path / "words", model__encoder="word", segment__by="gold")
    del words
    hanlattice("explain", TEXT, "-m", tmp_path / "words").refused("this model reads words")


def test_trust_is_for_words_with_labels(lattice_folder, tmp_path, made):
    words = tmp_path / "words.txt"
    words.write_text("工作\tPER\n", "utf-8")
    for verb in (
        ("explain", TEXT, "-m", lattice_folder),
        ("evaluate", lattice_folder, made / "test.bmes"),
    ):
        trusts = [hanlattice(*verb, "-l", words, "--trust", trust).text for trust in ("0", "500")]
        assert trusts[0] != trusts[1]


def test_an_empty_text(lattice_folder, char_folder, out):
    for folder in (lattice_folder, char_folder):
        assert hanlattice("explain", "", "-m", folder).text == "this text is empty\n"
    hanlattice("explain", "", "-m", lattice_folder, "-f", "svg", "-o", out).refused(
        "the text is empty"
    )
    assert not out.exists()
    page = hanlattice("explain", "", TEXT, "-m", lattice_folder, "-f", "html").text
    assert page.count("<section>") == 2
    assert page.count("<svg") == 2
    assert "This text is empty." in page


def test_a_model_without_lexicon_says_so(char_folder):
    outcome = hanlattice("explain", TEXT, "-m", char_folder)
    assert outcome.code == 0
    assert outcome.text.endswith("this model has no lexicon: it reads characters alone\n")


def test_ways_to_decode(lattice_folder):
    shown = json.loads(
        hanlattice("explain", TEXT, "-m", lattice_folder, "-f", "json", "--decode", "1").text
    )
    assert shown["spans"] == []
    assert {item["tag"] for item in shown["characters"]} == {"O"}
    spans = json.loads(
        hanlattice("explain", TEXT, "-m", lattice_folder, "-f", "json", "--decode", "spans").text
    )
    assert spans == json.loads(
        json.dumps(load(lattice_folder, decode="spans").explain(TEXT, True).to_dict())
    )
    assert spans["spans"]
