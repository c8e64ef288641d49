"""`hanlattice info`: what a model is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.cli.command import hanlattice


def test_it_says_what_the_model_is(lattice_folder, made):
    outcome = hanlattice("info", lattice_folder)
    assert (outcome.code, outcome.err) == (0, "")
    for part in (
        "lattice",
        "LOC, PER",
        "BMES",
        str(made / "words.bin"),
        "120 sentences",
        "dev, epoch",
        "test, epoch",
        "100.00",
    ):
        assert part in outcome.text, part


def test_as_json(lattice_folder, char_folder):
    facts = json.loads(hanlattice("info", "--json", lattice_folder).text)
    assert facts["encoder"] == "lattice"
    assert facts["labels"] == ["LOC", "PER"]
    assert facts["words"] > 30
    assert facts["data"]["train"]["sentences"] == 120
    assert len(facts["data"]["train"]["sha256"]) == 64
    assert facts["scores"]["test"]["overall"]["f1"] > 0.95
    assert facts["config"]["train"]["seed"] == 1
    assert facts["bytes"] == sum(file.stat().st_size for file in lattice_folder.iterdir())
    assert json.loads(hanlattice("info", "--json", char_folder).text)["words"] == 0


def test_a_name_with_square_brackets_is_shown_as_it_is(lattice_folder, tmp_path):
    folder = Path(shutil.copytree(lattice_folder, tmp_path / "[bold]model[/x]"))
    assert "[bold]model[/x]" in hanlattice("info", folder).text


def test_no_model(tmp_path):
    hanlattice("info", tmp_path / "none").refused("none", "no such model folder")
    hanlattice("info", tmp_path).refused("config.json is missing")
