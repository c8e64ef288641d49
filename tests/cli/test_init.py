"""`hanlattice init`: a configuration for your own corpus, which trains unchanged."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from hanlattice.checkpoint.load import load_model
from hanlattice.config import read_config
from hanlattice.data.formats.columns import write_columns
from hanlattice.text.vectors import Vectors, write_vectors
from tests.helpers.command import hanlattice
from tests.helpers.documents import blocks
from tests.helpers.made import PLACES, WORDS, sentences


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working folder, with vectors where `hanlattice data get simplechinese` puts them."""
    names = tuple(dict.fromkeys([*WORDS, *PLACES, *"".join((*WORDS, *PLACES))]))
    matrix = np.random.default_rng(1).normal(size=(len(names), 8)).astype(np.float32)
    (tmp_path / "cache" / "simplechinese").mkdir(parents=True)
    write_vectors(
        tmp_path / "cache" / "simplechinese" / "words.bin", Vectors(names, matrix), binary=True
    )
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def write_corpus(folder: Path, task: str) -> None:
    if task == "ner":
        write_columns(folder / "train.bmes", sentences(20, seed=1))
        write_columns(folder / "test.bmes", sentences(6, seed=2))
    else:
        for part in ("train", "test"):
            lines = ["昨天 天气 很好", "今天 开会 ， 没有 说话", "南湖 有 3 个 人", "工作 很好"] * 5
            (folder / f"{part}.seg").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.parametrize(("task", "options"), [("ner", ()), ("words", ("--task", "words"))])
def test_the_file_trains_as_it_is_with_the_command_that_is_printed(here, task, options):
    outcome = hanlattice("init", "my corpus", *options)
    assert outcome.code == 0, outcome
    write_corpus(here / "my corpus", task)
    *_, get, command = outcome.text.splitlines()
    assert get.strip() == "hanlattice data get simplechinese"
    assert command.strip() == "hanlattice train 'my corpus/train.toml' --out 'runs/my corpus'"
    assert (
        (here / "my corpus" / "train.toml").read_text("utf-8").startswith(f"# {command.strip()}\n")
    )
    trained = hanlattice(*shlex.split(command)[1:])
    assert trained.code == 0, trained
    assert "test, weights of epoch" in trained.text
    model = load_model(here / "runs" / "my corpus")
    assert model.config == read_config("my corpus/train.toml", complete=True)
    assert model.data["test"]["sentences"] == (6 if task == "ner" else 20)


def test_a_file_for_a_training_from_a_model(here, lattice_folder):
    outcome = hanlattice("init", "own", "--from", lattice_folder)
    assert outcome.code == 0, outcome
    assert "simplechinese" not in outcome.text
    write_corpus(here / "own", "ner")
    trained = hanlattice(*shlex.split(outcome.text.splitlines()[-1])[1:], "--set", "train.epochs=1")
    assert trained.code == 0, trained
    assert load_model(here / "runs" / "own").data["start"]["model"] == str(lattice_folder)
    hanlattice("init", "other", "--from", "none").refused("there is no such model folder")
    assert not (here / "other").exists()


def test_nothing_is_overwritten(here):
    assert hanlattice("init", ".").code == 0
    first = (here / "train.toml").read_bytes()
    hanlattice("init", ".", "--task", "words").refused(
        "train.toml exists already, and nothing is overwritten"
    )
    assert (here / "train.toml").read_bytes() == first
    hanlattice("init", "train.toml").refused("train.toml exists already")
    hanlattice("init", "train.toml/sub").refused("cannot write train.toml/sub/train.toml")


def test_the_page_on_training_shows_the_file(here):
    assert hanlattice("init", "own", "--task", "ner").code == 0
    assert hanlattice("init", "more", "--from", "ner").code == 0
    shown = [block.text for block in blocks("docs/training.md") if block.language == "toml"]
    assert [(here / name / "train.toml").read_text("utf-8") for name in ("own", "more")] == shown


def test_quotes_and_backslashes_in_a_name(here):
    assert hanlattice("init", 'a"b\\c').code == 0
    assert (
        read_config(here / 'a"b\\c' / "train.toml", complete=True).data.train == 'a"b\\c/train.bmes'
    )
