"""What `hanlattice corpus tag` costs over the library on the same lines, and what a second process
brings.

    python benchmarks/corpus_rate.py FILE [--characters 200000] [--model ner] [--fast] [--rounds 3]
    [--shards 8]
    python benchmarks/corpus_rate.py FILE --device cuda [--workers 2 4]   # only: on a GPU, file to
    file beside `pipe`
    python benchmarks/corpus_rate.py FILE --reading       # only: plan and rows, MB of unpacked text
    a CPU second
    python benchmarks/corpus_rate.py FILE --memory 600    # only: memory, for so many seconds of a
    file of 1 GB

The first lines of a file of text, plain or packed, are tagged by the library (`tagger.pipe` in
memory, nothing written) and by `corpus` with one process and with two, in turns, each in a process
of its own. First the outputs must be what the library finds. Times are from the moment at which the
model is loaded to the last output; beside wall time stands the CPU time of the processes, which
other programs on the same cores change less.

For the memory the file is repeated until it has 1 GB, and is one shard; what the command and its
process have of their own (RssAnon; Linux) is read every second.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import script

from hanlattice.checkpoint import find_model
from hanlattice.corpus.inputs import BLOCK, InputFile, InputStream
from hanlattice.corpus.manifest import read_manifest
from hanlattice.corpus.run import CorpusProgress, follow, make_plan
from hanlattice.corpus.settings import MB, CorpusSettings, open_predictor
from hanlattice.corpus.shards import Reader, cut
from hanlattice.corpus.worker import ShardTask, ShardWorker
from hanlattice.errors import HanlatticeError
from hanlattice.events import Listener, ignore
from hanlattice.output import as_jsonl
from hanlattice.tasks.local import LocalProcesses
from hanlattice.tasks.run import Outcome, run_tasks

CONTEXT = multiprocessing.get_context("fork")
LARGE = 1000 * MB


def measured(work: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    """(wall, CPU) seconds of work in a process of its own, with those that it starts."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_measure, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    wall, cpu = ours.recv()
    process.join()
    return wall, cpu


def _measure(connection: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    before = _cpu()
    began = time.monotonic()
    work(*arguments)
    connection.send((time.monotonic() - began, _cpu() - before))


def on_gpu(options: argparse.Namespace) -> dict[str, Any]:
    """What is left of the rate of `pipe` in memory from file to file, in one process, and in
    several on one GPU.
    """
    lines, size = first_lines(options)
    settings = CorpusSettings(find_model(options.model), fast=options.fast, device=options.device)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        path = write_lines(folder / "lines.txt", lines)
        each = replace(settings, shard_size=path.stat().st_size // options.shards + 1)
        taken = {  # first, because a process that has used a GPU cannot be forked
            f"corpus, {count} processes": [
                sharing_gpu(each, lines, path, folder / f"by{count}-{at}", count)
                for at in range(options.rounds)
            ]
            for count in options.workers
        }
        taken = {**in_one_process(settings, lines, path, folder, options.rounds), **taken}
    rates = {way: size / min(times) for way, times in taken.items()}
    for way, rate in rates.items():
        print(f"{way:20} {rate:10,.0f} characters/s, {rate / rates['pipe']:.3f} of `pipe`")
    return {
        **script.facts(options.device),
        "characters": size,
        "fast": options.fast,
        "rates": rates,
    }


def in_one_process(
    settings: CorpusSettings, lines: list[str], path: Path, folder: Path, rounds: int
) -> dict[str, list[float]]:
    """Seconds of `pipe` and of `corpus`, with its plan, in turns."""
    predictor = open_predictor(settings)
    taken: dict[str, list[float]] = {"pipe": [], "corpus, 1 process": []}
    for at in range(rounds + 1):  # the first compiles
        began = time.monotonic()
        library(predictor, lines)
        taken["pipe"].append(time.monotonic() - began)
        out = folder / f"out{at}"
        began = time.monotonic()
        plan = make_plan([str(path)], out, settings)
        out.mkdir()
        worker = ShardWorker(settings, out, plan.digest, predictor)
        records = [worker.do(task, ignore) for task in plan.todo]
        taken["corpus, 1 process"].append(time.monotonic() - began)
        check_rows(records, lines)
    return {way: times[1:] for way, times in taken.items()}


def sharing_gpu(
    settings: CorpusSettings, lines: list[str], path: Path, out: Path, count: int
) -> float:
    """Seconds of `corpus`, with its plan, from the moment at which each of its processes has read
    the lines once.
    """
    began = time.monotonic()
    plan = make_plan([str(path)], out, settings)
    planning = time.monotonic() - began
    out.mkdir()
    ready = Ready(ShardWorker(settings, out, plan.digest), lines, count)
    tasks = [None] * count + plan.todo
    done = run_tasks([ready] * count, tasks, LocalProcesses(), ignore)
    results = [outcome for *_, outcome in done]
    if failed := [outcome.reason for outcome in results if outcome.record is None]:
        raise HanlatticeError(failed[0])
    records = [outcome.record for outcome in results if outcome.record is not None]
    check_rows(records, lines)
    return float(
        planning
        + max(each["ended"] for each in records)
        - max(each.get("began", 0.0) for each in records)
    )


class Ready:
    """A worker whose first task, None, is to load and read the lines; it ends when that of all
    processes has.
    """

    def __init__(self, worker: ShardWorker, lines: list[str], count: int) -> None:
        self.worker = worker
        self.lines = lines
        self.barrier = CONTEXT.Barrier(count)

    def attempt(self, task: ShardTask | None, tell: Listener) -> Outcome:
        if task is None:
            library(self.worker.load(), self.lines)
            self.barrier.wait()
            return Outcome({"rows": 0, "began": time.monotonic(), "ended": 0.0})
        outcome = self.worker.attempt(task, tell)
        return outcome._replace(
            record=outcome.record and outcome.record | {"ended": time.monotonic()}
        )


def check_rows(records: list[dict[str, Any]], lines: list[str]) -> None:
    if sum(record["rows"] for record in records) != len(lines):
        raise HanlatticeError("the outputs do not have every line")


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def library(predictor: Any, lines: list[str]) -> None:
    for _ in predictor.pipe(lines):
        pass


def corpus(predictor: Any, settings: CorpusSettings, path: Path, out: Path, workers: int) -> None:
    """All that the command does after loading: plan, read, tag, write, sync."""
    out.mkdir()
    plan = make_plan([str(path)], out, settings)
    plan.save()
    progress = CorpusProgress(plan, ignore)
    team = [ShardWorker(settings, out, plan.digest, predictor)] * workers
    done = run_tasks(team, plan.todo, LocalProcesses(), progress)
    follow(plan, ((task, outcome) for task, _, outcome in done), progress)
    plan.save()


def check(predictor: Any, lines: list[str], out: Path) -> None:
    written = b"".join((out / name).read_bytes() for name in read_manifest(out)[1])
    if written != "".join(map(as_jsonl, predictor.pipe(lines))).encode():
        raise HanlatticeError(f"{out} is not what the library finds")


def first_lines(options: argparse.Namespace) -> tuple[list[str], int]:
    lines = []
    size = 0
    with InputStream(options.file) as stream:
        while size < options.characters and (line := stream.readline()):
            lines.append(line.decode().removesuffix("\n"))
            size += len(lines[-1])
    return lines, size


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def work(options: argparse.Namespace) -> dict[str, Any]:
    lines, size = first_lines(options)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        path = write_lines(folder / "lines.txt", lines)
        each = path.stat().st_size // options.shards + 1
        settings = CorpusSettings(find_model(options.model), fast=options.fast, shard_size=each)
        predictor = open_predictor(settings)
        corpus(predictor, settings, path, folder / "check", 2)
        check(predictor, lines, folder / "check")
        ways: dict[str, Callable[[int], tuple[float, float]]] = {
            "library": lambda _: measured(library, predictor, lines),
            "corpus, 1 process": lambda at: measured(
                corpus, predictor, settings, path, folder / f"one{at}", 1
            ),
        }
        if options.shards > 1:
            ways["corpus, 2 processes"] = lambda at: measured(
                corpus, predictor, settings, path, folder / f"two{at}", 2
            )
        taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for at in range(options.rounds):
            for way, measure in ways.items():
                taken[way].append(measure(at))
    return {**script.facts(), "lines": len(lines), "characters": size, **report(taken, size)}


def reading(options: argparse.Namespace) -> dict[str, Any]:
    source = InputFile(options.file.name, options.file, "txt")
    reader = Reader("text", "spans")
    marks = [_cpu()]
    shards = list(cut(source, CorpusSettings.shard_size))
    marks.append(_cpu())
    characters = sum(len(row.text or "") for shard in shards for row in reader.rows(shard))
    marks.append(_cpu())
    reader.close()
    size = sum(shard.size for shard in shards) / MB
    plan, rows = (size / (end - begin) for begin, end in pairwise(marks))
    print(
        f"{size:,.1f} MB, {characters:,} characters: plan {plan:,.0f} MB/s, rows {rows:,.0f} MB/s"
    )
    return {**script.facts(), "MB": size, "characters": characters, "plan": plan, "rows": rows}


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """The memory of the command and of its process over time, in MB."""
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        path = Path(name) / "large.txt"
        out = Path(name) / "out"
        with InputStream(options.file) as stream, path.open("wb") as file:
            content = b"".join(iter(functools.partial(stream.read, BLOCK), b""))
            while file.tell() < LARGE:
                file.write(content)
        command = [
            sys.executable,
            "-m",
            "hanlattice",
            "corpus",
            "tag",
            str(path),
            "--out",
            str(out),
            "--workers",
            "1",
        ]
        command += [
            "--model",
            options.model,
            "--shard-size",
            str(2 * LARGE // MB),
            *["--fast"] * options.fast,
        ]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while not (workers := _children(process.pid)):
                time.sleep(0.1)
            samples: list[tuple[float, float]] = []
            while len(samples) < options.memory:
                time.sleep(1)
                samples.append((_own(process.pid), _own(workers[0])))
            written = sum(each.stat().st_size for each in out.rglob("*"))
            process.kill()
    for name, sizes in zip(("command", "process"), zip(*samples, strict=True), strict=True):
        parts = (sizes[at * len(sizes) // 5 : (at + 1) * len(sizes) // 5] for at in range(5))
        print(
            f"{name}: at most {', '.join(f'{max(part):.1f}' for part in parts)} MB in each "
            f"fifth of the time"
        )
    print(f"{written / MB:,.1f} MB written")
    return {**script.facts(), "memory": samples, "written": written}


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _own(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().split("RssAnon:")[1]
    return int(status.split()[0]) * 1024 / MB


def report(taken: dict[str, list[tuple[float, float]]], size: int) -> dict[str, Any]:
    """The least of each: what others do on the machine only adds."""
    best = {way: [min(each) for each in zip(*times, strict=True)] for way, times in taken.items()}
    for way, (wall, cpu) in best.items():
        rates = f"{size / wall:10,.0f} characters/s, {size / cpu:10,.0f} a CPU second"
        print(f"{way:20} {rates}; wall {', '.join(f'{each[0]:.1f}' for each in taken[way])} s")
    (alone, alone_cpu), (one, one_cpu), *others = best.values()
    print(f"corpus / library: wall {one / alone:.3f}, CPU {one_cpu / alone_cpu:.3f}")
    for two, two_cpu in others:
        print(f"2 processes: {one / two:.2f} times as fast as 1; CPU {two_cpu / one_cpu:.3f}")
    return {
        "seconds": best,
        "overhead": one_cpu / alone_cpu - 1,
        "two": [one / two for two, _ in others],
    }


if __name__ == "__main__":
    parser = script.make_parser(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--characters", type=int, default=200_000)
    parser.add_argument("--model", default="ner")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--shards", type=int, default=8, help="that the lines are cut into; 1: no second process"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--workers", type=int, nargs="*", default=[], help="processes that share the GPU"
    )
    parser.add_argument("--reading", action="store_true")
    parser.add_argument("--memory", type=int, default=0, metavar="SECONDS")
    parser.add_argument(
        "--folder", type=Path, help="where to write; else the folder for temporary files"
    )
    options = parser.parse_args()
    chosen = (
        reading
        if options.reading
        else memory
        if options.memory
        else work
        if options.device == "cpu"
        else on_gpu
    )
    script.run(chosen, options)
