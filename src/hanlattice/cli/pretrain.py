"""`hanlattice pretrain`: vectors, subwords and language models from raw text, with progress and
time left.
"""

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
from hanlattice.text.display import visible

app = typer.Typer(help="Vectors, subwords and language models from raw text.", no_args_is_help=True)


@app.command("vectors")
def vectors(
    files: RawFiles,
    unit: Annotated[Unit, typer.Option(help="What gets a vector.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Writes OUT.vec, OUT.bin and OUT.json.")],
    lexicon: Annotated[
        str | None,
        typer.Option(
            help="Cut words by this dictionary; for subwords, the one that `pretrain subwords` wrote."
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Cut words by the segmentation model in this folder.")
    ] = None,
    dim: Annotated[int, typer.Option(min=1, max=10_000, help="Numbers in a vector.")] = 100,
    window: Annotated[
        int, typer.Option(min=1, max=1000, help="Size of the context on each side.")
    ] = 5,
    negative: Annotated[
        int, typer.Option(min=1, max=1000, help="Noise units drawn for each true one.")
    ] = 5,
    min_count: Annotated[
        int,
        typer.Option(
            min=1, max=LARGEST_COUNT, help="A unit that occurs less often gets no vector."
        ),
    ] = 5,
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="Passes over the text.")] = 5,
    sample: Annotated[
        float,
        typer.Option(
            min=0, max=0.999, help="Units with a larger share of the text are subsampled; 0: none."
        ),
    ] = 1e-3,
    cbow: Annotated[
        bool, typer.Option("--cbow", help="Context predicts unit; without it, skip-gram.")
    ] = False,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="With 1, the result is the same bit for bit.")
    ] = 1,
    seed: Seed = 1,
    encoding: Encoding = "auto",
    device: Annotated[
        str | None, typer.Option(help="Where --model runs: cpu, the default, or cuda.")
    ] = None,
    resume: Resume = False,
) -> None:
    """Train vectors of characters, character bigrams, words or subwords from raw text with
    word2vec.
    """
    from hanlattice.lab.pretrain.vectors import SUFFIXES as VECTOR_SUFFIXES
    from hanlattice.lab.pretrain.vectors import VectorSettings, VectorSource, train_vectors

    settings = VectorSettings(unit, dim, window, negative, min_count, epochs, sample, cbow, seed)
    source = VectorSource(tuple(files), resolve(lexicon) if lexicon else None, model, device)
    stem = printable_path(Outputs(out, VECTOR_SUFFIXES).stem)
    with VectorMeter(make_console(), settings.epochs) as meter:
        record = train_vectors(source, out, settings, threads=threads, resume=resume, listen=meter)
    meter.console.print(
        f"{record['vectors']:,} vectors in {stem}.vec and {stem}.bin; {_cost(record)}"
    )


@app.command("subwords")
def subwords(
    files: RawFiles,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Writes OUT.txt (the lexicon), OUT.bpe.json and OUT.json."
        ),
    ],
    size: Annotated[
        int, typer.Option(min=1, max=MOST_PIECES, help="Most pieces of two characters or more.")
    ] = 20_000,
    longest: Annotated[
        int, typer.Option(min=2, max=LONGEST_PIECE, help="Most characters in a piece.")
    ] = 4,
    min_count: Annotated[
        int, typer.Option(min=1, max=LARGEST_COUNT, help="How often a merged pair must occur.")
    ] = 5,
    encoding: Encoding = "auto",
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Use all cores; the result is the same.")
    ] = False,
) -> None:
    """Make a lexicon of subwords by byte-pair encoding over characters, with the frequency of each."""
    settings = SubwordSettings(size, longest, min_count)
    lexicon = printable_path(Outputs(out, SUFFIXES)[".txt"])
    with SubwordMeter(make_console(), 2) as meter:
        record = train_subwords(tuple(files), out, settings, parallel=parallel, listen=meter)
    meter.console.print(
        f"{record['pieces']:,} pieces in {lexicon} ({record['unused']:,} merges that no text uses are left out); "
        f"{_cost(record)}"
    )


app.command("lm")(pretrain_lm)


def _cost(record: dict[str, Any]) -> str:
    memory = f", at most {record['peak_memory'] / 1e6:,.0f} MB" if record["peak_memory"] else ""
    return f"{record['seconds']:,.0f} s{memory}"


class PassMeter(EventMeter):
    """For `pass` events: pass 0 has a bar of its own, the `epochs` after it, which cost more, share
    one.
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
        part = min(event["number"], 1)
        size = event["size"]
        if part not in self.tasks:
            total = size * (self.epochs if part else 1)
            self.tasks[part] = self.progress.add_task(self.names[part], total=total)
        self.progress.update(
            self.tasks[part], completed=max(0, event["number"] - 1) * size + event["done"]
        )


class VectorMeter(PassMeter):
    stopped = "stopped; the same command with --resume goes on after the last whole epoch"

    def _on_counted(self, event: dict[str, Any]) -> None:
        for notice in event["notices"]:
            self.console.print(f"note: {visible(notice)}")
        self.console.print(
            f"{event['units']:,} units, {event['types']:,} different, {event['vectors']:,} of them often enough"
        )
        if event["epoch"]:
            self.console.print(f"going on at epoch {event['epoch'] + 1}/{event['epochs']}")

    def _on_epoch(self, event: dict[str, Any]) -> None:
        self.console.print(
            f"epoch {event['epoch']}/{event['epochs']}: {event['rate']:,.0f} units/s"
        )

    def _on_finished(self, event: dict[str, Any]) -> None:
        self.console.print("this run is finished already")


class SubwordMeter(PassMeter):
    """The second bar is for reading and for counting the pieces; between the two, pairs are merged
    without events.
    """

    names = ("characters", "pieces")

    def _on_merging(self, event: dict[str, Any]) -> None:
        self.progress.update(self.tasks[1], description="merging")

    def _on_pass(self, event: dict[str, Any]) -> None:
        super()._on_pass(event)
        if event["number"] == 2:
            self.progress.update(self.tasks[1], description="frequencies")
