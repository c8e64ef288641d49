"""`hanlattice compare`: configurations × seeds in, one table out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from hanlattice.cli.console import EventMeter

if TYPE_CHECKING:
    from hanlattice.compare.words import Words


def compare(
    configs: Annotated[list[Path], typer.Argument(help="TOML files, such as those in configs/; each is a row.")],
    seeds: Annotated[str, typer.Option(help="How many (5 is 1 to 5), or which: 1,4,7.")] = "5",
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting of all: section.key=value. May come often.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of runs, records and outputs.")] = Path(
        "runs/compare"
    ),
    devices: Annotated[str, typer.Option(help="auto (every GPU, else the CPU), or a list: cuda:0,cuda:1.")] = "auto",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs side by side on each device. [default: as many as fit]")
    ] = None,
    against: Annotated[
        str, typer.Option(help="The row that the others are held against: its name or file's stem.")
    ] = "",
    rates: Annotated[
        bool, typer.Option("--rates/--no-rates", help="Measure how fast each row trains and decodes.")
    ] = True,
) -> None:
    """Train every configuration with every seed and compare them. The same command goes on where it was stopped."""
    from hanlattice.compare.matrix import read_seeds
    from hanlattice.compare.run import compare as run
    from hanlattice.compare.run import raise_failures
    from hanlattice.compare.words import Words

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    numbers = read_seeds(seeds)
    try:
        with Meter(console, Words()) as meter:
            found = run(
                configs,
                numbers,
                out,
                changes=changes or (),
                devices=devices,
                jobs=jobs or 0,
                against=against,
                rates=rates,
                listen=meter,
            )
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on")
        raise
    typer.echo(found.table, nl=False)
    console.print(f"the table and everything behind it are in {out}")
    raise_failures(found)


class Meter(EventMeter):
    """Listens to the comparison: one line a finished run, and on a terminal a bar for each that is at work."""

    def __init__(self, console: Console, words: Words) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[best]}"),
            TimeElapsedColumn(),
        )
        self.words = words
        self.all = self.progress.add_task("runs", total=None, best="")
        self.tasks: dict[str, Any] = {}
        self.epochs: dict[str, int] = {}

    def __call__(self, event: dict[str, Any]) -> None:
        super().__call__(event)
        for line in self.words.of(event):
            self.console.print(line)

    def _on_plan(self, event: dict[str, Any]) -> None:
        self.progress.update(self.all, total=event["runs"], completed=event["kept"])

    def _on_begin(self, event: dict[str, Any]) -> None:
        name = event["run"]
        self.tasks[name] = self.progress.add_task(f"  {name} on {event['device']}", total=None, best="")

    def _on_start(self, event: dict[str, Any]) -> None:
        self.epochs[event["run"]] = event["epochs"]

    _on_resume = _on_start

    def _on_step(self, event: dict[str, Any]) -> None:
        total = self.epochs.get(event["run"], 0) * event["batches"]
        done = event["epoch"] * event["batches"] + event["batch"]
        best = f"best dev F1 {100 * event['best']:.2f}"
        self.progress.update(self.tasks[event["run"]], total=total or None, completed=done, best=best)

    def _on_again(self, event: dict[str, Any]) -> None:
        self.progress.remove_task(self.tasks.pop(event["run"]))

    _on_rates = _on_again

    def _on_finished(self, event: dict[str, Any]) -> None:
        self._on_again(event)
        self.progress.advance(self.all)

    _on_failed = _on_finished
