"""`hanlattice analyse`: words and entities together, with the options of `tag`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hanlattice.checkpoint import find_model
from tests.helpers.command import hanlattice

TEXT = "国家主席江泽民在北京会见了联合国秘书长安南。"


def test_inline_and_whole_names():
    outcome = hanlattice("analyse", "--format", "inline", TEXT)
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        outcome.text
        == "国家 主席 [江 泽民/PER] 在 [北京/LOC] 会见 了 [联合国/ORG] 秘书长 [安南/PER] 。\n"
    )
    whole = hanlattice("analyse", "--format", "inline", "--whole-names", TEXT).text
    assert (
        whole == "国家 主席 [江泽民/PER] 在 [北京/LOC] 会见 了 [联合国/ORG] 秘书长 [安南/PER] 。\n"
    )


def test_json_has_what_tag_and_segment_have(tmp_path):
    (tmp_path / "in.txt").write_text(f"{TEXT}\n\n南京市 长江大桥\n", "utf-8")
    rows = {}
    for verb in ("analyse", "tag", "segment"):
        arguments = [] if verb == "analyse" else ["--format", "jsonl"]
        outcome = hanlattice(verb, tmp_path / "in.txt", *arguments)
        rows[verb] = [json.loads(line) for line in outcome.text.splitlines()]
    assert [row["spans"] for row in rows["analyse"]] == [row["spans"] for row in rows["tag"]]
    assert [row["words"] for row in rows["analyse"]] == [row["spans"] for row in rows["segment"]]
    assert rows["analyse"][1] == {"text": "", "spans": [], "words": []}


def test_formats_standard_input_and_a_file(tmp_path):
    outcome = hanlattice(
        "analyse", "-", "-f", "conll", "--scheme", "BIO", stdin="江泽民\n".encode()
    )
    assert outcome.text == "江\tS\tB-PER\n泽\tB\tI-PER\n民\tE\tI-PER\n\n"
    hanlattice("analyse", "-f", "html", "-o", tmp_path / "page.html", "--min-score", "0.5", TEXT)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert ">江 泽民</mark> 在 <mark" in page
    terminal = hanlattice("analyse", "-f", "terminal", TEXT)
    assert terminal.text.endswith("LOC 1 · ORG 1 · PER 2 · 1 text\n")


def test_a_dictionary_is_for_both(tmp_path):
    (tmp_path / "names.txt").write_text("云栖小镇\n的\n", "utf-8")
    outcome = hanlattice(
        "analyse", "-f", "inline", "-l", tmp_path / "names.txt", "大会在云栖小镇举行。"
    )
    assert outcome.text == "大会 在 [云栖小镇/LOC] 举行 。\n"
    assert outcome.err.count("note: ") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "seg"], "--model needs one that finds entities"),
        (["-s", "ner"], "--segmenter needs one that cuts text into words"),
        (["-s", "nothing/there"], "nothing/there"),
        (["--trust", "2"], "--trust needs --lexicon"),
        (["--min-score", "nan"], "'nan' is not a finite number"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str) -> None:
    outcome = hanlattice("analyse", TEXT, *arguments)
    assert outcome.code == 2
    assert said in outcome.err or ("nan" in said and "min-score" in outcome.err)


def test_the_output_may_not_replace_the_segmenter(tmp_path: Path) -> None:
    folder = shutil.copytree(find_model("seg"), tmp_path / "cutter")
    hanlattice("analyse", TEXT, "-s", folder, "-o", folder / "config.json").refused("config.json")
