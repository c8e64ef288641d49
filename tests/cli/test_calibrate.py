"""`hanlattice calibrate`: tables, a report and a plot; its scores are those of `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hanlattice.data.formats.jsonl import write_jsonl
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from tests.helpers.command import hanlattice
from tests.helpers.made import sentences


def test_tables_report_and_plot(lattice_folder, made, tmp_path):
    outputs = ["--out", tmp_path / "c.json", "--plot", tmp_path / "c.svg"]
    outcome = hanlattice(
        "calibrate", lattice_folder, made / "test.bmes", made / "dev.bmes", *outputs
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "test.bmes, 30 sentences: " in outcome.text
    assert "expected calibration error" in outcome.text
    assert (tmp_path / "c.svg").read_bytes().startswith(b"<?xml")
    record = json.loads((tmp_path / "c.json").read_text("utf-8"))
    assert list(record["files"]) == [str(made / "test.bmes"), str(made / "dev.bmes")]
    report = json.loads(hanlattice("evaluate", lattice_folder, made / "test.bmes", "--json").text)
    first = record["files"][str(made / "test.bmes")]["thresholds"][0]
    assert {key: first[key] for key in report["overall"]} == report["overall"]


def test_candidates_are_more(lattice_folder, made, tmp_path):
    counts = []
    for more in ([], ["--candidates"]):
        assert (
            hanlattice(
                "calibrate", lattice_folder, made / "test.bmes", "-o", tmp_path / "c.json", *more
            ).code
            == 0
        )
        (only,) = json.loads((tmp_path / "c.json").read_text("utf-8"))["files"].values()
        counts.append([item["count"] for item in only["width"]])
    spans, candidates = counts
    assert sum(candidates) > sum(spans)
    # Spans with the highest scores are in the best tagging.
    assert candidates[-1] == spans[-1]
    hanlattice(
        "calibrate", lattice_folder, made / "test.bmes", "-o", tmp_path / "c.md", "--candidates"
    )
    text = (tmp_path / "c.md").read_text("utf-8")
    assert "probability of 0.01 or more" in text
    assert "| min score | precision | recall | F1 | spans | kept % |" in text


def test_bad_options_are_refused_before_anything_is_read(lattice_folder, made, tmp_path):
    nowhere = Path("/nowhere")
    hanlattice("calibrate", nowhere, nowhere, "--out", tmp_path / "c.txt").refused(
        "c.txt", "a .json or .md file"
    )
    hanlattice("calibrate", nowhere, nowhere, "--plot", tmp_path / "c.pdf").refused(
        "c.pdf", "a .svg or .png file"
    )
    hanlattice("calibrate", lattice_folder, made / "test.bmes", made / "test.bmes").refused(
        "a file is given twice"
    )
    again = made / ".." / made.name / "test.bmes"
    hanlattice("calibrate", lattice_folder, made / "test.bmes", again).refused(
        "a file is given twice"
    )
    hanlattice("calibrate", lattice_folder, tmp_path / "none.bmes").refused(
        "none.bmes", "there is no such file"
    )
    assert not list(tmp_path.iterdir())


def test_outputs_never_replace_an_input(lattice_folder, made, tmp_path):
    gold = tmp_path / "gold.json"
    link = tmp_path / "link.svg"
    write_jsonl(gold, sentences(3, 7))
    link.symlink_to(gold)
    kept = gold.read_bytes()
    for output in (("-o", gold), ("--plot", link), ("-o", lattice_folder / "config.json")):
        hanlattice("calibrate", lattice_folder, gold, *output).refused(
            "the output is one of the files to read"
        )
    assert gold.read_bytes() == kept


def test_one_span_of_a_file_with_an_odd_name(lattice_folder, tmp_path):
    odd = tmp_path / "a*b_`c`\x1b[31m.jsonl"
    text = "南湖有3个人。"
    write_jsonl(odd, [Sentence(text, (Span(0, 2, "LOC"),))])
    outcome = hanlattice("calibrate", lattice_folder, odd, "-o", tmp_path / "c.md")
    assert outcome.code == 0
    assert ", 1 sentence: 1 span: mean score" in outcome.text
    assert "\x1b" not in outcome.text
    assert r"a\*b\_\`c\`" in (tmp_path / "c.md").read_text("utf-8")
    assert "\x1b" not in (tmp_path / "c.md").read_text("utf-8")


def test_without_matplotlib(lattice_folder, made, tmp_path, monkeypatch):
    monkeypatch.setattr("hanlattice.theme.find_spec", lambda _: None)
    hanlattice(
        "calibrate", lattice_folder, made / "test.bmes", "--plot", tmp_path / "c.svg"
    ).refused("pip install 'hanlattice[plot]'")


@pytest.mark.parametrize("name", ["calibrate", "tag"])
def test_help(name):
    outcome = hanlattice(name, "--help")
    assert outcome.code == 0
    assert "candidates" in outcome.text


def test_the_best_set_of_spans(lattice_folder, made, tmp_path):
    file = made / "test.bmes"
    outcome = hanlattice(
        "calibrate", lattice_folder, file, "--decode", "0.9", "-o", tmp_path / "c.json"
    )
    assert "the best set of spans above 0.900" in outcome.text
    (only,) = json.loads((tmp_path / "c.json").read_text("utf-8"))["files"].values()
    assert sum(item["count"] for item in only["width"][:-1]) == 0
    report = json.loads(
        hanlattice("evaluate", lattice_folder, file, "--decode", "0.9", "--json").text
    )
    assert {key: only["thresholds"][0][key] for key in report["overall"]} == report["overall"]
    both = hanlattice("calibrate", lattice_folder, file, "--decode", "0.9", "--candidates")
    both.refused("--candidates counts all spans, and --decode chooses some")


def test_fit_writes_curves_into_the_model_or_a_copy(lattice_folder, made, tmp_path):
    held = tmp_path / "held.jsonl"
    write_jsonl(held, sentences(40, 11))
    copy = tmp_path / "copy"
    outcome = hanlattice(
        "calibrate", lattice_folder, held, "--fit", "--save", copy, "-o", tmp_path / "c.json"
    )
    assert outcome.code == 0
    record = json.loads((tmp_path / "c.json").read_text("utf-8"))["files"]
    assert list(record) == [f"{held}, before", f"{held}, after"]
    before, after = record.values()
    assert [item["count"] for item in (before, after)] == [before["count"]] * 2
    assert after["brier"] <= before["brier"]
    assert set(after["labels"]) == {"LOC", "PER"}
    for raw, wanted in (((), after), (("--raw",), before)):
        assert hanlattice("calibrate", copy, held, "-o", tmp_path / "d.json", *raw).code == 0
        assert json.loads((tmp_path / "d.json").read_text("utf-8"))["files"][str(held)] == wanted
    text = "王小明在青石镇工作。"
    for options in ((), ("-f", "inline")):
        tagged = [
            hanlattice("tag", "-m", item, *options, text).text for item in (lattice_folder, copy)
        ]
        # Scores differ, and spans are the same.
        assert (tagged[0] == tagged[1]) == bool(options)
    assert "held.jsonl (" in hanlattice("info", copy).text
    assert "- scores calibrated on held.jsonl (" in (copy / "README.md").read_text("utf-8")
    assert "calibration" not in json.loads(hanlattice("info", lattice_folder, "--json").text)
    again = hanlattice(
        "calibrate", copy, held, "--fit"
    )  # in its place, from what it was trained to
    assert again.code == 0
    assert (
        json.loads(hanlattice("info", copy, "--json").text)["scores"]["calibration"]["fitted"][0][
            "spans"
        ]
        > 0
    )
    assert hanlattice("calibrate", copy, held, "-o", tmp_path / "e.json").code == 0
    assert json.loads((tmp_path / "e.json").read_text("utf-8"))["files"][str(held)] == after


def test_what_cannot_be_fitted(lattice_folder, made, tmp_path):
    train = made / "train.bmes"
    few = tmp_path / "few.jsonl"
    write_jsonl(few, sentences(1, 11))
    hanlattice("calibrate", lattice_folder, train, "--fit", "--save", tmp_path / "m").refused(
        "train.bmes", "the model was trained on this text"
    )
    hanlattice("calibrate", lattice_folder, few, "--fit", "--save", tmp_path / "m").refused(
        "20 or more"
    )
    hanlattice("calibrate", "ner", few, "--fit").refused("ner is bundled", "--save FOLDER")
    hanlattice("calibrate", lattice_folder, few, "--fit", "--save", lattice_folder).refused(
        "there already"
    )
    hanlattice("calibrate", lattice_folder, few, "--fit", "--raw").refused(
        "leave out --candidates and --raw"
    )
    hanlattice("calibrate", lattice_folder, few, "--save", tmp_path / "m").refused("give both")
    assert [item.name for item in tmp_path.iterdir()] == ["few.jsonl"]
