"""`hanlattice compare`: the table on standard output, and the ways in which it is stopped."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanlattice.lab.compare import jobs, run
from tests.helpers.command import hanlattice, start
from tests.helpers.made import write_made, write_toml
from tests.helpers.patience import PATIENCE
from tests.lab.compare.conftest import SERVER, write_small

QUICK = ("--devices", "cpu", "--no-rates")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=40)
    return folder


@pytest.fixture
def toml(tiny, tmp_path) -> Callable[..., Path]:
    return lambda name, **changes: write_small(tmp_path / f"{name}.toml", tiny, **changes)


@pytest.fixture(autouse=True)
def _quick_processes(monkeypatch) -> None:
    monkeypatch.setattr(jobs, "CONTEXT", SERVER)


def events_of(log: Path) -> list[dict[str, Any]]:
    """Return the events of a log, without a line that is still being written."""
    lines = log.read_text("utf-8").splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_until(true: Callable[[], bool], process: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_table_and_its_files(toml, tmp_path):
    files = [toml("[a]", compare__row="[red]A[/]"), toml("b", compare__paper=40)]
    options = ["--seeds", "1", "--set", "model.paper_vocab=true", "--out", tmp_path / "out", *QUICK]
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
    second = hanlattice("compare", *files, *options, "--set", "train.lr=0.5")
    second.refused("has 2 problems", "train.lr was 0.02 and is 0.5")


def test_a_failed_run_is_2_at_the_end(toml, tmp_path):
    files = [toml("good"), toml("bad", chars__vectors="nothing.vec")]
    outcome = hanlattice("compare", *files, "--seeds", "3,", "--out", tmp_path / "out", *QUICK)
    assert outcome.code == 2
    assert "bad-3 failed: nothing.vec: cannot read" in outcome.err
    assert "error: 1 failed; the table" in outcome.err
    assert "Traceback" not in outcome.err
    assert "| good " in outcome.text
    assert "0 of 1" in outcome.text


def test_mistakes(toml, tmp_path):
    a = toml("a")
    b = toml("b")
    out = tmp_path / "out"
    hanlattice("compare", a, b, "--out", out, "--against", "c").refused(
        "--against c", "the rows are a, b"
    )
    hanlattice("compare", a, a, "--out", out).refused("2 configurations have the name a")
    hanlattice("compare", a, tmp_path / "x.toml", "--out", out).refused("x.toml: cannot read")
    hanlattice("compare", a, "--seeds", "two", "--out", out).refused("--seeds takes how many")
    hanlattice("compare", a, "--devices", "gpu", "--out", out).refused("no device is called 'gpu'")
    hanlattice("compare", a, "--set", "train.nothing=1", "--out", out).refused(
        "unknown key train.nothing"
    )
    hanlattice("compare", a, "--out", a).refused("is a file")
    assert not out.exists()
    assert hanlattice("compare", a, "--jobs", "0").code == 2
    assert hanlattice("compare").code == 2


def test_variants(toml, tmp_path):
    file = toml("made", variants__names=["char", "coarse"])
    write_toml(
        tmp_path / "variants.toml", {"char.compare": {"row": "C"}, "coarse.model": {"hidden": 2}}
    )
    words = ["compare", file, "--seeds", "1", "--out", tmp_path / "out", *QUICK, "--variants"]
    outcome = hanlattice(*words, " char , coarse", "--against", "char")
    assert outcome.code == 0, outcome.err
    assert "made-coarse-1: dev F1" in outcome.err
    assert "| made-coarse |" in outcome.text
    again = hanlattice(*words, "all", "--against", "C")
    assert (again.code, again.out) == (0, outcome.out)
    hanlattice(*words, "nothing").refused("nothing")


def test_kill_9_and_the_same_command(toml, tmp_path):
    """A killed run ends its workers; finished runs stay, and the others are resumed."""
    short = toml("short")
    long = toml("long", train__epochs=1_000_000)
    out = tmp_path / "out"
    options = ["--seeds", "1", "--out", out, *QUICK]
    assert hanlattice("compare", short, *options).code == 0
    before = (out / "results" / "short-1.json").stat().st_mtime_ns
    log = out / "runs" / "long-1" / "log.jsonl"
    with start("compare", short, long, *options) as process:
        # The state of an epoch is written after its line in the log: with two lines there is one.
        wait_until(lambda: sum(event["event"] == "epoch" for event in events_of(log)) > 1, process)
        process.kill()
        # `communicate` ends only when no process holds the pipes.
        process.communicate(timeout=PATIENCE)
    assert not (out / "results" / "long-1.json").exists()
    heard = []

    def listen(event: dict[str, Any]) -> None:
        heard.append(event)
        if event["event"] == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.compare([short, long], (1,), out, devices="cpu", rates=False, listen=listen)
    assert (heard[0]["runs"], heard[0]["kept"]) == (2, 1)
    assert (out / "results" / "short-1.json").stat().st_mtime_ns == before
    events = events_of(log)
    names = [event["event"] for event in events]
    assert (names.count("start"), names.count("resume"), names[-1]) == (1, 1, "epoch")
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == list(
        range(1, names.count("epoch") + 1)
    )


def test_ctrl_c_stops_all(toml, tmp_path):
    """The same while a worker starts. A terminal sends Ctrl-C to all processes."""
    file = toml("long", train__epochs=100_000)
    words = [
        "compare",
        file,
        "--seeds",
        "2",
        "--devices",
        "cpu",
        "--jobs",
        "2",
        "--out",
        tmp_path / "out",
    ]
    with start(*words, start_new_session=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"2 runs, on cpu\n"
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(
            timeout=PATIENCE
        )  # which also ends only when no process holds the pipes
    assert process.returncode == 130, err
    assert out == b""
    assert err == b"stopped; the same command continues\n"
