"""`hanlattice compare`: train several configurations with several seeds, and print one table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from hanlattice.cli.console import EventMeter, make_console
from hanlattice.cli.options import Address, Changes, Engine, Engines


def compare(
    configs: Annotated[
        list[Path], typer.Argument(help="Configuration files (TOML). Each is a row of the table.")
    ],
    variants: Annotated[
        str,
        typer.Option(
            help="Variants of each file, separated by commas, or `all`. "
            "Each variant is a row. Default: the default variant of each file."
        ),
    ] = "",
    seeds: Annotated[
        str, typer.Option(help="Number of seeds (`5` means 1 to 5), or a list: `1,4,7`.")
    ] = "5",
    changes: Changes = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output folder for runs, records and tables.")
    ] = Path("runs/compare"),
    devices: Annotated[
        str,
        typer.Option(
            help="Devices, separated by commas: `cuda:0,cuda:1`. "
            "`auto`: every GPU, or the CPU if there is none."
        ),
    ] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs at the same time on each device. "
            "Default: 1 on a GPU, cores divided by threads on a CPU.",
        ),
    ] = None,
    engine: Engine = Engines.local,
    address: Address = "",
    against: Annotated[
        str, typer.Option(help="Row to compare with: its name, variant, or file without suffix.")
    ] = "",
    rates: Annotated[
        bool, typer.Option("--rates/--no-rates", help="Measure the speed of training and decoding.")
    ] = True,
) -> None:
    """Train every configuration with every seed and compare the scores.

    Run the same command again to resume.
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
    """Print a line for each finished run, and show a bar for each current run on a terminal."""

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
        self.runs = self.progress.add_task("runs", total=None, best="")
        self.tasks: dict[str, Any] = {}
        self.epochs: dict[str, int] = {}
        self.notices: set[str] = set()

    def __call__(self, event: dict[str, Any]) -> None:
        run = event.get("run", "")
        match event["event"]:
            case "plan":
                kept = f", {event['kept']} of them done already" if event["kept"] else ""
                self.progress.update(self.runs, total=event["runs"], completed=event["kept"])
                self.print(f"{event['runs']} runs{kept}, on {', '.join(event['devices'])}")
            case "begin":
                title = f"  {run} on {event['device']}"
                self.tasks[run] = self.progress.add_task(title, total=None, best="")
            case "start" | "resume":
                self.epochs[run] = event["epochs"]
                self._note(event.get("notices", ()))
            case "notice":
                self._note([event["text"]])
            case "step":
                batches = event["batches"]
                self.progress.update(
                    self.tasks[run],
                    # Until the number of epochs is known, the bar has no end.
                    total=self.epochs.get(run, 0) * batches or None,
                    completed=event["epoch"] * batches + event["batch"],
                    best=f"best dev F1 {100 * event['best']:.2f}",
                )
            case "finished":
                self._end(run)
                test = f", test F1 {100 * event['test']:.2f}" if "test" in event else ""
                place = f"epoch {event['epoch']}, {event['seconds']:,.0f} s on {event['device']}"
                self.print(f"{run}: dev F1 {100 * event['dev']:.2f}{test}, {place}")
            case "failed":
                self._end(run)
                self.print(f"{run} failed: {event['reason']}", "\n")
            case "rates":
                # Measuring the rates of a row is not one of the runs.
                self._end(run, runs=0)
                train, decode = (event[k]["sentences_per_second"] for k in ("train", "decode"))
                self.print(f"{run}: trains {train:,.0f} and decodes {decode:,.0f} sentences/s")

    def _note(self, notices: Iterable[str]) -> None:
        # The seeds of a row have the same notices.
        for notice in notices:
            if notice not in self.notices:
                self.notices.add(notice)
                self.print(f"note: {notice}", "\n")

    def _end(self, run: str, runs: int = 1) -> None:
        self.progress.remove_task(self.tasks.pop(run))
        self.progress.advance(self.runs, runs)
