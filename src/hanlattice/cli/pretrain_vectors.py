"""`hanlattice pretrain vectors`: raw text in, word2vec out, with progress and time left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hanlattice.cli.console import EventMeter
from hanlattice.data.download import resolve
from hanlattice.files import shown
from hanlattice.pretrain.kinds import LARGEST_COUNT, Unit
from hanlattice.text.display import visible

if TYPE_CHECKING:
    from hanlattice.pretrain.vectors import Source
    from hanlattice.pretrain.word2vec import Settings


def vectors(
    files: Annotated[list[Path], typer.Argument(help="Raw text, one paragraph a line: plain, gz or xz.")],
    unit: Annotated[Unit, typer.Option(help="What gets a vector.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Writes OUT.vec, OUT.bin and OUT.json.")],
    lexicon: Annotated[
        str | None,
        typer.Option(help="Cut words by this dictionary; for subwords, the one that `pretrain subwords` wrote."),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Cut words by the segmentation model in this folder.")] = None,
    dim: Annotated[int, typer.Option(min=1, max=10_000, help="Numbers in a vector.")] = 100,
    window: Annotated[int, typer.Option(min=1, max=1000, help="How far to each side the context reaches.")] = 5,
    negative: Annotated[int, typer.Option(min=1, max=1000, help="Noise units drawn for each true one.")] = 5,
    min_count: Annotated[
        int, typer.Option(min=1, max=LARGEST_COUNT, help="A unit that comes up less often gets no vector.")
    ] = 5,
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="Passes over the text.")] = 5,
    sample: Annotated[
        float, typer.Option(min=0, max=0.999, help="Share above which a common unit is thinned out; 0: none is.")
    ] = 1e-3,
    cbow: Annotated[bool, typer.Option("--cbow", help="Context predicts unit; without it, skip-gram.")] = False,
    threads: Annotated[int, typer.Option(min=1, max=256, help="With 1, the seed decides every bit.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Where the random numbers begin.")] = 1,
    device: Annotated[str | None, typer.Option(help="Where --model runs: cpu, the default, or cuda.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after the last whole epoch of a stopped run.")
    ] = False,
) -> None:
    """Train vectors of characters, character bigrams, words or subwords from raw text with word2vec."""
    from hanlattice.pretrain.vectors import Source
    from hanlattice.pretrain.word2vec import Settings

    settings = Settings(unit, dim, window, negative, min_count, epochs, sample, cbow, seed)
    source = Source(tuple(files), resolve(lexicon) if lexicon else None, model, device)
    _train(source, out, settings, threads, resume)


def _train(source: Source, out: Path, settings: Settings, threads: int, resume: bool) -> None:
    from hanlattice.pretrain.outputs import Outputs
    from hanlattice.pretrain.vectors import SUFFIXES, train_vectors

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    stem = shown(Outputs(out, SUFFIXES).stem)
    try:
        with Meter(console, settings.epochs) as meter:
            record = train_vectors(source, out, settings, threads=threads, resume=resume, listen=meter)
    except KeyboardInterrupt:
        console.print("stopped; the same command with --resume goes on after the last whole epoch")
        raise
    memory = f", at most {record['peak_memory'] / 1e6:,.0f} MB" if record["peak_memory"] else ""
    console.print(f"{record['vectors']:,} vectors in {stem}.vec and {stem}.bin; {record['seconds']:,.0f} s{memory}")


class PassMeter(EventMeter):
    """For work that reads its text several times and reports `pass` events: how far it is, and the time left.

    Pass 0 has a bar of its own; the `epochs` after it, which cost more, have one together.
    """

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
            speed_estimate_period=120,
        )
        self.epochs = epochs
        self.tasks: dict[int, Any] = {}

    def _on_pass(self, event: dict[str, Any]) -> None:
        part, size = min(event["number"], 1), event["size"]
        if part not in self.tasks:
            total = size * (self.epochs if part else 1)
            self.tasks[part] = self.progress.add_task(self.names[part], total=total)
        self.progress.update(self.tasks[part], completed=max(0, event["number"] - 1) * size + event["done"])


class Meter(PassMeter):
    def _on_counted(self, event: dict[str, Any]) -> None:
        for notice in event["notices"]:
            self.console.print(f"note: {visible(notice)}")
        self.console.print(
            f"{event['units']:,} units, {event['types']:,} different, {event['vectors']:,} of them often enough"
        )
        if event["epoch"]:
            self.console.print(f"going on at epoch {event['epoch'] + 1}/{event['epochs']}")

    def _on_epoch(self, event: dict[str, Any]) -> None:
        self.console.print(f"epoch {event['epoch']}/{event['epochs']}: {event['rate']:,.0f} units/s")

    def _on_finished(self, event: dict[str, Any]) -> None:
        self.console.print("this run is finished already")
