"""Signals at any moment: an exit code, no half-written file, and a run that can resume."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.corpus.test_run import content, texts
from tests.helpers.command import hanlattice, run, start
from tests.helpers.patience import PATIENCE
from tests.helpers.running import running
from tests.training.test_loop import assert_same_run, tiny  # noqa: F401 (a fixture)

from .test_train_cli import toml

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# With 1, every test runs six times.
EVERY = int(os.environ.get("HANLATTICE_EVERY", "7"))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals of POSIX")


@pytest.fixture(autouse=True)
def not_ignored() -> Iterator[None]:
    """Let the commands of these tests handle SIGHUP, even if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def some(seed: int) -> list[tuple[signal.Signals, float]]:
    """Return signals, and the seconds after the first output at which each is sent."""
    chance = random.Random(seed)
    return [(number, chance.uniform(0, 0.5)) for number in SIGNALS * (6 if EVERY == 1 else 1)]


def stop(
    process: subprocess.Popen[bytes], began: Callable[[], object], number: int, after: float
) -> bytes:
    """Send a signal some time after the first output, and return the outcome."""
    end = time.monotonic() + PATIENCE
    while not began():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)
    time.sleep(after)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, err
    assert b"Traceback" not in err, err.decode()
    return out + err


def parts(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.part")]


@pytest.mark.parametrize(("number", "after"), some(1), ids=str)
def test_while_it_tags(lattice_folder: Path, tmp_path: Path, number: int, after: float) -> None:
    """Lines of thousands of characters keep the process in C code for most of the time."""
    line = "".join(texts(400))
    (tmp_path / "in.txt").write_text(f"{line}\n" * 200, "utf-8")
    (tmp_path / "out.jsonl").write_text("as it was")
    arguments = ("tag", "-m", lattice_folder, "--batch-size", "1", "--out", tmp_path / "out.jsonl")
    with start(*arguments, tmp_path / "in.txt") as process:
        stop(process, lambda: parts(tmp_path), number, after)
    assert not parts(tmp_path)
    assert (tmp_path / "out.jsonl").read_text() == "as it was"


def test_while_it_waits(char_folder: Path) -> None:
    for number in SIGNALS[1:]:
        with start("tag", "-m", char_folder, "--unbuffered", "-", stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("一\n".encode())
            process.stdin.flush()
            assert process.stdout.readline()
            assert stop(process, lambda: True, number, 0.1) == b""


def test_while_it_trains(tiny: Path, tmp_path: Path) -> None:  # noqa: F811
    config = toml(tiny, tmp_path / "c.toml", train__epochs=15, train__checkpoint_minutes=1e-3)
    assert hanlattice("train", config, "--out", tmp_path / "whole").code == 0
    for index, (number, after) in enumerate(
        some(2)[1:2] if EVERY > 1 else some(2)
    ):  # of Ctrl-C test_train_cli.py has more
        with start(
            "train", config, "--out", tmp_path / "run", *["--resume"][: index > 0]
        ) as process:
            state = tmp_path / "run" / "state.safetensors"
            before = state.stat().st_mtime_ns if state.exists() else 0
            said = stop(
                process,
                lambda f=state, b=before: f.exists() and f.stat().st_mtime_ns > b,
                number,
                after / 10,
            )
            assert b"go on with" in said
        assert not parts(tmp_path)
    assert run("train", config, "--out", tmp_path / "run", "--resume").code == 0
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_while_it_works_on_a_corpus(lattice_folder: Path, tmp_path: Path) -> None:
    signals = some(3)
    (tmp_path / "in.txt").write_text(
        "".join(f"{text}\n" for text in texts(2000 * len(signals))), "utf-8"
    )
    arguments = (
        "corpus",
        "tag",
        tmp_path / "in.txt",
        "-m",
        lattice_folder,
        "--shard-size",
        "0.005",
        "--out",
    )
    assert run(*arguments, tmp_path / "calm").code == 0
    for number, after in signals:
        with start(*arguments, tmp_path / "out", "--workers", "2") as process:
            count = (
                len(list((tmp_path / "out").glob("in.txt*"))) if (tmp_path / "out").exists() else 0
            )
            stop(
                process,
                lambda n=count: len(list((tmp_path / "out").glob("in.txt*"))) > n,
                number,
                after / 10,
            )
    assert run(*arguments, tmp_path / "out").code == 0
    assert content(tmp_path / "out") == content(tmp_path / "calm")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_server_answers_and_ends(char_folder: Path, number: int) -> None:
    with running("-m", char_folder, "--workers", "2") as server:
        workers = server.workers()
        assert server.ask("/v1/tag", {"text": "一"})[0] == 200
        assert server.end(number) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_who_ignores_a_signal_goes_on_to_ignore_it(char_folder: Path) -> None:
    """A signal that is ignored, as under nohup, stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with start("tag", "-m", char_folder, "--unbuffered", "-", stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(2):
                process.stdin.write("一\n".encode())
                process.stdin.flush()
                assert process.stdout.readline()
                process.send_signal(signal.SIGHUP)
            process.communicate(timeout=PATIENCE)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0
