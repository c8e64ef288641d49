"""The comparison from end to end: train, count, measure; then write a table, a JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hanlattice.compare.lock import working_in
from hanlattice.compare.matrix import Row, check_seeds, read_rows, run_name
from hanlattice.compare.packing import Amount, Sizes, capacity, cost, find_devices, need
from hanlattice.compare.plot import draw
from hanlattice.compare.pool import Outcome, Pool, Task
from hanlattice.compare.rates import do_rates
from hanlattice.compare.records import RATES, RUN, Digests, Record, check_folder, claim, identity
from hanlattice.compare.summary import Found, summarise
from hanlattice.compare.table import markdown
from hanlattice.compare.work import begun_on, do_run, recount
from hanlattice.errors import ConfigError, HanlatticeError, InputError
from hanlattice.events import Listener, ignore
from hanlattice.files import writing

TABLE, RESULTS, PLOT = "table.md", "results.json", "plot.svg"


@dataclass(frozen=True)
class Comparison:
    folder: Path
    summary: dict[str, Any]  # what results.json says
    table: str  # what table.md says
    failures: dict[str, str]  # why each run that failed did


def compare(
    files: Iterable[str | Path],
    seeds: Iterable[int] = range(1, 6),
    out: str | Path = "runs/compare",
    *,
    changes: Sequence[str] = (),
    devices: str = "auto",
    jobs: int = 0,
    against: str = "",
    rates: bool = True,
    seconds: float = 3.0,
    samples: int = 10_000,
    listen: Listener = ignore,
) -> Comparison:
    """Train every configuration with every seed and compare them. Called again, it goes on where it was stopped.

    `jobs` runs are side by side on each device; 0 decides by what they need. `seconds` is what each rate takes about.
    A run that fails does not keep the others: `failures` says why.
    """
    rows, numbers, folder = read_rows(files, changes, against), check_seeds(seeds), Path(out)
    if jobs < 0:
        raise InputError(f"jobs must be 1 or more, or 0 to decide by what runs need, not {jobs}")
    check_folder(folder)
    work = Work(folder, find_devices(devices), jobs, listen)
    with working_in(folder, alone=True):
        work.train(rows, numbers)
        if rates:
            work.measure(rows, numbers, seconds)
        found = Found(rows, numbers, work.runs, work.rates, work.failures, changes, against, samples)
        return _write(folder, found, listen)


@dataclass
class Work:
    """What is done, and what came of it so far."""

    folder: Path
    devices: list[str]
    jobs: int
    listen: Listener
    runs: dict[str, Record] = field(default_factory=dict)
    rates: dict[str, Record] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    digests: Digests = field(default_factory=Digests)
    sizes: Sizes = field(default_factory=Sizes)

    def train(self, rows: Sequence[Row], seeds: Sequence[int]) -> None:
        """Every run that has no record yet."""
        problems: list[str] = []
        tasks: list[tuple[float, Task]] = []
        for row in rows:
            for seed in seeds:
                name = run_name(row.stem, seed)
                path, now = self.folder / "results" / f"{name}.json", identity(row.with_seed(seed, ""), self.digests)
                record = claim(path, RUN, now, problems.append)
                if record is not None:
                    self.runs[name] = record
                else:
                    tasks.append((self._cost(row), self._run_task(name, row, seed, path, now)))
        if problems:
            raise ConfigError(problems, f"the comparison in {self.folder}")
        self.listen({"event": "plan", "runs": len(rows) * len(seeds), "kept": len(self.runs), "devices": self.devices})
        longest_first = [task for _, task in sorted(tasks, key=lambda each: -each[0])]
        self._do(longest_first, self.jobs, self._take_run)

    def _run_task(self, name: str, row: Row, seed: int, path: Path, now: Record) -> Task:
        """A run that was begun goes on where it was begun, if that device is among those of today."""
        folder = self.folder / "runs" / name
        begun = begun_on(folder)
        size = None if self.jobs or self.devices == ["cpu"] else self.sizes.of(row.config)
        places = [begun] if begun in self.devices else self.devices
        needs = {device: need(row.config, size, device, self.jobs) for device in places}
        return Task(name, do_run, (row, seed, folder, path, now), needs)

    def _cost(self, row: Row) -> float:
        return cost(row.config, self.sizes.of(row.config), self.devices != ["cpu"])

    def _do(self, tasks: Sequence[Task], jobs: int, take: Callable[[Outcome], None]) -> None:
        if not tasks:
            return
        capacities = {device: capacity(device, self.devices, jobs) for device in self.devices}
        with Pool(self.folder, capacities, self.listen) as pool:
            for outcome in pool.run(tasks):
                take(outcome)

    def _take_run(self, outcome: Outcome) -> None:
        name, record = outcome.task.name, outcome.value
        if record is None:
            self._fail(outcome)
            return
        self.runs[name] = record
        figures = {
            part: record["scores"][part]["overall"]["f1"] for part in ("dev", "test") if part in record["scores"]
        }
        facts = {"device": outcome.device, "seconds": record["seconds"], "epoch": record["epoch"]}
        self.listen({"event": "finished", "run": name, **facts, **figures})
        if words := recount(record):
            self.listen({"event": "notice", "text": f"{name}: {words}"})

    def _fail(self, outcome: Outcome) -> None:
        self.failures[outcome.task.name] = {"reason": outcome.reason, "trace": outcome.trace}
        self.listen({"event": "failed", "run": outcome.task.name, "reason": outcome.reason})

    def measure(self, rows: Sequence[Row], seeds: Sequence[int], seconds: float) -> None:
        """The rates of every row that has none yet, one after the other and nothing beside them."""
        tasks = []
        for row in rows:
            path, now = self.folder / "rates" / f"{row.stem}.json", identity(row.with_seed(0, ""), self.digests)
            record = claim(path, RATES, now, lambda _: None)  # those of other settings are taken anew
            seed = next((seed for seed in seeds if self._has_model(run_name(row.stem, seed))), None)
            if record is not None:
                self.rates[row.stem] = record
            elif seed is not None:
                folder, device = self.folder / "runs" / run_name(row.stem, seed), self.devices[0]
                arguments = (row, seed, folder, path, now, seconds)
                tasks.append(Task(f"rates of {row.stem}", do_rates, arguments, {device: Amount(1)}, alone=True))
        self._do(tasks, 1, self._take_rate)

    def _has_model(self, name: str) -> bool:
        return name in self.runs and (self.folder / "runs" / name).is_dir()

    def _take_rate(self, outcome: Outcome) -> None:
        if outcome.value is None:
            self._fail(outcome)
            return
        self.rates[outcome.task.arguments[0].stem] = outcome.value
        rates = {what: outcome.value[what] for what in ("train", "decode")}
        self.listen({"event": "rates", "run": outcome.task.name, "device": outcome.device, **rates})


def _write(folder: Path, found: Found, listen: Listener) -> Comparison:
    summary = summarise(found)
    text = markdown(summary)
    with writing(folder / RESULTS) as file:
        json.dump(summary, file, ensure_ascii=False, indent=2)
        file.write("\n")
    with writing(folder / TABLE) as file:
        file.write(text)
    if find_spec("matplotlib") is None:
        listen({"event": "notice", "text": f"no {PLOT}: it needs matplotlib: pip install 'hanlattice[plot]'"})
    else:
        draw(summary, folder / PLOT)
    return Comparison(folder, summary, text, {name: failure["reason"] for name, failure in found.failures.items()})


def raise_failures(found: Comparison) -> None:
    """One error for all runs that failed, if any did."""
    if found.failures:
        told = [f"  - {name}: {reason}" for name, reason in found.failures.items()]
        head = f"{len(told)} failed; the table in {found.folder} has the others:"
        raise HanlatticeError("\n".join([head, *told]))
