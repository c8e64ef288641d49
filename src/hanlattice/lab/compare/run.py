"""The comparison from end to end: train runs, measure rates, write table, JSON and plot."""

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
    """The outputs: results.json, table.md, and for each failed run why it failed."""

    folder: Path
    summary: dict[str, Any]
    table: str
    failures: dict[str, str]


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
    """Train every configuration with every seed and compare them.

    Called again, it continues where it was stopped. A run that fails does not stop the others.

    Args:
        files: the configurations.
        out: the folder of all runs and outputs.
        variants: names from variants.toml, or `["all"]`: each file is then a row for each.
        changes: settings for all runs, as `--set` takes them.
        devices: `auto`, or a list such as `cuda:0,cuda:1`.
        jobs: runs side by side on each device. 0 is one on a GPU, and on the CPU one for every
            `train.threads` cores.
        engine: `local`, or `ray` for tasks on the Ray cluster at `address`.
        against: the row that the others are compared with.
        rates: also measure how fast each row trains and decodes, about `seconds` each.
        samples: of the bootstrap.
    """
    rows = read_rows(files, changes, against, variants)
    numbers = check_seeds(seeds)
    folder = Path(out)
    if jobs < 0:
        raise InputError(f"jobs must be 1 or more, or 0 for the default, not {jobs}")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
    # An output must not replace somebody else's file.
    if not any((folder / part).is_dir() for part in ("runs", "results")):
        for name in (TABLE, RESULTS, PLOT):
            if (folder / name).exists():
                message = f"{folder} holds {name}, which is not part of a comparison"
                raise OutputError(f"{message}: choose a new or empty folder for --out")
    workers = _workers(engine, address, devices, jobs, rows)
    results = Results(rows, numbers, {}, {}, {}, changes, against, samples)
    digest = functools.cache(file_digest)
    with lock_folder(folder, "compare"):
        train_all(results, folder, workers, digest, listen)
        if rates:
            measure_all(results, folder, workers, seconds, digest, listen)
        return write_outputs(results, folder, listen)


def _workers(
    engine: str, address: str, devices: str, jobs: int, rows: Sequence[MatrixRow]
) -> Workers:
    if engine == "ray":
        from hanlattice.lab.compare.cluster import Cluster

        return Cluster(address, devices, jobs)
    if engine != "local" or address:
        given = f"{engine} {address}".rstrip()
        raise InputError(f"the engine is local, or ray with an address, not {given}")
    return Machine(devices, jobs, rows)


def train_all(
    results: Results, folder: Path, workers: Workers, digest: Callable[[str], str], listen: Listener
) -> None:
    """Train every run that has no record; first refuse records of other settings or data."""
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
                task = (row, seed, model, path, now)
                cpus = row.config.train.threads or 1
                waiting.append(CompareJob(name, train_run, task, path, device, cpus))
            elif differences:
                problem = f"{path} is of another run ({'; '.join(differences)})"
                problems.append(f"{problem}: choose another --out, or remove it")
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
        parts = [part for part in ("dev", "test") if part in record["scores"]]
        scores = {part: record["scores"][part]["overall"]["f1"] for part in parts}
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
    """Measure every row that has no rates, or rates of other settings, one row after the other."""
    waiting = []
    for row in results.rows:
        path = folder / "rates" / f"{row.stem}.json"
        now = identity(row.with_seed(0, ""), digest)
        record, differences = read_record(path, now, functools.partial(_show_rates, row))
        seeds = [run["seed"] for run in results.of(row)]
        models = ((seed, folder / "runs" / run_name(row.stem, seed)) for seed in seeds)
        seed, model = next((pair for pair in models if pair[1].is_dir()), (None, folder))
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
    """Make all outputs of a run's record, which raises if it is damaged."""
    recount(record)
    markdown(summarise(Results([row], [seed], {run_name(row.stem, seed): record}, {}, {})))


def _show_rates(row: MatrixRow, record: Record) -> None:
    markdown(summarise(Results([row], [], {}, {row.stem: record}, {})))


def _fail(results: Results, job: CompareJob, outcome: Outcome, listen: Listener) -> None:
    results.failures[job.name] = {"reason": outcome.reason, "trace": outcome.trace}
    listen({"event": "failed", "run": job.name, "reason": outcome.reason})


def write_outputs(results: Results, folder: Path, listen: Listener) -> Comparison:
    """Write table, JSON and, with matplotlib, plot."""
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
        message = f"no {PLOT}: it needs matplotlib: pip install 'hanlattice[plot]'"
        listen({"event": "notice", "text": message})
    failures = {name: failure["reason"] for name, failure in results.failures.items()}
    return Comparison(folder, summary, text, failures)


def raise_failures(comparison: Comparison) -> None:
    """Raise one error for all runs that failed, if any did."""
    if comparison.failures:
        lines = [f"  - {name}: {reason}" for name, reason in comparison.failures.items()]
        head = f"{len(lines)} failed; the table in {comparison.folder} has the others:"
        raise HanlatticeError("\n".join([head, *lines]))
