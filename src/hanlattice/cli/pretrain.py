"""`hanlattice pretrain`: train vectors, subwords and language models on raw text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hanlattice.cli.console import EventMeter, make_console
from hanlattice.cli.options import Encoding, RawFiles, Resume, Seed
from hanlattice.cli.pretrain_lm import pretrain_lm
from hanlattice.data.download import resolve
from hanlattice.files import printable_path
from hanlattice.lab.pretrain.outputs import Outputs
from hanlattice.lab.pretrain.subwords import (
    LONGEST_PIECE,
    MOST_PIECES,
    SUFFIXES,
    SubwordSettings,
    train_subwords,
)
from hanlattice.lab.pretrain.units import LARGEST_COUNT, Unit

app = typer.Typer(
    help="Train vectors, subwords and language models on raw text.", no_args_is_help=True
)


@app.command("vectors")
def vectors(
    files: RawFiles,
    unit: Annotated[Unit, typer.Option(help="Unit of text that gets a vector.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output: OUT.vec, OUT.bin and OUT.json.")
    ],
    lexicon: Annotated[
        str | None,
        typer.Option(
            help="Cut text into words by this dictionary. For subwords: the file from "
            "`hanlattice pretrain subwords`."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Cut text into words by this segmentation model (a folder).")
    ] = None,
    dim: Annotated[int, typer.Option(min=1, max=10_000, help="Numbers in a vector.")] = 100,
    window: Annotated[int, typer.Option(min=1, max=1000, help="Context: units on each side.")] = 5,
    negative: Annotated[
        int, typer.Option(min=1, max=1000, help="Negative samples for each context unit.")
    ] = 5,
    min_count: Annotated[
        int, typer.Option(min=1, max=LARGEST_COUNT, help="Leave out units that are less frequent.")
    ] = 5,
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="Passes over the text.")] = 5,
    sample: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.999,
            help="Subsample units whose share of the text is larger. 0 turns this off.",
        ),
    ] = 1e-3,
    cbow: Annotated[bool, typer.Option("--cbow", help="Train CBOW instead of skip-gram.")] = False,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="CPU threads. Only 1 is reproducible.")
    ] = 1,
    seed: Seed = 1,
    encoding: Encoding = "auto",
    device: Annotated[
        str | None, typer.Option(help="Device of `--model`: `cpu` or `cuda`. Default: `cpu`.")
    ] = None,
    resume: Resume = False,
) -> None:
    """Train vectors of characters, bigrams, words or subwords with word2vec."""
    from hanlattice.lab.pretrain.vectors import SUFFIXES as VECTOR_SUFFIXES
    from hanlattice.lab.pretrain.vectors import VectorSettings, VectorSource, train_vectors

    settings = VectorSettings(unit, dim, window, negative, min_count, epochs, sample, cbow, seed)
    source = VectorSource(tuple(files), resolve(lexicon) if lexicon else None, model, device)
    stem = printable_path(Outputs(out, VECTOR_SUFFIXES).stem)
    with VectorMeter(make_console(), settings.epochs) as meter:
        record = train_vectors(source, out, settings, threads=threads, resume=resume, listen=meter)
    meter.print_result(f"{record['vectors']:,} vectors in {stem}.vec and {stem}.bin", record)


@app.command("subwords")
def subwords(
    files: RawFiles,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Output: OUT.txt (dictionary), OUT.bpe.json and OUT.json."
        ),
    ],
    size: Annotated[
        int, typer.Option(min=1, max=MOST_PIECES, help="Most subwords of two characters or more.")
    ] = 20_000,
    longest: Annotated[
        int, typer.Option(min=2, max=LONGEST_PIECE, help="Most characters in a subword.")
    ] = 4,
    min_count: Annotated[
        int, typer.Option(min=1, max=LARGEST_COUNT, help="Merge only pairs that occur this often.")
    ] = 5,
    encoding: Encoding = "auto",
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Use all cores. The result is the same.")
    ] = False,
) -> None:
    """Make a dictionary of subwords by byte-pair encoding, with the frequency of each subword."""
    settings = SubwordSettings(size, longest, min_count)
    lexicon = printable_path(Outputs(out, SUFFIXES)[".txt"])
    with SubwordMeter(make_console(), 2) as meter:
        record = train_subwords(tuple(files), out, settings, parallel=parallel, listen=meter)
    unused = f"{record['unused']:,} merges that no text uses are left out"
    meter.print_result(f"{record['pieces']:,} pieces in {lexicon} ({unused})", record)


app.command("lm")(pretrain_lm)


class PassMeter(EventMeter):
    """Show `pass` events: a bar for pass 0, and one for the epochs after it, which take longer."""

    names = ("counting", "training")

    def __init__(self, console: Console, epochs: int) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            # Seconds of progress from which the time left is estimated
            speed_estimate_period=120,
        )
        self.epochs = epochs
        self.tasks: dict[int, Any] = {}

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] != "pass":
            return
        number = event["number"]
        size = event["size"]
        part = min(number, 1)
        if part not in self.tasks:
            total = size * (self.epochs if part else 1)
            self.tasks[part] = self.progress.add_task(self.names[part], total=total)
        # Passes are numbered from 1 in the second bar.
        done = max(0, number - 1) * size + event["done"]
        self.progress.update(self.tasks[part], completed=done)

    def print_result(self, result: str, record: dict[str, Any]) -> None:
        """Print what was made, and the time and memory that it took."""
        cost = f"{record['seconds']:,.0f} s"
        if record["peak_memory"]:
            cost += f", at most {record['peak_memory'] / 1e6:,.0f} MB"
        self.console.print(f"{result}; {cost}")


class VectorMeter(PassMeter):
    """Show how vectors are trained."""

    stopped = "stopped; the same command with --resume goes on after the last whole epoch"

    def __call__(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "counted":
                for notice in event["notices"]:
                    self.print(f"note: {notice}")
                self.print(
                    f"{event['units']:,} units, {event['types']:,} different, "
                    f"{event['vectors']:,} of them often enough"
                )
                if event["epoch"]:
                    self.print(f"going on at epoch {event['epoch'] + 1}/{event['epochs']}")
            case "epoch":
                epoch = f"{event['epoch']}/{event['epochs']}"
                self.print(f"epoch {epoch}: {event['rate']:,.0f} units/s")
            case "finished":
                self.print("this run is finished already")
            case _:
                super().__call__(event)


class SubwordMeter(PassMeter):
    """Show how subwords are made: the second bar reads the text and counts the pieces."""

    names = ("characters", "pieces")

    def __call__(self, event: dict[str, Any]) -> None:
        super().__call__(event)
        # Between its two halves, pairs are merged without events.
        if event["event"] == "merging":
            self.progress.update(self.tasks[1], description="merging")
        elif event["event"] == "pass" and event["number"] == 2:
            self.progress.update(self.tasks[1], description="frequencies")
