"""`hanlattice train`: configuration in, model folder out, and the ways in which it is stopped."""

from __future__ import annotations

import json
import random
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.load import load_model
from tests.helpers.command import hanlattice, start
from tests.helpers.lm import files_of_any_size, limit_files
from tests.helpers.made import made_tree, write_made, write_toml
from tests.helpers.patience import PATIENCE


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=40)
    return folder


def toml(tiny: Path, path: Path, **changes: Any) -> Path:
    return write_toml(path, made_tree(tiny, **{"train__epochs": 2, "model__hidden": 4, **changes}))


def same_weights(left: Path, right: Path) -> bool:
    mine, theirs = (load_tensors(folder / "model.safetensors")[0] for folder in (left, right))
    return mine.keys() == theirs.keys() and all(
        torch.equal(mine[name], theirs[name]) for name in theirs
    )


def test_a_model_and_its_scores(tiny, tmp_path):
    outcome = hanlattice(
        "train",
        toml(tiny, tmp_path / "c.toml"),
        "--out",
        tmp_path / "run",
        "--set",
        "train.epochs=1",
    )
    assert outcome.code == 0
    assert "40 to train on" in outcome.err
    assert "epoch 1: loss" in outcome.err
    assert "epoch 2" not in outcome.err
    assert f"the model is in {tmp_path / 'run'}\n" in outcome.err
    assert "dev, weights of epoch 1" in outcome.text
    assert "test, weights of epoch 1" in outcome.text
    assert load_model(tmp_path / "run").config.train.epochs == 1
    card = (tmp_path / "run" / "README.md").read_text("utf-8")
    assert all(
        part in card
        for part in ("lattice LSTM–CRF", "LOC, PER", "train.bmes", "words.bin", "| dev |")
    )


def test_a_variant(tiny, tmp_path):
    config = toml(tiny, tmp_path / "c.toml", train__epochs=1)
    (tmp_path / "variants.toml").write_text("[char]\nmodel.encoder = 'char'\n", "utf-8")
    with config.open("a", encoding="utf-8") as file:
        file.write("[variants]\nnames = ['char']\n")
    assert hanlattice("train", config, "--variant", "char", "--out", tmp_path / "run").code == 0
    assert load_model(tmp_path / "run").config.model.encoder == "char"
    second = hanlattice("train", config, "--variant", "chra", "--out", tmp_path / "other")
    second.refused("unknown variant 'chra': did you mean char?")


def test_a_bundled_configuration_by_its_name(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = [f"data.{part}={tiny / part}.bmes" for part in ("train", "dev", "test")]
    sets += [
        f"chars.vectors={tiny / 'chars.vec'}",
        f"words.vectors={tiny / 'words.bin'}",
        "train.epochs=1",
    ]
    options = [word for change in sets for word in ("--set", change)]
    outcome = hanlattice(
        "train", "weibo", "--variant", "lattice-uncoupled", "--out", "run", *options
    )
    assert outcome.code == 0, outcome
    assert not load_model("run").config.model.coupled
    hanlattice("train", "wiebo", "--out", "x").refused(
        "no bundled configuration of this name; these are demo, free, msra"
    )


def test_resume_of_a_finished_run_and_of_another_one(tiny, tmp_path):
    config = toml(tiny, tmp_path / "c.toml")
    first = hanlattice("train", config, "--out", tmp_path / "run")
    again = hanlattice("train", config, "--out", tmp_path / "run", "--resume")
    assert (again.code, again.out) == (0, first.out)
    assert "epoch 1: loss" not in again.err
    hanlattice("train", config, "--out", tmp_path / "run").refused(
        "holds a run already", "--resume"
    )
    second = hanlattice(
        "train", config, "--out", tmp_path / "run", "--resume", "--set", "train.seed=2"
    )
    second.refused("another configuration or other data")


def wait_for(path: Path, process: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_ctrl_c_says_how_to_go_on_and_going_on_ends_alike(tiny, tmp_path):
    config = toml(tiny, tmp_path / "c.toml", train__epochs=10, train__checkpoint_minutes=1e-3)
    with config.open("a", encoding="utf-8") as file:
        file.write("[variants]\nwide.model.hidden = 5\n")
    variant = ("--variant", "wide")
    with start(
        "train", config, *variant, "--out", tmp_path / "[run] 1", "--set", "train.lr = 0.01"
    ) as process:
        wait_for(tmp_path / "[run] 1" / "model.safetensors", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert b"Traceback" not in err, err.decode()
    assert out == b""
    (command,) = [
        line for line in err.decode().splitlines() if line.startswith("stopped; go on with: ")
    ]
    _, *again = shlex.split(command.removeprefix("stopped; go on with: "))
    assert hanlattice(*again).code == 0
    assert (
        hanlattice(
            "train", config, *variant, "--out", tmp_path / "whole", "--set", "train.lr=0.01"
        ).code
        == 0
    )
    assert same_weights(tmp_path / "[run] 1", tmp_path / "whole")


def test_kill_9_at_a_random_moment(tiny, tmp_path):
    config = toml(
        tiny,
        tmp_path / "c.toml",
        train__epochs=15,
        train__checkpoint_minutes=1e-3,
        train__average=0.9,
    )
    assert hanlattice("train", config, "--out", tmp_path / "whole").code == 0
    with start("train", config, "--out", tmp_path / "run") as process:
        wait_for(tmp_path / "run" / "state.safetensors", process)
        time.sleep(random.uniform(0, 0.2))
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert hanlattice("train", config, "--out", tmp_path / "run", "--resume").code == 0
    assert same_weights(tmp_path / "run", tmp_path / "whole")
    logs = [
        (tmp_path / name / "log.jsonl").read_text("utf-8").splitlines() for name in ("run", "whole")
    ]
    epochs = [[line for line in map(json.loads, log) if line["event"] == "epoch"] for log in logs]
    assert [(e["epoch"], e["loss"], e["dev"]) for e in epochs[0]] == [
        (e["epoch"], e["loss"], e["dev"]) for e in epochs[1]
    ]


def test_a_full_disk_leaves_no_half_file_and_a_run_that_goes_on(tiny, tmp_path):
    """The system limits the size of files: the model fits, the optimiser's state does not."""
    config = toml(tiny, tmp_path / "c.toml")
    assert hanlattice("train", config, "--out", tmp_path / "whole").code == 0
    size = (tmp_path / "whole" / "model.safetensors").stat().st_size
    limits = {"one byte": 1, "too small for the state": int(size * 1.7)}
    for name, limit in limits.items():
        folder = tmp_path / name
        with files_of_any_size():
            limit_files(limit)
            outcome = hanlattice("train", config, "--out", folder)
        outcome_line = outcome.err[outcome.err.index("error: ") :]
        assert outcome.code == 2, outcome
        assert "larger than allowed" in outcome_line
        assert "Traceback" not in outcome.err
        assert not [path for path in folder.glob("*") if path.name.endswith(".part")]
        assert (folder / "model.safetensors").exists() == (name != "one byte")
        assert hanlattice("train", config, "--out", folder, "--resume").code == 0
        assert same_weights(folder, tmp_path / "whole")


def test_notices_are_told_whatever_is_in_them(tiny, tmp_path):
    vectors = tmp_path / "[red]words[/]" / "x.vec"
    vectors.parent.mkdir(parents=True)
    vectors.write_text("3 2\n青石镇 1 2\n南湖 1 2 3\n白沙 1\n", "utf-8")
    config = toml(tiny, tmp_path / "c.toml", words__vectors=str(vectors), train__epochs=1)
    outcome = hanlattice("train", config, "--out", tmp_path / "run")
    assert outcome.code == 0
    assert f"note: {vectors}: skipped 2 broken rows: line 3: expected" in outcome.err
    assert "line 3: expected a word and 2 numbers, found 3 numbers" in outcome.err
    assert "line 4: expected a word and 2 numbers, found 1 numbers" in outcome.err


def test_two_runs_in_one_folder_are_refused(tiny, tmp_path):
    """A second training is refused while the first one works in the folder, and not later."""
    config = toml(tiny, tmp_path / "c.toml", train__epochs=500)
    out = tmp_path / "run"
    with start("train", config, "--out", out) as first:
        deadline = time.monotonic() + PATIENCE
        while not (out / "state.safetensors").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        for more in ([], ["--resume"], ["--resume", "--set", "train.lr=0.5"]):
            outcome = hanlattice("train", config, "--out", out, *more)
            assert outcome.code == 2
            assert (
                "holds a run already" in outcome.err
                if not more
                else "another `hanlattice train` is running" in outcome.err
            )
        first.send_signal(signal.SIGINT)
        assert first.wait(PATIENCE) == 130
    log = (out / "log.jsonl").read_bytes()
    finished = hanlattice("train", config, "--out", out, "--resume", "--set", "train.lr=0.5")
    finished.refused("other")
    assert (out / "log.jsonl").read_bytes() == log
