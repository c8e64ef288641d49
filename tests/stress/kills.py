"""Kill commands, workers of a corpus and workers of a server at random moments.

`python -m tests.stress.kills N [SEED [KIND …]]` (`make kills`) kills N times, divided as SHARES
says, or only these KINDs. A killed command is resumed until it ends by itself. Then its outputs
must equal those of an undisturbed run, and it starts anew.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hanlattice.checkpoint.load import load_model
from hanlattice.cli import main as main_command
from hanlattice.training.loop import train
from tests.cli.test_train_cli import toml
from tests.corpus.test_run import children, content, texts
from tests.helpers.crash import Process, preload, start
from tests.helpers.lm import assert_same_run as assert_same_lm
from tests.helpers.lm import write_text
from tests.helpers.made import made_config, write_made
from tests.helpers.running import running, wait_for
from tests.training.test_loop import assert_same_run

# Records with times and names, and locks with the id of a process
TIMED = (".json", ".md", ".lock")
SHARES = {
    "train": 7,
    "pack": 5,
    "lm": 6,
    "vectors": 6,
    "distil": 5,
    "corpus": 7,
    "corpus worker": 7,
    "server worker": 7,
}


def same(out: Path, right: Path) -> None:
    """Assert that two runs wrote the same files, byte for byte except for `TIMED`.

    Args:
        out: A file, a folder, or what the names of several files begin with.
        right: The same for the undisturbed run.
    """
    mine, theirs = (
        {path.name.replace(root.name, "", 1): path for path in made(root)} for root in (out, right)
    )
    assert mine.keys() == theirs.keys(), (mine, theirs)
    for name, path in mine.items():
        if path.is_dir():
            files = content(path)
            expected = content(theirs[name])
        else:
            files = {path.name: path.read_bytes()}
            expected = {path.name: theirs[name].read_bytes()}
        assert files.keys() == expected.keys(), files.keys() ^ expected.keys()
        different = [f for f in files if not f.endswith(TIMED) and files[f] != expected[f]]
        assert not different, f"{path}: {different}"


def made(out: Path) -> list[Path]:
    """Return everything that a command wrote, with the hidden parts of files."""
    return sorted(out.parent.glob(f"*{out.name}*"))


def none_or_whole(out: Path) -> None:
    """Assert that a killed `pack`, which cannot resume, left a whole model or none."""
    if (out / "model.safetensors").exists():
        load_model(out)
    shutil.rmtree(out, ignore_errors=True)


@dataclass
class Job:
    """A command to kill.

    Args:
        arguments: The words of the command.
        again: The option that resumes it.
        same: Asserts that two outputs are equal.
        left: Checks what a kill has left.
        worker: Whether a worker of the command is killed, not the command.
    """

    arguments: tuple[str | Path, ...]
    again: str = ""
    same: Callable[[Path, Path], None] = same
    left: Callable[[Path], None] = lambda out: None
    worker: bool = False

    def start(self, out: Path) -> Process:
        """Start or resume the command."""
        more = [self.again] if self.again and written(out) else []
        return start(run_command, [*self.arguments, *more, "--out", out], out.parent / "log")

    def wait(self, process: Process, out: Path, seconds: float) -> bool:
        """Wait some seconds after the output changes. Return False if the command has ended."""
        before = written(out)
        while process.is_alive() and written(out) == before:
            time.sleep(0.005)
        process.join(seconds)
        return process.is_alive()

    def disturb(self, folder: Path, kills: int, chance: random.Random) -> None:
        """Kill the command this often, and compare its outputs with those of an undisturbed run."""
        calm = folder / "calm"
        out = folder / "run"
        done = 0
        process = self.start(calm)
        self.wait(process, calm, 0)
        began = time.monotonic()
        end(process, folder / "log")
        seconds = time.monotonic() - began
        while True:
            process = self.start(out)
            if done < kills and chance.random() < 0.1:
                # Kill it before it has written anything.
                time.sleep(chance.uniform(0, 0.2))
            elif done < kills:
                self.wait(process, out, chance.uniform(0, seconds))
            victims = children(process.pid) if self.worker and process.is_alive() else [process.pid]
            if done < kills and process.is_alive() and victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                done += 1
            if end(process, folder / "log"):
                self.left(out)
                continue
            self.same(out, calm)
            for path in made(out):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            if done == kills:
                return


def written(out: Path) -> dict[str, int]:
    """Return the files of an output, and when each was written."""
    times = dict[str, int]()
    for path in [path for top in made(out) for path in (top, *top.rglob("*"))]:
        # A file may disappear meanwhile.
        with contextlib.suppress(OSError):
            times[str(path)] = path.stat().st_mtime_ns
    return times


def run_command(arguments: list[str | Path], log: Path) -> None:
    """Run `hanlattice` in this process, with its output in a log."""
    with log.open("wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    sys.argv = ["hanlattice", *map(str, arguments)]
    main_command()


def end(process: Process, log: Path) -> bool:
    """Wait for the end of a process, and return whether it was killed."""
    process.join(600)
    assert process.exitcode in (0, -signal.SIGKILL), f"{process.exitcode}: {log.read_text('utf-8')}"
    return process.exitcode != 0


def disturb_server(model: Path, kills: int, chance: random.Random) -> None:
    """Kill one worker after the other while two clients send requests; responses stay right."""
    texts = ["王小明在青石镇工作。", "李伟去了南湖！"]
    stop = threading.Event()
    wrong = list[object]()
    with running("-m", model, "--workers", "2") as server:
        assert server.process.stderr is not None
        threading.Thread(target=server.process.stderr.read, daemon=True).start()
        right = server.ask("/v1/tag", {"texts": texts})[1]["documents"]
        assert all(document["spans"] for document in right)

        def ask() -> None:
            while not stop.is_set():
                try:
                    status, answer, _ = server.ask("/v1/tag", {"texts": texts})
                # A killed worker had accepted this request.
                except (OSError, http.client.HTTPException):
                    continue
                if status != 200 or answer["documents"] != right:
                    wrong.append((status, answer))

        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            order = server.workers()
            for _ in range(kills):
                # Each worker lives for two of these pauses. The server ends when five workers in
                # a row live for less than two seconds.
                time.sleep(chance.uniform(1.1, 1.6))
                victim, survivor = order
                os.kill(victim, signal.SIGKILL)
                wait_for(
                    lambda gone=victim: len(server.workers()) == 2 and gone not in server.workers()
                )
                order = [survivor, *(set(server.workers()) - {victim, survivor})]
        finally:
            stop.set()
            for client in clients:
                client.join()
        assert not wrong, wrong[:3]
        assert server.ask("/v1/tag", {"texts": texts})[1]["documents"] == right


def jobs(folder: Path) -> dict[str, Job]:
    """Return commands that take some seconds, and train the model that they use."""
    write_made(folder, train=40)
    model = train(made_config(folder), folder / "model").folder
    settings = {"epochs": 10, "checkpoint_minutes": 1e-3, "average": 0.9}
    config = toml(folder, folder / "c.toml", **{f"train__{k}": v for k, v in settings.items()})
    text = write_text(folder / "lm.txt")
    raw = folder / "raw.txt"
    raw.write_text("".join(f"{line}\n" for line in texts(6000)), "utf-8")
    corpus = ("corpus", "tag", raw, "-m", model, "--shard-size", "0.005", "--workers", "2")
    options = (
        "--embedding 6 --hidden 8 --batch-size 4 --length 9 --epochs 3 --min-count 2 "
        "--held-out 0.1 --threads 1 --direction forward --checkpoint-minutes 0.0001"
    )
    lm = ("pretrain", "lm", text, *options.split())
    vectors = ("pretrain", "vectors", raw, "--unit", "char", "--dim", "5", "--epochs", "5")
    return {
        "train": Job(("train", config), "--resume", assert_same_run),
        "pack": Job(("pack", model), left=none_or_whole),
        "lm": Job(lm, "--resume", assert_same_lm),
        "vectors": Job(vectors, "--resume"),
        "distil": Job(("distil", raw, "-m", model)),
        "corpus": Job(corpus),
        "corpus worker": Job(corpus, worker=True),
    }


def main(kills: int, seed: int, kinds: list[str]) -> None:
    """Kill this often, and print a record for each kind."""
    done = Counter[str]()
    wanted = {name: kills * share // sum(SHARES.values()) for name, share in SHARES.items()}
    wanted["train"] += kills - sum(wanted.values())
    preload(
        "hanlattice.cli.train",
        "hanlattice.training.pack",
        "hanlattice.lab.pretrain.vectors",
        "gensim.models",
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = jobs(folder)
        for kind, count in wanted.items():
            if kinds and kind not in kinds:
                continue
            began = time.monotonic()
            chance = random.Random(f"{kind} {seed}")
            if kind in commands:
                (folder / kind).mkdir()
                commands[kind].disturb(folder / kind, count, chance)
            else:
                disturb_server(folder / "model", count, chance)
            done[kind] += count
            seconds = round(time.monotonic() - began)
            record = {"kind": kind, "kills": count, "seconds": seconds}
            print(json.dumps(record), flush=True)  # noqa: T201
    print(json.dumps({"kills": done.total(), **done}))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int((*sys.argv, 1)[2]), sys.argv[3:])
