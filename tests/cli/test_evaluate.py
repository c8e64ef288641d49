"""`hanlattice evaluate`: a model against a labelled file."""

from __future__ import annotations

import json

import pytest

from hanlattice.data.columns import write_columns
from hanlattice.data.jsonl import write_jsonl
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span
from tests.cli.command import hanlattice
from tests.made import sentences


def test_the_test_set_again_gives_the_scores_of_training(lattice_folder, made):
    shown = hanlattice("evaluate", lattice_folder, made / "test.bmes")
    assert (shown.code, shown.err) == (0, "")
    assert "30 sentences" in shown.text
    assert all(label in shown.text for label in ("all", "PER", "LOC"))
    found = json.loads(hanlattice("evaluate", "--json", lattice_folder, made / "test.bmes").text)
    assert found == json.loads(hanlattice("info", "--json", lattice_folder).text)["scores"]["test"]


def test_every_format_gives_the_same(lattice_folder, tmp_path):
    given_sentences = sentences(12, 8)
    write_columns(tmp_path / "a.bio", given_sentences, "BIO")
    write_columns(tmp_path / "a.bmes", given_sentences, "BMES")
    write_jsonl(tmp_path / "a.jsonl", given_sentences)
    write_jsonl(tmp_path / "a.other", given_sentences)
    found = [
        json.loads(hanlattice("evaluate", "--json", lattice_folder, tmp_path / name, *more).text)
        for name, more in (("a.bio", []), ("a.bmes", []), ("a.jsonl", []), ("a.other", ["--format", "jsonl"]))
    ]
    assert found[0]["overall"]["gold"] == sum(len(s.spans or ()) for s in given_sentences)
    assert all(each == found[0] for each in found)


def test_loose_counts_tags(lattice_folder, made, tmp_path):
    strict, loose = (
        json.loads(hanlattice("evaluate", "--json", *more, lattice_folder, made / "test.bmes").text)
        for more in ([], ["--loose"])
    )
    assert loose["overall"]["correct"] <= strict["overall"]["gold"]
    assert loose["overall"]["f1"] > 0.9
    assert "as the original code does" in hanlattice("evaluate", "--loose", lattice_folder, made / "test.bmes").text
    write_jsonl(tmp_path / "a.jsonl", sentences(3, 1))
    hanlattice("evaluate", "--loose", lattice_folder, tmp_path / "a.jsonl").refused("a.jsonl", "--loose counts tags")


def test_a_label_that_the_model_does_not_know_is_missed(char_folder, tmp_path):
    write_columns(tmp_path / "a.bmes", [Sentence("王小明去了月球！", (Span(0, 3, "PER"), Span(5, 7, "MOON")))])
    found = json.loads(hanlattice("evaluate", "--json", char_folder, tmp_path / "a.bmes").text)
    assert found["by_type"]["MOON"] == {"precision": 0, "recall": 0, "f1": 0, "gold": 1, "predicted": 0, "correct": 0}


def test_notices_of_the_file_are_told(char_folder, tmp_path):
    (tmp_path / "a.bio").write_text("王\tI-PER\n明\tI-PER\n去\tO\n", "utf-8")
    outcome = hanlattice("evaluate", char_folder, tmp_path / "a.bio")
    assert outcome.code == 0
    assert outcome.err.startswith("note: ")
    assert "IOB1" in outcome.err


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["corpus is empty"]),
        ("王\tB-PER\n明\n", [":2: ", "a column is missing"]),
        ("王\tB-PER\n明\tZ-PER\n", [":2: ", "'Z-PER'"]),
    ],
)
def test_a_bad_file_is_refused_with_its_line(char_folder, tmp_path, content, parts):
    (tmp_path / "a.bmes").write_text(content, "utf-8")
    hanlattice("evaluate", char_folder, tmp_path / "a.bmes").refused("a.bmes", *parts)


def test_options_that_do_not_exist(char_folder, made):
    hanlattice("evaluate", char_folder, "nowhere.bmes").refused("nowhere.bmes: cannot read: there is no such file")
    hanlattice("evaluate", "--format", "xml", char_folder, made / "test.bmes").refused(
        "no corpus format is called 'xml'"
    )
    hanlattice("evaluate", "--scheme", "BILOU", char_folder, made / "test.bmes").refused(
        "no tag scheme is called 'BILOU'"
    )
    hanlattice("evaluate", "--device", "gpu", char_folder, made / "test.bmes").refused("no device is called 'gpu'")
