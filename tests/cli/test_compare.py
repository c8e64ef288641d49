"""`hanlattice compare`: the table on standard output, and the ways in which it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanlattice.compare import pool
from tests.cli.command import ENVIRONMENT, hanlattice, start
from tests.compare.tasks import SERVER
from tests.made import made_tree, write_made, write_toml


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=40)
    return folder


@pytest.fixture
def toml(tiny, tmp_path) -> Callable[..., Path]:
    def write(name: str, **changes: Any) -> Path:
        settings = {"train__epochs": 2, "model__hidden": 4, "model__encoder": "char", **changes}
        return write_toml(tmp_path / f"{name}.toml", made_tree(tiny, **settings))

    return write


@pytest.fixture
def _quick_workers(monkeypatch) -> None:
    monkeypatch.setattr(pool, "CONTEXT", SERVER)


def wait_for(path: Path, process: Any) -> None:
    wait_until(path.exists, process)


def events_of(log: Path) -> list[dict[str, Any]]:
    """Those that are written whole."""
    return [json.loads(line) for line in log.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


def wait_until(true: Callable[[], bool], process: Any) -> None:
    end = time.monotonic() + 90
    while not true():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.usefixtures("_quick_workers")
def test_a_table_and_its_files(toml, tmp_path):
    files = [toml("[a]", compare__row="[red]A[/]"), toml("b", compare__paper=40)]
    options = [
        "--seeds",
        "1",
        "--set",
        "model.paper_vocab=true",
        "--out",
        tmp_path / "out",
        "--devices",
        "cpu",
        "--no-rates",
    ]
    outcome = hanlattice("compare", *files, *options, "--jobs", "2", "--against", "b")
    assert outcome.code == 0, outcome.err
    assert outcome.text == (tmp_path / "out" / "table.md").read_text("utf-8")
    assert "| [red]A[/] |" in outcome.text
    assert "F1 − b" in outcome.text
    assert "2 runs, on cpu\n" in outcome.err
    assert "[a]-1: dev F1" in outcome.err
    assert f"are in {tmp_path / 'out'}" in outcome.err
    assert outcome.err.count("note: paper_vocab") == 1
    again = hanlattice("compare", *files, *options, "--against", "b")
    assert (again.code, again.out) == (0, outcome.out)
    assert "2 runs, 2 of them done already" in again.err
    record = tmp_path / "out" / "results" / "b-1.json"
    whole = record.read_bytes()
    for content in (b'{"format": 1, "identity": {}}', b'{"format": 1, "identity": []}'):
        record.write_bytes(content)
        hanlattice("compare", *files, *options).refused("b-1.json: a damaged record", "remove it")
    record.write_bytes(whole)
    other = hanlattice("compare", *files, *options, "--set", "train.lr=0.5")
    other.refused("has 2 problems", "train.lr was 0.02 and is 0.5")


@pytest.mark.usefixtures("_quick_workers")
def test_a_failed_run_is_2_at_the_end(toml, tmp_path):
    files = [toml("good"), toml("bad", chars__vectors="nothing.vec")]
    outcome = hanlattice(
        "compare", *files, "--seeds", "3,", "--out", tmp_path / "out", "--devices", "cpu", "--no-rates"
    )
    assert outcome.code == 2
    assert "bad-3 failed: nothing.vec: cannot read" in outcome.err
    assert "error: 1 failed; the table" in outcome.err
    assert "Traceback" not in outcome.err
    assert "| good " in outcome.text
    assert "0 of 1" in outcome.text


def test_mistakes(toml, tmp_path):
    a, b = toml("a"), toml("b")
    out = tmp_path / "out"
    hanlattice("compare", a, b, "--out", out, "--against", "c").refused("--against c", "the rows are a, b")
    hanlattice("compare", a, a, "--out", out).refused("2 configurations are called so")
    hanlattice("compare", a, tmp_path / "x.toml", "--out", out).refused("x.toml: cannot read")
    hanlattice("compare", a, "--seeds", "two", "--out", out).refused("--seeds wants how many")
    hanlattice("compare", a, "--devices", "gpu", "--out", out).refused("no device is called 'gpu'")
    hanlattice("compare", a, "--set", "train.nothing=1", "--out", out).refused("unknown key train.nothing")
    hanlattice("compare", a, "--out", a).refused("is a file")
    assert not out.exists()
    assert hanlattice("compare", a, "--jobs", "0").code == 2
    assert hanlattice("compare").code == 2


@pytest.mark.usefixtures("_quick_workers")
def test_kill_9_and_the_same_command(toml, tmp_path):
    """Spawned workers end with their parent; then what is finished stays, and what was stopped goes on.

    The long one ends by being killed only, so that nothing depends on who is quicker.
    """
    short, long = toml("short"), toml("long", train__epochs=1_000_000)
    out = tmp_path / "out"
    options = ["--seeds", "1", "--devices", "cpu", "--jobs", "2", "--out", out, "--no-rates"]
    assert hanlattice("compare", short, *options).code == 0
    before = (out / "results" / "short-1.json").stat().st_mtime_ns
    log = out / "runs" / "long-1" / "log.jsonl"
    with start("compare", short, long, *options) as process:
        wait_for(log, process)
        # The state of an epoch is written after its line in the log: with two lines there is one.
        wait_until(lambda: [event["event"] for event in events_of(log)].count("epoch") > 1, process)
        process.kill()
        process.communicate(timeout=60)  # which ends only when no worker holds the pipes
    assert not (out / "results" / "long-1.json").exists()
    with start("compare", short, long, *options) as process:
        wait_until(lambda: "resume" in [event["event"] for event in events_of(log)][:-1], process)
        process.kill()
        _, err = process.communicate(timeout=60)
    assert b"2 runs, 1 of them done already" in err
    assert (out / "results" / "short-1.json").stat().st_mtime_ns == before
    events = events_of(log)
    names = [event["event"] for event in events]
    assert (names.count("start"), names.count("resume"), names[-1]) == (1, 1, "epoch")
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == list(range(1, names.count("epoch") + 1))


def test_ctrl_c_stops_all(toml, tmp_path):
    file = toml("long", train__epochs=100_000)
    words = ["compare", file, "--seeds", "2", "--devices", "cpu", "--jobs", "2", "--out", tmp_path / "out"]
    with start(*words, start_new_session=True) as process:
        for seed in (1, 2):
            wait_for(tmp_path / "out" / "runs" / f"long-{seed}" / "model.safetensors", process)
        signal_group(process.pid)
        out, err = process.communicate(timeout=60)  # which also ends only when no worker holds the pipes
    assert process.returncode == 130, err
    assert out == b""
    assert b"Traceback" not in err
    assert b"stopped; the same command goes on" in err


def signal_group(leader: int) -> None:
    """As a terminal does: Ctrl-C goes to every process."""
    os.killpg(leader, signal.SIGINT)


def test_without_typer_and_rich(toml, tmp_path):
    code = (
        "import runpy, sys\n"
        "sys.modules['typer'] = sys.modules['rich'] = None\n"
        "if __name__ == '__main__':\n"
        "    runpy.run_module('hanlattice.compare', run_name='__main__')\n"
    )
    script = tmp_path / "plain.py"
    script.write_text(code, "utf-8")
    options = ["--seeds", "1", "--devices", "cpu", "--out", str(tmp_path / "out"), "--no-rates"]

    def plain(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), *words, *options]
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False)

    done = plain(str(toml("a")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == (tmp_path / "out" / "table.md").read_text("utf-8").rstrip("\n")
    assert "a-1: dev F1" in done.stderr
    refused = plain(str(tmp_path / "nothing.toml"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: the comparison has 1 problem:")
