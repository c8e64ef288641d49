"""Twenty `kill -9` at random moments, of workers and of the whole command, on a share of some files
of raw text.

    python benchmarks/corpus_kills.py corpora/raw/*.xz --share 0.1 --fast

Every tenth line of each file is tagged twice: undisturbed, and killed again and again until it is
finished. Both folders must be the same, byte for byte, and their texts the lines that were given.
Linux only: /proc knows whose processes are whose.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import script

from hanlattice.corpus.inputs import InputStream
from hanlattice.corpus.manifest import read_manifest
from hanlattice.errors import HanlatticeError, InputError


def sample(files: list[Path], share: float, folder: Path) -> list[bytes]:
    """Every so many lines of each file, as files of text; all of these lines."""
    folder.mkdir()
    every = round(1 / share)
    taken = []
    for path in files:
        with InputStream(path) as stream:
            lines = [
                line.removesuffix(b"\n") + b"\n"
                for at, line in enumerate(iter(stream.readline, b""))
                if at % every == 0
            ]
        (folder / path.name.removesuffix(".xz")).write_bytes(b"".join(lines))
        taken += lines
    return taken


def start(options: Namespace, source: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hanlattice", "corpus", "tag", str(source), "--out", str(out)]
    command += [
        "--model",
        options.model,
        "--workers",
        str(options.workers),
        "--shard-size",
        str(options.shard_size),
    ]
    return subprocess.Popen(command + ["--fast"] * options.fast, stderr=subprocess.DEVNULL)


def calm(options: Namespace, source: Path, out: Path) -> float:
    """The seconds that an undisturbed run takes."""
    began = time.monotonic()
    if start(options, source, out).wait():
        raise HanlatticeError(f"the undisturbed run into {out} failed")
    return time.monotonic() - began


def disturb(options: Namespace, source: Path, out: Path, seconds: float) -> dict[str, int]:
    """Run until it is finished, killing something now and then; how often what was killed."""
    chance = random.Random(options.seed)
    kills = {"worker": 0, "command": 0}
    process = start(options, source, out)
    while sum(kills.values()) < options.kills and process.poll() is None:
        what = chance.choice(list(kills))
        time.sleep(chance.uniform(0, seconds / options.kills))
        while what == "worker" and process.poll() is None and not children(process.pid):
            time.sleep(0.01)  # it is still loading the model
        if what == "command":
            process.kill()
            process.wait()
            process = start(options, source, out)
        elif workers := children(process.pid):
            os.kill(chance.choice(workers), signal.SIGKILL)
        else:
            break
        kills[what] += 1
    while process.wait():  # a shard whose process was killed three times is left for another run
        process = start(options, source, out)
    return kills


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def work(options: Namespace) -> dict[str, Any]:
    if not Path("/proc/self/task").is_dir():
        raise InputError("this needs /proc, which says whose children processes are")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = sample(sorted(options.files), options.share, folder / "in")
        seconds = calm(options, folder / "in", folder / "calm")
        records = read_manifest(folder / "calm")[1]
        written = b"".join((folder / "calm" / output).read_bytes() for output in records)
        texts = [json.loads(line)["text"] for line in written.splitlines()]
        kills = disturb(options, folder / "in", folder / "killed", seconds)
        one = content(folder / "calm")
        other = content(folder / "killed")
    characters = sum(map(len, texts))
    print(
        f"{len(lines):,} lines, {characters:,} characters, {len(records)} shards; undisturbed "
        f"{seconds:,.0f} s"
    )
    print(f"killed: {kills['worker']} workers, {kills['command']} commands")
    intact = texts == [line.decode().removesuffix("\n") for line in lines]
    print(
        f"output lines = input lines, text intact: {intact}; the two folders are the same "
        f"bytes: {one == other}"
    )
    return {
        **script.facts(),
        "lines": len(lines),
        "shards": len(records),
        "kills": kills,
        "intact": intact,
        "equal": one == other,
    }


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", default="ner")
    parser.add_argument("--share", type=float, default=0.1, help="of the lines of each file")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shard-size", type=float, default=0.05, help="in MB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fast", action="store_true")
    script.run(work, parser.parse_args())
