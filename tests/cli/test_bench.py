"""`hanlattice bench`: tables, JSON, a plot, and what it refuses."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from hanlattice.cli.bench import note_busy
from hanlattice.lab.bench import SECTIONS as MEASURED
from hanlattice.lab.bench.timing import busy
from hanlattice.ops.lattice_lstm import batched
from tests.helpers.command import hanlattice

QUICK = [
    "--batch",
    "1",
    "--batch",
    "2",
    "--hidden",
    "4",
    "--seconds",
    "0.001",
    "--threads",
    "1",
    "--length",
    "30",
]
SECTIONS = {
    "settings",
    "versions",
    "machine",
    "checks",
    "encoder",
    "training",
    "tagging",
    "lengths",
    "models",
}


def test_tables_json_and_plot(tmp_path):
    outcome = hanlattice(
        "bench", *QUICK, "--out", tmp_path / "new" / "b.json", "--plot", tmp_path / "b.svg"
    )
    assert outcome.code == 0, outcome.err
    for part in (
        "Equality with the reference",
        "nn.LSTM ms",
        "auto ×",
        "Training step: a new batch",
        "Raw text to spans",
        "By length: sentences of T characters",
    ):
        assert part in outcome.text, outcome.text
    record = json.loads((tmp_path / "new" / "b.json").read_text("utf-8"))
    assert set(record) == SECTIONS
    assert record["settings"]["batches"] == [1, 2]
    assert record["settings"]["hidden"] == [4]
    assert record["settings"]["lengths"] == [30]
    assert ElementTree.parse(tmp_path / "b.svg").getroot().tag.endswith("svg")


def test_one_table_alone_comes_after_the_check(tmp_path, monkeypatch):
    # The checks take seconds.
    monkeypatch.setitem(MEASURED, "checks", lambda *_: [])
    asked = [
        *QUICK,
        "--only",
        "training",
        "--out",
        tmp_path / "b.json",
        "--plot",
        tmp_path / "b.svg",
    ]
    outcome = hanlattice("bench", *asked)
    assert outcome.code == 0, outcome.err
    assert outcome.text.index("Equality with the reference") < outcome.text.index(
        "Training step: a new batch"
    )
    assert "nn.LSTM" not in outcome.text
    record = json.loads((tmp_path / "b.json").read_text("utf-8"))
    assert set(record) == {"settings", "versions", "machine", "checks", "training"}
    assert (tmp_path / "b.svg").read_bytes().startswith(b"<?xml")


def test_a_backend_with_other_numbers_is_2_and_nothing_is_timed(monkeypatch, tmp_path):
    right = batched.directions
    monkeypatch.setattr(batched, "directions", lambda *given: right(*given) * (1 + 1e-6))
    outcome = hanlattice("bench", *QUICK, "--out", tmp_path / "b.json")
    outcome.refused("batched", "differs from the reference by", "nothing was timed")
    assert outcome.text == ""
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "tpu"], "no device is called 'tpu'"),
        (["--seconds", "0"], "seconds must be more than 0"),
        (
            ["--only", "models", "--plot", "x.svg"],
            "--plot shows encoder, training and lengths: --only models has",
        ),
        (
            ["--only", "speed"],
            "no section is called 'speed': expected encoder, training, tagging, lengths, models",
        ),
        (["--only", "checks"], "no section is called 'checks'"),
        (["--plot", "b.pdf"], "a plot is a .svg or .png file"),
    ],
)
def test_wrong_values_are_refused(words, says):
    hanlattice("bench", *words).refused(says)


@pytest.mark.parametrize(
    "words",
    [["--batch", "0"], ["--length", "3"], ["--hidden", "x"], ["--threads", "0"], ["--nothing"]],
)
def test_wrong_options_are_refused(words):
    outcome = hanlattice("bench", *words)
    assert (outcome.code, outcome.out) == (2, b"")


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_timed(tmp_path):
    (tmp_path / "b.json").mkdir()
    outcome = hanlattice("bench", *QUICK, "--out", tmp_path / "b.json")
    outcome.refused("cannot write", "it is a folder")
    assert "nn.LSTM" not in outcome.text


def test_a_busy_machine_is_said(capsys):
    note_busy(64.0, 4)
    assert "note: the machine is busy, a load of 64.0 on 4 cores" in capsys.readouterr().err
    note_busy(0.5, 4)
    assert capsys.readouterr().err == ""
    load, cores = busy()
    assert load >= 0
    assert cores >= 1
