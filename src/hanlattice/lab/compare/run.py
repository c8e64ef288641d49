"""The comparison from end to end: a process for each run and each row's rates, then a table, a JSON
and a plot.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hanlattice.errors import ConfigError, HanlatticeError, InputError, OutputError
from hanlattice.events import Listener, ignore
from hanlattice.files import atomic_write, lock_folder
from hanlattice.lab.compare.job import (
    Record,
    begun_on,
    file_digest,
    identity,
    measure_rates,
    read_record,
    recount,
    train_run,
)
from hanlattice.lab.compare.jobs import CompareJob, Machine
from hanlattice.lab.compare.matrix import MatrixRow, check_seeds, read_rows, run_name
from hanlattice.lab.compare.summary import Results, draw, markdown, summarise
from hanlattice.tasks.run import Outcome
from hanlattice.theme import can_plot

if TYPE_CHECKING:
    from hanlattice.lab.compare.cluster import Cluster

TABLE = "table.md"
RESULTS = "results.json"
PLOT = "plot.svg"

Workers: TypeAlias = "Machine | Cluster"


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
    engine: str = "local",
    address: str = "",
    against: str = "",
    rates: bool = True,
    seconds: float = 3.0,
    samples: int = 10_000,
    listen: Listener = ignore,
) -> Comparison:
    """Train every configuration with every seed and compare them. Called again, it continues where
    it was stopped.

    `variants` are names from variants.toml, or `["all"]`: each file is then a row for each of them.
    `jobs` is how many runs are side by side on each device; 0 is one on a GPU, and on the CPU one
    for every `train.threads` cores. A rate takes about `seconds`. A run that fails does not stop
    the others: `failures` says why. With `engine` "ray" the runs are tasks on the Ray cluster at
    `address`.
    """
    rows = read_rows(files, changes, against, variants)
    numbers = check_seeds(seeds)
    folder = Path(out)
    if jobs < 0:
        raise InputError(f"jobs must be 1 or more, or 0 for the default, not {jobs}")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
    _check_folder(folder)
    workers = _workers(engine, address, devices, jobs, rows)
    results = Results(rows, numbers, {}, {}, {}, changes, against, samples)
    digest = functools.cache(file_digest)
    with lock_folder(folder, "compare"):
        train_all(results, folder, workers, digest, listen)
        if rates:
            measure_all(results, folder, workers, seconds, digest, listen)
        return write_outputs(results, folder, listen)


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which an output of the comparison would replace a file of somebody else."""
    if any((folder / part).is_dir() for part in ("runs", "results")):
        return
    for name in (TABLE, RESULTS, PLOT):
        if (folder / name).exists():
            message = f"{folder} holds {name}, which is not part of a comparison"
            raise OutputError(f"{message}: choose a new or empty folder for --out")


def _workers(
    engine: str, address: str, devices: str, jobs: int, rows: Sequence[MatrixRow]
) -> Workers:
    if engine == "ray":
        from hanlattice.lab.compare.cluster import Cluster

        return Cluster(address, devices, jobs)
    if engine != "local" or address:
        raise InputError(
            f"the engine is local, or ray with an address, not {engine} {address}".rstrip()
        )
    return Machine(devices, jobs, rows)


def train_all(
    results: Results, folder: Path, workers: Workers, digest: Callable[[str], str], listen: Listener
) -> None:
    """Every run that has no record yet. Records of other settings or data are refused before
    anything starts.
    """
    problems = []
    waiting = []
    for row in results.rows:
        for seed in results.seeds:
            name = run_name(row.stem, seed)
            now = identity(row.with_seed(seed, ""), digest)
            model = folder / "runs" / name
            path = folder / "results" / f"{name}.json"
            record, differences = read_record(path, now, functools.partial(_show_run, row, seed))
            if record is None:
                begun = begun_on(model)
                device = begun if begun in workers.devices else ""
                cpus = row.config.train.threads or 1
                waiting.append(
                    CompareJob(name, train_run, (row, seed, model, path, now), path, device, cpus)
                )
            elif differences:
                problems.append(
                    f"{path} is of another run ({'; '.join(differences)}): choose another --out, or remove it"
                )
            else:
                results.runs[name] = record
    if problems:
        raise ConfigError(problems, f"the comparison in {folder}")
    total = len(results.rows) * len(results.seeds)
    kept = len(results.runs)
    listen({"event": "plan", "runs": total, "kept": kept, "devices": workers.devices})
    for job, device, outcome in workers.run(waiting, listen):
        record = outcome.record
        if record is None:
            _fail(results, job, outcome, listen)
            continue
        results.runs[job.name] = record
        scores = {
            part: record["scores"][part]["overall"]["f1"]
            for part in ("dev", "test")
            if part in record["scores"]
        }
        facts = {"device": device, "seconds": record["seconds"], "epoch": record["epoch"]}
        listen({"event": "finished", "run": job.name, **facts, **scores})
        if difference := recount(record):
            listen({"event": "notice", "text": f"{job.name}: {difference}"})


def measure_all(
    results: Results,
    folder: Path,
    workers: Workers,
    seconds: float,
    digest: Callable[[str], str],
    listen: Listener,
) -> None:
    """The rates of every row that has none yet or those of other settings, one after the other on
    one device.
    """
    waiting = []
    for row in results.rows:
        path = folder / "rates" / f"{row.stem}.json"
        now = identity(row.with_seed(0, ""), digest)
        record, differences = read_record(path, now, functools.partial(_show_rates, row))
        models = [
            (run["seed"], folder / "runs" / run_name(row.stem, run["seed"]))
            for run in results.of(row)
        ]
        seed, model = next((each for each in models if each[1].is_dir()), (None, folder))
        if record is not None and not differences:
            results.rates[row.stem] = record
        elif seed is not None:
            task = (row, seed, model, path, now, seconds)
            cpus = row.config.train.threads or 1
            waiting.append(CompareJob(f"rates of {row.stem}", measure_rates, task, path, cpus=cpus))
    for job, device, outcome in workers.run(waiting, listen, alone=True):
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


def _fail(results: Results, job: CompareJob, outcome: Outcome, listen: Listener) -> None:
    results.failures[job.name] = {"reason": outcome.reason, "trace": outcome.trace}
    listen({"event": "failed", "run": job.name, "reason": outcome.reason})


def write_outputs(results: Results, folder: Path, listen: Listener) -> Comparison:
    summary = summarise(results)
    text = markdown(summary)
    with atomic_write(folder / RESULTS) as file:
        json.dump(summary, file, ensure_ascii=False, indent=2)
        file.write("\n")
    with atomic_write(folder / TABLE) as file:
        file.write(text)
    if can_plot():
        draw(summary, folder / PLOT)
    else:
        listen(
            {
                "event": "notice",
                "text": f"no {PLOT}: it needs matplotlib: pip install 'hanlattice[plot]'",
            }
        )
    return Comparison(
        folder,
        summary,
        text,
        {name: failure["reason"] for name, failure in results.failures.items()},
    )


def raise_failures(comparison: Comparison) -> None:
    """One error for all runs that failed, if any did."""
    if comparison.failures:
        lines = [f"  - {name}: {reason}" for name, reason in comparison.failures.items()]
        head = f"{len(lines)} failed; the table in {comparison.folder} has the others:"
        raise HanlatticeError("\n".join([head, *lines]))
