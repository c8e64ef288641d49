"""The comparison from end to end: a process for each run and each row's rates, then a table, a JSON and a plot."""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hanlattice.compare.job import (
    Record,
    begun_on,
    file_digest,
    identity,
    measure_rates,
    read_record,
    recount,
    train_run,
)
from hanlattice.compare.matrix import MatrixRow, check_seeds, read_rows, run_name
from hanlattice.compare.summary import Results, draw, markdown, summarise
from hanlattice.errors import ConfigError, HanlatticeError, InputError, OutputError
from hanlattice.events import Event, Listener, ignore
from hanlattice.files import hold, writing
from hanlattice.models.device import find_device
from hanlattice.style import can_plot

TABLE, RESULTS, PLOT = "table.md", "results.json", "plot.svg"
CONTEXT: Any = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
PAUSE = 0.5  # seconds between two steps that a run reports


@dataclass(frozen=True)
class Comparison:
    folder: Path
    summary: dict[str, Any]  # the content of results.json
    table: str  # the content of table.md
    failures: dict[str, str]  # run → why it failed


def compare(
    files: Iterable[str | Path],
    seeds: Iterable[int] = range(1, 6),
    out: str | Path = "runs/compare",
    *,
    variants: Sequence[str] = (),
    changes: Sequence[str] = (),
    devices: str = "auto",
    jobs: int = 0,
    against: str = "",
    rates: bool = True,
    seconds: float = 3.0,
    samples: int = 10_000,
    listen: Listener = ignore,
) -> Comparison:
    """Train every configuration with every seed and compare them. Called again, it continues where it was stopped.

    `variants` are names from variants.toml, or `["all"]`: each file is then a row for each of them. `jobs` is how many
    runs are side by side on each device; 0 is one on a GPU, and on the CPU one for every `train.threads` cores. A rate
    takes about `seconds`. A run that fails does not stop the others: `failures` says why.
    """
    rows, numbers, folder = read_rows(files, changes, against, variants), check_seeds(seeds), Path(out)
    if jobs < 0:
        raise InputError(f"jobs must be 1 or more, or 0 for the default, not {jobs}")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
    places = find_devices(devices)
    results = Results(rows, numbers, {}, {}, {}, changes, against, samples)
    digest = functools.cache(file_digest)
    with hold(folder, "compare"):
        train_all(results, folder, places, jobs, digest, listen)
        if rates:
            measure_all(results, folder, places[0], seconds, digest, listen)
        return write_outputs(results, folder, listen)


def find_devices(words: str) -> list[str]:
    """`auto` is every CUDA device or, without one, the CPU; else a list such as `cuda:0,cuda:1`."""
    if words.strip() == "auto":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [f"cuda:{at}" for at in range(count)] or ["cpu"]
    found = [find_device(word.strip()) for word in words.split(",")]
    devices = [f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu" for device in found]
    if len(set(devices)) < len(devices):
        raise InputError(f"--devices {words} names a device twice; --jobs says how many runs are side by side on each")
    return devices


def find_slots(devices: Sequence[str], jobs: int, rows: Sequence[MatrixRow]) -> list[str]:
    """A device for each run that is side by side with others, the devices in turn."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    on_cpu = max(1, min(cores // (row.config.train.threads or cores) for row in rows))
    counts = {device: jobs or (on_cpu if device == "cpu" else 1) for device in devices}
    return [device for at in range(max(counts.values())) for device in devices if at < counts[device]]


def train_all(
    results: Results, folder: Path, devices: list[str], jobs: int, digest: Callable[[str], str], listen: Listener
) -> None:
    """Every run that has no record yet. Records of other settings or data are refused before anything starts."""
    problems, waiting = [], []
    for row in results.rows:
        for seed in results.seeds:
            name, now = run_name(row.stem, seed), identity(row.with_seed(seed, ""), digest)
            model, path = folder / "runs" / name, folder / "results" / f"{name}.json"
            record, differences = read_record(path, now, functools.partial(_show_run, row, seed))
            if record is None:
                begun = begun_on(model)
                device = begun if begun in devices else ""
                waiting.append(Job(name, train_run, (row, seed, model, path, now), path, device))
            elif differences:
                problems.append(
                    f"{path} is of another run ({'; '.join(differences)}): choose another --out, or remove it"
                )
            else:
                results.runs[name] = record
    if problems:
        raise ConfigError(problems, f"the comparison in {folder}")
    total, kept = len(results.rows) * len(results.seeds), len(results.runs)
    listen({"event": "plan", "runs": total, "kept": kept, "devices": devices})
    for job, device, outcome in run_jobs(waiting, find_slots(devices, jobs, results.rows), listen):
        record = outcome.record
        if record is None:
            _fail(results, job, outcome, listen)
            continue
        results.runs[job.name] = record
        scores = {part: record["scores"][part]["overall"]["f1"] for part in ("dev", "test") if part in record["scores"]}
        facts = {"device": device, "seconds": record["seconds"], "epoch": record["epoch"]}
        listen({"event": "finished", "run": job.name, **facts, **scores})
        if difference := recount(record):
            listen({"event": "notice", "text": f"{job.name}: {difference}"})


def measure_all(
    results: Results, folder: Path, device: str, seconds: float, digest: Callable[[str], str], listen: Listener
) -> None:
    """The rates of every row that has none yet or those of other settings, one after the other on one device."""
    waiting = []
    for row in results.rows:
        path, now = folder / "rates" / f"{row.stem}.json", identity(row.with_seed(0, ""), digest)
        record, differences = read_record(path, now, functools.partial(_show_rates, row))
        models = [(run["seed"], folder / "runs" / run_name(row.stem, run["seed"])) for run in results.of(row)]
        seed, model = next((each for each in models if each[1].is_dir()), (None, folder))
        if record is not None and not differences:
            results.rates[row.stem] = record
        elif seed is not None:
            waiting.append(Job(f"rates of {row.stem}", measure_rates, (row, seed, model, path, now, seconds), path))
    for job, _, outcome in run_jobs(waiting, [device], listen):
        if outcome.record is None:
            _fail(results, job, outcome, listen)
            continue
        results.rates[job.path.stem] = outcome.record
        rates = {what: outcome.record[what] for what in ("train", "decode")}
        listen({"event": "rates", "run": job.name, "device": device, **rates})


def _show_run(row: MatrixRow, seed: int, record: Record) -> None:
    """All that is made of a run's record."""
    recount(record)
    markdown(summarise(Results([row], [seed], {run_name(row.stem, seed): record}, {}, {})))


def _show_rates(row: MatrixRow, record: Record) -> None:
    markdown(summarise(Results([row], [], {}, {row.stem: record}, {})))


def _fail(results: Results, job: Job, outcome: Outcome, listen: Listener) -> None:
    results.failures[job.name] = {"reason": outcome.reason, "trace": outcome.trace}
    listen({"event": "failed", "run": job.name, "reason": outcome.reason})


def write_outputs(results: Results, folder: Path, listen: Listener) -> Comparison:
    summary = summarise(results)
    text = markdown(summary)
    with writing(folder / RESULTS) as file:
        json.dump(summary, file, ensure_ascii=False, indent=2)
        file.write("\n")
    with writing(folder / TABLE) as file:
        file.write(text)
    if can_plot():
        draw(summary, folder / PLOT)
    else:
        listen({"event": "notice", "text": f"no {PLOT}: it needs matplotlib: pip install 'hanlattice[plot]'"})
    return Comparison(folder, summary, text, {name: failure["reason"] for name, failure in results.failures.items()})


def raise_failures(comparison: Comparison) -> None:
    """One error for all runs that failed, if any did."""
    if comparison.failures:
        lines = [f"  - {name}: {reason}" for name, reason in comparison.failures.items()]
        head = f"{len(lines)} failed; the table in {comparison.folder} has the others:"
        raise HanlatticeError("\n".join([head, *lines]))


@dataclass(frozen=True)
class Job:
    """`do(device, listen, *arguments)` in a process of its own; `do` must be a function of a module."""

    name: str
    do: Callable[..., Record]
    arguments: tuple[Any, ...]
    path: Path  # of the record that it leaves
    device: str = ""  # where it must run; "" is anywhere


class Outcome(NamedTuple):
    record: Record | None  # None if it failed
    reason: str = ""  # why
    trace: str = ""  # where, if it is not a mistake of the user


def run_jobs(jobs: Sequence[Job], slots: Sequence[str], listen: Listener) -> Iterator[tuple[Job, str, Outcome]]:
    """(job, its device, what came of it), as they end. A slot is a device on which one job runs at a time."""
    waiting, free = list(jobs), list(slots)
    working: dict[Any, tuple[Job, str, Any]] = {}  # by connection: the job, its device, its process
    try:
        while waiting or working:
            for device in tuple(free):
                job = next((job for job in waiting if job.device in ("", device)), None)
                if job is not None:
                    waiting.remove(job)
                    free.remove(device)
                    listen({"event": "begin", "run": job.name, "device": device})
                    ours, process = _start(job, device)
                    working[ours] = job, device, process
            ready = wait(list(working))
            for connection in [each for each in working if each in ready]:
                job, device, process = working[connection]
                message = _receive(connection, process)
                if not isinstance(message, Outcome):
                    listen({**message, "run": job.name, "device": device})
                    continue
                del working[connection]
                connection.close()
                process.join()
                free.append(device)
                yield job, device, message
    finally:  # whatever is still working can be killed: the same command continues
        for _, _, process in working.values():
            process.kill()
        for _, _, process in working.values():
            process.join()


def _start(job: Job, device: str) -> tuple[Connection, Any]:
    """The process never sees the Ctrl-C that a terminal sends to all: its parent ends it."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(theirs, job, device), daemon=True)
    with contextlib.ExitStack() as stack:
        if hasattr(signal, "pthread_sigmask"):  # not on Windows
            resource_tracker.ensure_running()  # started with the signal blocked, it would unblock it
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        process.start()
    theirs.close()  # so that the end of the process is seen here
    return ours, process


def _receive(connection: Connection, process: Any) -> Event | Outcome:
    """What a process says next; if it has died, that."""
    try:
        message: Event | Outcome = connection.recv()
        return message
    except (EOFError, OSError):
        process.join()
    if process.exitcode >= 0:
        return Outcome(None, f"its process ended with exit code {process.exitcode}")
    name = signal.Signals(-process.exitcode).name
    guess = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return Outcome(None, f"its process was ended by {name}{guess}")


def _work(connection: Connection, job: Job, device: str) -> None:
    """In the process: do the job, and send its events and outcome."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        outcome = Outcome(job.do(device, _throttled(connection.send), *job.arguments))
    except HanlatticeError as error:
        outcome = Outcome(None, str(error))
    except Exception as error:  # whatever it is, the other runs go on
        outcome = Outcome(None, f"{type(error).__name__}: {error}", traceback.format_exc())
    with contextlib.suppress(BrokenPipeError):
        connection.send(outcome)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its processes, and they must not write into a folder that is resumed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _throttled(send: Listener) -> Listener:
    """Passes events on; of steps, which may be thousands a second, a few."""
    last = float("-inf")

    def listen(event: Event) -> None:
        nonlocal last
        if event["event"] == "step":
            if time.monotonic() - last < PAUSE:
                return
            last = time.monotonic()
        send(event)

    return listen
