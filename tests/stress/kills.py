"""Kill -9 at random moments, of commands, of a corpus's workers and of a server's: in the end
nothing shows it.

`python -m tests.stress.kills N [SEED [KIND …]]` (make kills): N kills in the shares of SHARES, or
of these KINDs alone. A command is killed and goes on, again and again, until it ends by itself;
then what it made is compared with an undisturbed run's, and it begins anew.
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

TIMED = (".json", ".md", ".lock")  # records with times and names, and whom a lock belonged to
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


def same(found: Path, right: Path) -> None:
    """Of a file, of a folder, or of the files that begin with this name: all bytes but those of
    TIMED.
    """
    mine, theirs = (
        {path.name.replace(root.name, "", 1): path for path in made(root)}
        for root in (found, right)
    )
    assert mine.keys() == theirs.keys(), (mine, theirs)
    for name, path in mine.items():
        if path.is_dir():
            one = content(path)
            other = content(theirs[name])
        else:
            one = {path.name: path.read_bytes()}
            other = {path.name: theirs[name].read_bytes()}
        assert one.keys() == other.keys(), one.keys() ^ other.keys()
        different = [each for each in one if not each.endswith(TIMED) and one[each] != other[each]]
        assert not different, f"{path}: {different}"


def made(out: Path) -> list[Path]:
    """Everything that a command wrote, hidden parts of files too."""
    return sorted(out.parent.glob(f"*{out.name}*"))


def none_or_whole(out: Path) -> None:
    """Packing does not go on: it left no model, or a whole one, and begins anew."""
    if (out / "model.safetensors").exists():
        load_model(out)
    shutil.rmtree(out, ignore_errors=True)


@dataclass
class Job:
    arguments: tuple[str | Path, ...]
    again: str = ""  # the option to go on with
    same: Callable[[Path, Path], None] = same
    left: Callable[[Path], None] = lambda out: None  # what a kill may have left
    worker: bool = False  # kill one of these

    def start(self, out: Path) -> Process:
        """Begin it, or go on with it."""
        more = [self.again] if self.again and written(out) else []
        return start(run_command, [*self.arguments, *more, "--out", out], out.parent / "log")

    def wait(self, process: Process, out: Path, seconds: float) -> bool:
        """So long after it has first written something; False where it ended before."""
        before = written(out)
        while process.is_alive() and written(out) == before:
            time.sleep(0.005)
        process.join(seconds)
        return process.is_alive()

    def disturb(self, folder: Path, kills: int, chance: random.Random) -> None:
        """Exactly so many kills; whatever was made is what an undisturbed run makes."""
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
                time.sleep(chance.uniform(0, 0.2))  # before it has begun
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
    """What is there, and when it was written."""
    times = dict[str, int]()
    for path in [path for top in made(out) for path in (top, *top.rglob("*"))]:
        with contextlib.suppress(OSError):  # gone meanwhile
            times[str(path)] = path.stat().st_mtime_ns
    return times


def run_command(arguments: list[str | Path], log: Path) -> None:
    """`hanlattice` in this process."""
    with log.open("wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    sys.argv = ["hanlattice", *map(str, arguments)]
    main_command()


def end(process: Process, log: Path) -> bool:
    """Wait for its end; whether it was killed."""
    process.join(600)
    assert process.exitcode in (0, -signal.SIGKILL), f"{process.exitcode}: {log.read_text('utf-8')}"
    return process.exitcode != 0


def disturb_server(model: Path, kills: int, chance: random.Random) -> None:
    """While two clients ask, one worker after the other is killed: answers are right, and later
    ones come.
    """
    texts = ["王小明在青石镇工作。", "李伟去了南湖！"]
    stop = threading.Event()
    wrong = list[object]()
    with running("-m", model, "--workers", "2") as server:
        assert server.process.stderr is not None
        threading.Thread(target=server.process.stderr.read, daemon=True).start()
        right = server.ask("/v1/tag", {"texts": texts})[1]["documents"]
        assert all(each["spans"] for each in right)

        def ask() -> None:
            while not stop.is_set():
                try:
                    status, answer, _ = server.ask("/v1/tag", {"texts": texts})
                except (OSError, http.client.HTTPException):
                    continue  # what a killed worker had accepted
                if status != 200 or answer["documents"] != right:
                    wrong.append((status, answer))

        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            order = server.workers()
            for _ in range(kills):
                time.sleep(
                    chance.uniform(1.1, 1.6)
                )  # five in a row that live less than two seconds end the server
                os.kill(order[0], signal.SIGKILL)
                wait_for(
                    lambda before=order[0]: (
                        len(server.workers()) == 2 and before not in server.workers()
                    )
                )
                order = [order[1], *(set(server.workers()) - set(order))]
        finally:
            stop.set()
            for client in clients:
                client.join()
        assert not wrong, wrong[:3]
        assert server.ask("/v1/tag", {"texts": texts})[1]["documents"] == right


def jobs(folder: Path) -> dict[str, Job]:
    """Small ones, of some seconds; the model that they use is in the folder."""
    write_made(folder, train=40)
    model = train(made_config(folder), folder / "model").folder
    often = toml(
        folder,
        folder / "c.toml",
        train__epochs=10,
        train__checkpoint_minutes=1e-3,
        train__average=0.9,
    )
    text = write_text(folder / "lm.txt")
    (folder / "raw.txt").write_text("".join(f"{each}\n" for each in texts(6000)), "utf-8")
    tiny = "--embedding 6 --hidden 8 --batch-size 4 --length 9 --epochs 3 --min-count 2 --held-out 0.1 --threads 1"
    corpus = (
        "corpus",
        "tag",
        folder / "raw.txt",
        "-m",
        model,
        "--shard-size",
        "0.005",
        "--workers",
        "2",
    )
    lm = (
        "pretrain",
        "lm",
        text,
        *tiny.split(),
        "--direction",
        "forward",
        "--checkpoint-minutes",
        "0.0001",
    )
    vectors = (
        "pretrain",
        "vectors",
        folder / "raw.txt",
        "--unit",
        "char",
        "--dim",
        "5",
        "--epochs",
        "5",
    )
    return {
        "train": Job(("train", often), "--resume", assert_same_run),
        "pack": Job(("pack", model), left=none_or_whole),
        "lm": Job(lm, "--resume", assert_same_lm),
        "vectors": Job(vectors, "--resume"),
        "distil": Job(("distil", folder / "raw.txt", "-m", model)),
        "corpus": Job(corpus),
        "corpus worker": Job(corpus, worker=True),
    }


def main(kills: int, seed: int, kinds: list[str]) -> None:
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
        found = jobs(folder)
        for kind, count in wanted.items():
            if kinds and kind not in kinds:
                continue
            began = time.monotonic()
            chance = random.Random(f"{kind} {seed}")
            if kind in found:
                (folder / kind).mkdir()
                found[kind].disturb(folder / kind, count, chance)
            else:
                disturb_server(folder / "model", count, chance)
            done[kind] += count
            seconds = round(time.monotonic() - began)
            record = {"kind": kind, "kills": count, "seconds": seconds}
            print(json.dumps(record), flush=True)  # noqa: T201
    print(json.dumps({"kills": done.total(), **done}))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int((*sys.argv, 1)[2]), sys.argv[3:])
