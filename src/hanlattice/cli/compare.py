"""`hanlattice compare`: configurations × seeds in, one table out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from hanlattice.cli.console import EventMeter, make_console
from hanlattice.cli.options import Address, Changes, Engine, Engines
from hanlattice.text.display import visible


def compare(
    configs: Annotated[
        list[Path], typer.Argument(help="TOML files, such as those in configs/; each is a row.")
    ],
    variants: Annotated[
        str,
        typer.Option(
            help="Each file in these variants instead, one row each: a list of names, or all."
        ),
    ] = "",
    seeds: Annotated[str, typer.Option(help="How many (5 is 1 to 5), or which: 1,4,7.")] = "5",
    changes: Changes = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of runs, records and outputs.")
    ] = Path("runs/compare"),
    devices: Annotated[
        str, typer.Option(help="auto (every GPU, else the CPU), or a list: cuda:0,cuda:1.")
    ] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs side by side on each device. Default: 1 on a GPU, cores / threads on a CPU.",
        ),
    ] = None,
    engine: Engine = Engines.local,
    address: Address = "",
    against: Annotated[
        str,
        typer.Option(
            help="The row that the others are compared with: its name, variant or file's stem."
        ),
    ] = "",
    rates: Annotated[
        bool,
        typer.Option("--rates/--no-rates", help="Measure how fast each row trains and decodes."),
    ] = True,
) -> None:
    """Train every configuration with every seed and compare them. The same command continues where
    it was stopped.
    """
    from hanlattice.lab.compare.matrix import read_seeds
    from hanlattice.lab.compare.run import compare as run
    from hanlattice.lab.compare.run import raise_failures

    numbers = read_seeds(seeds)
    with CompareMeter() as meter:
        comparison = run(
            configs,
            numbers,
            out,
            variants=[name.strip() for name in variants.split(",") if name.strip()],
            changes=changes or (),
            devices=devices,
            jobs=jobs or 0,
            engine=engine.value,
            address=address,
            against=against,
            rates=rates,
            listen=meter,
        )
    typer.echo(comparison.table, nl=False)
    meter.console.print(f"the table and everything behind it are in {out}")
    raise_failures(comparison)


class CompareMeter(EventMeter):
    """Listens to the comparison: one line a finished run, and on a terminal a bar for each that is
    running.
    """

    stopped = "stopped; the same command continues"

    def __init__(self) -> None:
        super().__init__(
            make_console(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[best]}"),
            TimeElapsedColumn(),
        )
        self.all = self.progress.add_task("runs", total=None, best="")
        self.tasks: dict[str, Any] = {}
        self.epochs: dict[str, int] = {}
        self.noted: set[str] = set()

    def _print(self, line: str) -> None:
        self.console.print(visible(line, "\n"))

    def _on_plan(self, event: dict[str, Any]) -> None:
        self.progress.update(self.all, total=event["runs"], completed=event["kept"])
        kept = f", {event['kept']} of them done already" if event["kept"] else ""
        self._print(f"{event['runs']} runs{kept}, on {', '.join(event['devices'])}")

    def _on_begin(self, event: dict[str, Any]) -> None:
        name = event["run"]
        self.tasks[name] = self.progress.add_task(
            f"  {name} on {event['device']}", total=None, best=""
        )

    def _on_start(self, event: dict[str, Any]) -> None:
        self._on_resume(event)
        for notice in event["notices"]:
            self._on_notice({"text": notice})

    def _on_resume(self, event: dict[str, Any]) -> None:
        self.epochs[event["run"]] = event["epochs"]

    def _on_step(self, event: dict[str, Any]) -> None:
        total = self.epochs.get(event["run"], 0) * event["batches"]
        done = event["epoch"] * event["batches"] + event["batch"]
        best = f"best dev F1 {100 * event['best']:.2f}"
        self.progress.update(
            self.tasks[event["run"]], total=total or None, completed=done, best=best
        )

    def _on_notice(self, event: dict[str, Any]) -> None:
        if event["text"] not in self.noted:  # the seeds of a row have the same to report
            self.noted.add(event["text"])
            self._print(f"note: {event['text']}")

    def _on_finished(self, event: dict[str, Any]) -> None:
        self._remove(event["run"])
        test = f", test F1 {100 * event['test']:.2f}" if "test" in event else ""
        where = f"epoch {event['epoch']}, {event['seconds']:,.0f} s on {event['device']}"
        self._print(f"{event['run']}: dev F1 {100 * event['dev']:.2f}{test}, {where}")

    def _on_failed(self, event: dict[str, Any]) -> None:
        self._remove(event["run"])
        self._print(f"{event['run']} failed: {event['reason']}")

    def _on_rates(self, event: dict[str, Any]) -> None:
        self._remove(event["run"], 0)
        train, decode = (event[what]["sentences_per_second"] for what in ("train", "decode"))
        self._print(f"{event['run']}: trains {train:,.0f} and decodes {decode:,.0f} sentences/s")

    def _remove(self, name: str, done: int = 1) -> None:
        self.progress.remove_task(self.tasks.pop(name))
        self.progress.advance(self.all, done)
