"""`hanlattice pretrain lm`, `lm score` and `lm sample`, as a user types them."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hanlattice.checkpoint.language_model import load_language_model
from hanlattice.cli import lm as cli_lm
from hanlattice.cli.pretrain_lm import pretrain_lm
from hanlattice.lab.pretrain.lm import train as lm_train
from hanlattice.lab.pretrain.lm.recipe import HELP, Recipe
from hanlattice.lab.pretrain.lm.score import text_surprise
from hanlattice.lab.pretrain.lm.train import train_language_model
from tests.helpers.command import hanlattice
from tests.helpers.lm import TINY, files_of_any_size, limit_files, tiny

OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]


@pytest.fixture(scope="module")
def text(lm_text: Path) -> Path:
    return lm_text


@pytest.fixture(scope="module")
def folder(trained_lm: Path) -> Path:
    return trained_lm


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_language_model_is_trained_and_says_how_well(folder, text, tmp_path):
    done = hanlattice("pretrain", "lm", text, "--out", tmp_path / "lm", *OPTIONS)
    assert done.code == 0, done.err
    assert "steps are few, 500 or more are usual" in done.err
    for direction in ("forward", "backward"):
        assert f"{direction}, epoch 2, step" in done.err
        perplexity = load_language_model(tmp_path / "lm").facts[direction]["held_out"]["perplexity"]
        assert f"{direction}: perplexity {perplexity:.3f}" in done.err
        assert (tmp_path / "lm" / f"{direction}.safetensors").stat().st_size
    assert (tmp_path / "lm" / "lm.json").read_bytes() == (folder / "lm.json").read_bytes()


def test_the_options_are_those_of_the_recipe_with_its_defaults():
    given = inspect.signature(pretrain_lm).parameters
    names = [option.name for option in dataclasses.fields(Recipe)]
    assert {*HELP, "seed", "device"} == {*names}
    assert {name: given[name].default for name in names} == dataclasses.asdict(Recipe())
    assert sorted(given) == sorted([*names, "files", "out", "direction", "resume", "encoding"])


def test_vectors_to_begin_with_are_reported(text, tmp_path):
    (tmp_path / "v.vec").write_text("9 2\n王 1 2\n小 3 4\n明 5\n", "utf-8")
    options = [option for option in OPTIONS if not option.startswith("--embedding")]
    done = hanlattice(
        "pretrain",
        "lm",
        text,
        "-o",
        tmp_path / "lm",
        *options,
        "--epochs=1",
        "--vectors",
        tmp_path / "v.vec",
    )
    assert done.code == 0, done.err
    assert "symbols begin with a vector, 2 wide" in done.err
    assert "note: " in done.err
    assert "line 4: expected a word and 2 numbers" in done.err


def test_ctrl_c_says_how_to_continue(text, tmp_path):
    with mock.patch.object(lm_train, "train_language_model", side_effect=KeyboardInterrupt):
        done = hanlattice("pretrain", "lm", text, "--out", tmp_path / "lm", "--epochs", "3")
    assert done.code == 130
    expected = shlex.join(
        ["hanlattice", "pretrain", "lm", str(text), "--out", str(tmp_path / "lm"), "--epochs", "3"]
    )
    assert f"stopped; continue with: {expected} --resume" in done.err


def test_what_cannot_be_trained_on_is_refused(folder, text, tmp_path):
    out = ("--out", tmp_path / "lm")
    empty = tmp_path / "empty.txt"
    bad = tmp_path / "bad.txt"
    empty.write_bytes(b"")
    bad.write_bytes("好的\n".encode() + b"\xfe\n")
    hanlattice("pretrain", "lm", empty, *out).refused("empty.txt: the file is empty")
    hanlattice("pretrain", "lm", bad, *out).refused("bad.txt:2: not UTF-8: byte 0xfe at byte 1")
    few = hanlattice("pretrain", "lm", text, *out, "--held-out", "0.1")
    few.refused("one batch of --batch-size 256 × --length 128 takes 32,768; lower one of them")
    hanlattice("pretrain", "lm", text, *out).refused("--held-out 0.01 of 60 lines is not one line")
    hanlattice("pretrain", "lm", text, *out, "--hidden", "0").refused("--hidden must be 1 or more")
    hanlattice("pretrain", "lm", text, *out, "--held-out", "1e-20").refused(
        "--held-out 1e-20 of 60 lines is not one"
    )
    both = ("--from", folder, "--min-count", "5")
    hanlattice("pretrain", "lm", text, *out, *both).refused("--min-count does not fit --from")
    hanlattice("pretrain", "lm", text, *out, "--from", tmp_path / "no").refused(
        "no such language model folder"
    )
    assert not (tmp_path / "lm").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported(text, tmp_path):
    """The log is a link to a full disk."""
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "log-forward.jsonl").symlink_to("/dev/full")
    done = hanlattice("pretrain", "lm", text, "--out", tmp_path / "lm", *OPTIONS)
    done.refused("cannot write", "log-forward.jsonl")


def test_no_room_for_the_first_state_is_reported(text, tmp_path):
    command = ("pretrain", "lm", text, *OPTIONS, "--direction", "forward", "--out", tmp_path / "lm")
    with files_of_any_size():
        limit_files(4000)
        done = hanlattice(*command)
    done.refused("state-forward.safetensors: the file would be larger than allowed here")
    assert {file.name for file in (tmp_path / "lm").iterdir()} == {
        "chars.txt",
        "lm.json",
        "log-forward.jsonl",
    }
    assert hanlattice(*command).code == 0


def test_names_that_are_not_utf8(text, tmp_path):
    gbk = os.fsdecode("语料".encode("gbk"))
    file = Path(shutil.copy(text, tmp_path / f"{gbk}.txt"))
    done = hanlattice("pretrain", "lm", file, "--out", tmp_path / "lm", *OPTIONS, "--epochs=1")
    assert done.code == 0, done.err
    assert hanlattice("lm", "score", "-m", tmp_path / "lm", "王小明", "--file", file).code == 0


def test_score_shows_each_character_and_the_mean(folder):
    done = hanlattice("lm", "score", "-m", folder, "王小明去了[b] ", "--direction", "forward")
    assert done.code == 0, done.err
    (bits,) = text_surprise(load_language_model(folder), "forward", ["王小明去了[b] "])
    rows = [line.split("│")[1:3] for line in done.text.splitlines() if line.startswith("│")]
    shown = [(name.strip(), number.strip()) for name, number in rows]
    names = [*"王小明去了[b]", "U+0020", "end"]
    assert shown == [(name, f"{value:.2f}") for name, value in zip(names, bits, strict=True)]
    mean = bits.mean()
    assert (
        f"forward: {mean:.4f} bits a character, perplexity {2**mean:.3f}, over 10 characters"
        in done.text
    )


def test_score_gives_everything_as_json(folder):
    texts = ["王小明去了", "南湖"]
    done = hanlattice("lm", "score", "-m", folder, "\n".join(texts), "--json")
    *lines, total = json_lines(done.text)
    model = load_language_model(folder)
    for direction in ("forward", "backward"):
        expected = text_surprise(model, direction, texts)
        for line, text, bits in zip(lines, texts, expected, strict=True):
            assert line["text"] == text
            assert [*line[direction]["bits"], line[direction]["end"]] == pytest.approx(
                bits, abs=1e-4
            )
        mean = sum(bits.sum() for bits in expected) / 9
        assert total["total"][direction]["bits"] == pytest.approx(mean, rel=1e-5)
        assert total["total"][direction]["symbols"] == 9


def test_score_of_a_file_is_that_of_the_training(folder, text, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_lm, "_BLOCK", 20)
    held = tmp_path / "held.txt"
    held.write_text("\n\n".join(text.read_text("utf-8").splitlines()[9::10]) + "\n", "utf-8")
    result = [
        hanlattice("lm", "score", "-m", folder, "--file", held),
        hanlattice("lm", "score", "-m", folder, "-", stdin=held.read_bytes()),
    ]
    for direction in ("forward", "backward"):
        known = load_language_model(folder).facts[direction]["held_out"]
        for done in result:
            assert f"{direction}: {known['bits']:.4f} bits a character" in done.text
            assert f"over {known['symbols']} characters" in done.text


def test_long_text_is_not_shown_character_by_character(folder):
    done = hanlattice("lm", "score", "-m", folder, "南湖" * 400)
    assert "│" not in done.text
    assert "--json has them all" in done.err


def test_what_cannot_be_scored_is_refused(folder, text, tmp_path):
    hanlattice("lm", "score", "-m", folder).refused("there is no text to score")
    hanlattice("lm", "score", "-m", folder, " \n").refused("there is no text to score")
    hanlattice("lm", "score", "-m", folder, "-", stdin=b"a\n\xff").refused(
        "standard input:2: not UTF-8"
    )
    hanlattice("lm", "score", "-m", folder, "-f", tmp_path / "no").refused(
        "cannot read: there is no such file"
    )
    hanlattice("lm", "score", "-m", tmp_path, "王").refused(
        "not a language model folder, lm.json is missing"
    )
    train_language_model(tiny(epochs=1), [text], tmp_path / "half", "forward")
    half = ("-m", tmp_path / "half")
    hanlattice("lm", "score", *half, "王", "--direction", "backward").refused(
        "train it by --direction backward"
    )
    assert "backward" not in hanlattice("lm", "score", *half, "王").text


def test_an_argument_that_is_not_utf8_is_scored_with_a_mark_in_its_place(folder):
    done = hanlattice("lm", "score", "-m", folder, os.fsdecode(b"\xe7\x8e\x8b\xff"), "--json")
    assert done.code == 0, done.err
    assert json_lines(done.text)[0]["text"] == "王\ufffd"


def test_samples_are_lines_that_begin_or_end_with_the_prompt(folder):
    ask = ("lm", "sample", "-m", folder, "--prompt", "王小", "--length", "12", "-n", "3")
    ahead = hanlattice(*ask, "--seed", "5")
    lines = ahead.text.splitlines()
    assert ahead.code == 0, ahead.err
    assert len(lines) == 3
    assert all(line.startswith("王小") and len(line) <= 14 for line in lines)
    assert hanlattice(*ask, "--seed", "5").text == ahead.text
    back = hanlattice(*ask, "--direction", "backward", "--top", "4").text.splitlines()
    assert all(line.endswith("王小") for line in back)


def test_samples_that_make_no_sense_are_refused(folder):
    hanlattice("lm", "sample", "-m", folder, "--temperature", "-1").refused(
        "--temperature must be 0 or more"
    )
    hanlattice("lm", "sample", "-m", folder, "-n", "0").refused("-n must be 1 or more")
    for temperature in ("1e-46", "1e40"):
        assert hanlattice("lm", "sample", "-m", folder, "--temperature", temperature).code == 0
