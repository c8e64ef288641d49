"""Bad input of every kind: exit code 2, the file and the line, and never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.command import Outcome, hanlattice
from tests.helpers.made import made_tree, write_toml


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy of the artificial corpus, which a test may damage."""
    return Path(shutil.copytree(made, tmp_path / "data"))


def train(data: Path, *more: str, **changes: Any) -> Outcome:
    config = write_toml(data / "c.toml", made_tree(data, **changes))
    outcome = hanlattice("train", config, "--out", data / "run", *more)
    assert not (data / "run").exists(), "a run that could not begin leaves nothing"
    return outcome


@pytest.mark.parametrize("name", ["train.bmes", "dev.bmes", "test.bmes", "chars.vec", "words.bin"])
def test_a_missing_file(data, name):
    (data / name).unlink()
    train(data).refused(f"{data / name}: cannot read: there is no such file")


def test_a_missing_configuration(tmp_path):
    hanlattice("train", tmp_path / "no.toml", "--out", tmp_path / "run").refused(
        "no.toml: cannot read"
    )


@pytest.mark.parametrize("name", ["train.bmes", "dev.bmes", "test.bmes"])
@pytest.mark.parametrize("content", ["", "\n\n \n", "\ufeff"])
def test_an_empty_corpus(data, name, content):
    (data / name).write_text(content, "utf-8")
    train(data).refused(f"{data / name}: the corpus is empty")


def test_a_column_missing_at_a_line(data):
    lines = (data / "train.bmes").read_text("utf-8").split("\n")
    lines[3] = lines[3][0]
    (data / "train.bmes").write_text("\n".join(lines), "utf-8")
    train(data).refused(f"{data / 'train.bmes'}:4: a column is missing")


@pytest.mark.parametrize(
    ("tag", "why"),
    [("Q-PER", "'Q-PER'"), ("B_PER", "'B_PER' is not a tag"), ("I-PER", "fits no scheme")],
)
def test_a_tag_that_does_not_fit_at_a_line(data, tag, why):
    """The file has M and E, so tag I belongs to another scheme."""
    text = "一\tO\n王\tB-PER\n明\tM-PER\n国\tE-PER\n\n王\t" + tag + "\n"
    (data / "dev.bmes").write_text(text, "utf-8")
    train(data).refused(f"{data / 'dev.bmes'}:6: ", why)


def test_tags_that_break_the_rules_are_told(data):
    (data / "dev.bmes").write_text("王\tM-PER\n明\tE-PER\n去\tO\n", "utf-8")
    config = write_toml(data / "c.toml", made_tree(data, train__epochs=1))
    outcome = hanlattice("train", config, "--out", data / "run")
    assert outcome.code == 0
    assert (
        f"{data / 'dev.bmes'}: tags break the rules of BMES in 1 place, first at line 1"
        in outcome.err
    )


def test_a_corpus_without_labels(data):
    (data / "train.bmes").write_text("王\tO\n明\tO\n", "utf-8")
    train(data).refused("no labelled span")


def test_bytes_that_are_not_utf8(data):
    (data / "train.bmes").write_bytes("王\tO\n".encode() + b"\xff\tO\n")
    train(data).refused(f"{data / 'train.bmes'}:2: not UTF-8")


def test_a_file_of_vectors_that_is_none(data):
    (data / "words.bin").write_text("这不是向量\n", "utf-8")
    train(data).refused(f"{data / 'words.bin'}:1: not word vectors")
    (data / "chars.vec").write_text("2 3\n南 1 2\n白 1 2\n", "utf-8")
    train(data).refused(
        f"{data / 'chars.vec'}: no row of it is a word and its vector "
        "(line 2: expected a word and 3 numbers"
    )


def test_vectors_cut_short(data):
    (data / "words.bin").write_bytes((data / "words.bin").read_bytes()[:-9])
    train(data).refused(str(data / "words.bin"), "cut short")


def test_an_unknown_key_with_the_nearest_right_one(data):
    train(data, "--set", "train.epoch=3").refused("unknown key train.epoch: did you mean epochs?")
    train(data, "--set", "trian.epochs=3").refused("unknown section [trian]: did you mean train?")
    train(data, "--set", "model.encoder=latice").refused("did you mean lattice?")
    train(data, "--set", "epochs").refused("--set wants section.key=value")


def test_all_mistakes_of_a_configuration_at_once(tmp_path):
    (tmp_path / "c.toml").write_text(
        '[data]\ndev = ""\nlimt = 3\n[train]\nlr = "fast"\nepochs = -1\ndevice = 3\n[modl]\n',
        "utf-8",
    )
    outcome = hanlattice(
        "train", tmp_path / "c.toml", "--out", tmp_path / "run", "--set", "train.clip=nan"
    )
    outcome.refused(
        "has 8 problems",
        "unknown key data.limt: did you mean limit?",
        "train.lr must be a number, not 'fast'",
        "train.epochs must be above 0, not -1",
        "train.device must be a string, not 3",
        "train.clip must be 0 or more, not nan",
        "unknown section [modl]: did you mean model?",
        "data.train must name",
        "words.vectors must name",
    )


def test_nothing_is_asked_twice(tmp_path):
    (tmp_path / "c.toml").write_text(
        '[data]\ntrain = 3\ndev = "d"\n[words]\nvectors = 4\n', "utf-8"
    )
    outcome = hanlattice("train", tmp_path / "c.toml", "--out", tmp_path / "run")
    outcome.refused(
        "has 2 problems",
        "data.train must be a string, not 3",
        "words.vectors must be a string, not 4",
    )


@pytest.mark.parametrize(
    "value", ["lr=1" + "0" * 400, "seed=1" + "0" * 30, "lr=inf", "seed=-1", "clip=-inf"]
)
def test_numbers_beyond_reason(data, value):
    train(data, "--set", f"train.{value}").refused(f"train.{value.partition('=')[0]} must be")


def test_what_is_not_toml(tmp_path):
    (tmp_path / "c.toml").write_text("[data\nx = 1\n", "utf-8")
    hanlattice("train", tmp_path / "c.toml", "--out", tmp_path / "run").refused(
        "c.toml", "not TOML", "line 1"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_where_there_is_none(data, lattice_folder):
    train(data, "--set", "train.device=cuda").refused(
        "cuda was asked for, and torch finds no CUDA device here; use cpu"
    )
    for verb in (
        ["tag", "-m", lattice_folder, "王"],
        ["evaluate", lattice_folder, data / "test.bmes"],
    ):
        hanlattice(*verb, "--device", "cuda").refused("torch finds no CUDA device")


def test_a_model_folder_with_a_byte_changed(lattice_folder, tmp_path, made):
    for name in ("config.json", "chars.txt", "lexicon.txt", "model.safetensors"):
        folder = Path(shutil.copytree(lattice_folder, tmp_path / name))
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 2
        (folder / name).write_bytes(content)
        for verb in (
            ["tag", "-m", folder, "王"],
            ["info", folder],
            ["evaluate", folder, made / "test.bmes"],
        ):
            hanlattice(*verb).refused(str(folder))


def test_an_output_that_cannot_be_written(data, lattice_folder):
    (data / "file").write_text("mine")
    config = write_toml(data / "c.toml", made_tree(data))
    hanlattice("train", config, "--out", data / "file").refused(
        "file is a file; --out must name a folder"
    )
    hanlattice("train", config, "--out", data / "file" / "run").refused("cannot write")
    hanlattice("tag", "-m", lattice_folder, "-o", data, "王").refused(
        "cannot write", "it is a folder"
    )
    hanlattice("tag", "-m", lattice_folder, "-o", data / "file" / "x", "王").refused("cannot write")
