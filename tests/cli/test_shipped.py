"""The bundled models on the command line: by default, by name, and before user folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hanlattice import checkpoint as shipped
from tests.helpers.command import hanlattice

TEXT = "王小明在青石镇工作。"


def test_tag_segment_and_explain_need_no_model():
    bridge = "南京市长江大桥"
    assert hanlattice("tag", bridge, "-f", "inline").text == "[南京市/LOC][长江大桥/LOC]\n"
    assert hanlattice("segment", bridge).text == "南京市 长江 大桥\n"
    record = json.loads(hanlattice("explain", bridge, "-f", "json").text)
    assert [span["label"] for span in record["spans"]] == ["LOC", "LOC"]


@pytest.mark.parametrize("name", ["ner", "seg"])
def test_what_they_are(name):
    outcome = hanlattice("info", name)
    assert (outcome.code, outcome.err) == (0, "")
    assert "250,000" in outcome.text
    assert "test, epoch" in outcome.text


@pytest.fixture
def here(lattice_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which a folder is called ner."""
    (tmp_path / "ner").symlink_to(lattice_folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_of_ones_own_is_found_by_its_path(here, lattice_folder, made):
    for words in (
        ["tag", TEXT, "-m"],
        ["explain", TEXT, "-f", "json", "-m"],
        ["info", "--json"],
        ["evaluate"],
    ):
        files = [made / "test.bmes"] if words[0] == "evaluate" else []
        own, named = (hanlattice(*words, model, *files) for model in ("./ner", lattice_folder))
        assert own == named
        assert own.code == 0
    for name in ("./ner", "ner/"):
        hanlattice("segment", TEXT, "-m", name).refused("this model does not cut text into words")


def test_evaluate_calibrate_and_mistakes_take_names(
    lattice_folder, char_folder, made, tmp_path, monkeypatch
):
    """Small models replace the bundled ones."""
    for name, folder in (("ner", lattice_folder), ("seg", char_folder)):
        (tmp_path / name).symlink_to(folder)
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path)
    test = made / "test.bmes"
    assert hanlattice("evaluate", "ner", test) == hanlattice("evaluate", lattice_folder, test)
    calibrated = hanlattice("calibrate", "ner", test)
    assert (calibrated.code, calibrated.err) == (0, "")
    assert calibrated.text.startswith("ner: the spans of the best tagging")
    compared = hanlattice("mistakes", "seg", "ner", test)
    assert compared.code == 0
    assert compared.text.startswith("A: seg\nB: ner\n")
    kept = lattice_folder / "README.md"
    before = kept.read_bytes()
    assert (
        hanlattice("mistakes", "seg", "ner", test, "--out", tmp_path / "ner" / "README.md").code
        == 2
    )
    assert kept.read_bytes() == before


def test_a_folder_here_with_the_name_of_a_bundled_model_is_reported(
    here, char_folder, tmp_path, monkeypatch
):
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "ner").symlink_to(char_folder)
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path / "shipped")
    for words in (["tag", TEXT], ["explain", TEXT], ["tag", TEXT, "-m", "ner"], ["info", "ner"]):
        said = hanlattice(*words).err
        assert said.startswith("note: ner is ")
        assert said.endswith("the folder here is ./ner\n")
    assert hanlattice("tag", TEXT, "-m", "./ner").err == ""
    monkeypatch.chdir(tmp_path / "shipped")
    assert hanlattice("tag", TEXT).err == ""


def test_an_unknown_name_is_refused(here):
    hanlattice("tag", TEXT, "-m", "nre").refused("nre: there is no such model folder")
    hanlattice("info", "Ner").refused("Ner: there is no such model folder")
