"""`hanlattice corpus`: files of any size and number, tagged or cut into words, each line exactly
once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanlattice.cli.console import EventMeter, find_named, make_console
from hanlattice.cli.options import (
    Address,
    Decode,
    Device,
    DictionaryOptions,
    Encoding,
    Engine,
    Engines,
    Fast,
    Lexicons,
    MinScore,
    ModelFolder,
    Out,
    with_options,
)
from hanlattice.cli.texts import for_screen, write_results
from hanlattice.errors import InputError
from hanlattice.text.display import counted, visible

if TYPE_CHECKING:
    from rich.console import Console

    from hanlattice.corpus.run import Engine as CorpusEngine
    from hanlattice.corpus.run import Summary
    from hanlattice.corpus.statistics import SpanTally

app = typer.Typer(
    help="Corpora of any size: tag them, cut them into words, count what was found.",
    no_args_is_help=True,
)
EVERY = 60.0  # seconds between two lines of progress where there is no terminal
MB = 1_000_000


class InputFormat(StrEnum):
    txt = "txt"
    jsonl = "jsonl"
    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"


class CorpusFormat(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


WORKERS = "Number of processes."
Workers = Annotated[int, typer.Option("--workers", "-w", min=1, help=WORKERS)]


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(DictionaryOptions):
    """The options of `corpus tag` and `corpus segment`."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders or patterns: Parquet, txt, JSONL, CSV, TSV; plain, gz, xz or zst.",
        ),
    ]
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Output folder. Run the same command again to resume.",
        ),
    ]
    model: ModelFolder = "ner"
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-w",
            min=1,
            help=f"{WORKERS} Default: 1, or every core or GPU of a Ray cluster.",
        ),
    ] = None
    engine: Engine = Engines.local
    address: Address = ""
    format: Annotated[
        CorpusFormat,
        typer.Option("--format", "-f", help="Output format."),
    ] = CorpusFormat.jsonl
    input_format: Annotated[
        InputFormat | None,
        typer.Option(help="Format of all inputs. Default: decided by each file's suffix."),
    ] = None
    encoding: Encoding = "auto"
    field: Annotated[
        str,
        typer.Option(help="Field or column that holds the text."),
    ] = "text"
    into: Annotated[
        str,
        typer.Option(help="Field or column for the result, beside those of the input."),
    ] = "spans"
    scores: Annotated[
        bool,
        typer.Option(help="Write the probability of each span. `--no-scores` is faster."),
    ] = True
    shard_size: Annotated[
        float,
        typer.Option(min=0.001, help="Megabytes of input for each output file."),
    ] = 8
    device: Device = "cpu"
    fast: Fast = False
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Stop at the first line or file that cannot be read."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class CorpusSegmentOptions(CorpusOptions):
    """The options of `corpus segment`."""

    model: ModelFolder = "seg"


@app.command()
@with_options
def tag(options: CorpusOptions, min_score: MinScore = 0.0, decode: Decode = None) -> None:
    """Find named entities in files of any size and number. Run the same command again to resume."""
    if min_score and not options.scores:
        raise InputError("--min-score needs scores: leave --no-scores out")
    _run(options, min_score=min_score, decode=decode)


@app.command()
@with_options
def segment(options: CorpusSegmentOptions) -> None:
    """Cut files of any size and number into words. Run the same command again to resume."""
    _run(options, task="segment")


Folder = Annotated[Path, typer.Argument(help="Output folder of `corpus tag` or `corpus segment`.")]
Least = Annotated[int, typer.Option(min=1, help="Leave out what was found less often.")]


@app.command()
def count(
    folder: Folder,
    number: Annotated[
        int,
        typer.Option("--number", "-n", min=1, help="Number of strings to show for each label."),
    ] = 20,
    least: Least = 1,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output file for all strings, as JSONL."),
    ] = None,
    workers: Workers = 1,
) -> None:
    """Count what was found by label: the most frequent strings, their mean probability, and
    examples.
    """
    from hanlattice.cli.console import show_tables
    from hanlattice.corpus.statistics import files_of, tables
    from hanlattice.data.formats.jsonl import to_json
    from hanlattice.files import atomic_write, check_output

    check_output(out, files_of(folder))
    tally = _count(folder, workers)
    found = tally.ranked(least)
    if out is not None:
        with atomic_write(out) as file:
            file.writelines(to_json(row.as_dict()) + "\n" for row in found)
    show_tables(make_console(stderr=False), tables(tally, found, number))


@app.command()
def words(
    folder: Folder,
    model: ModelFolder = "seg",
    lexicon: Lexicons = None,
    least: Least = 5,
    min_score: Annotated[
        float,
        typer.Option(min=0, max=1, help="Leave out words with a lower mean probability."),
    ] = 0.0,
    out: Out = None,
    workers: Workers = 1,
) -> None:
    """New words: what the segmenter found often, and neither its lexicon nor --lexicon has.

    One a line, the likeliest first: word, count, mean probability, an example, with TABs between.
    --lexicon reads it.
    """
    from hanlattice.checkpoint import model_files
    from hanlattice.checkpoint.load import load_model
    from hanlattice.corpus.statistics import check_model, files_of, new_words
    from hanlattice.files import check_output
    from hanlattice.text.lexicon import Lexicon

    model_folder = find_named(model)
    check_output(out, [*files_of(folder), *(lexicon or ()), *model_files(model_folder)])
    check_model(folder, model_folder)
    known = load_model(model_folder).indexer.lexicon or Lexicon()
    for path in lexicon or ():
        known.load(path)
    found = new_words(_count(folder, workers), known.__contains__, least, min_score)
    lines = (
        f"{row.text}\t{row.count}\t{_score(row.score)}\t{visible(row.examples[0])}\n"
        for row in found
    )
    write_results(for_screen(lines, out), out)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"


def _count(folder: Path, workers: int) -> SpanTally:
    from hanlattice.corpus.statistics import count as count_all

    with _Meter(make_console()) as meter:
        tally = count_all(folder, workers, meter)
        if tally.missed:
            text = f"there are more strings than are counted at a time: a count may be {tally.missed:,} too low"
            meter({"event": "notice", "text": text})
    return tally


def _engine(options: CorpusOptions) -> CorpusEngine:
    if options.engine == Engines.ray:
        from hanlattice.corpus.on_ray import on_ray

        return on_ray(options.address, options.workers)
    if options.address:
        raise InputError("--address is that of a Ray cluster: give --engine ray, too")
    from hanlattice.corpus.run import on_this_machine

    return on_this_machine(options.workers or 1)


def _run(options: CorpusOptions, **task: Any) -> None:
    from hanlattice.corpus.run import raise_failures, run
    from hanlattice.corpus.settings import CorpusSettings

    engine = _engine(options)
    settings = CorpusSettings(
        find_named(options.model),
        lexicons=tuple(options.lexicon or ()),
        trust=options.trust,
        scores=options.scores,
        device=options.device,
        fast=options.fast,
        encoding=options.encoding,
        input_format=options.input_format and options.input_format.value,
        format=options.format.value,
        field=options.field,
        into=options.into,
        shard_size=round(options.shard_size * MB),
        strict=options.strict,
        **task,
    )
    console = make_console()
    with _Meter(console) as meter:
        summary = run(options.inputs, options.out, settings, engine=engine, listen=meter)
    _show(console, summary)
    raise_failures(summary, options.out)


def _show(console: Console, summary: Summary) -> None:
    broken = f", {summary.broken:,} of them broken and kept as they are" if summary.broken else ""
    rows = f"{counted(summary.rows, 'row')}{broken}"
    counts = f"{counted(summary.characters, 'character')}, {counted(summary.spans, 'span')}"
    console.print(
        f"{counted(summary.shards, 'shard')}, {summary.made:,} of them new: {rows}, {counts}"
    )


class _Meter(EventMeter):
    """Shows the progress of a run: a bar on a terminal, elsewhere a line a minute. No thread:
    processes are forked.
    """

    stopped = "stopped; the same command goes on from here"

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, TextColumn

        super().__init__(console, BarColumn(), TextColumn("{task.description}"), auto_refresh=False)
        self.threshold = self.progress.add_task("reading", total=None)
        self._last = time.monotonic()

    def _print(self, line: str) -> None:
        self.console.print(visible(line))

    def _on_notice(self, event: dict[str, Any]) -> None:
        self._print(f"note: {event['text']}")

    def _on_plan(self, event: dict[str, Any]) -> None:
        kept = f", {event['kept']:,} of them there already" if event["kept"] else ""
        self._print(
            f"{counted(event['shards'], 'shard')}{kept}; {event['bytes'] / MB:,.1f} MB to do"
        )

    def _on_broken(self, event: dict[str, Any]) -> None:
        self._print(f"{event['path']}:{event['line']}: {event['error']}")

    def _on_died(self, event: dict[str, Any]) -> None:
        self._print(f"note: shard {event['task'] + 1}: {event['reason']}")

    def _on_failed(self, event: dict[str, Any]) -> None:
        self._print(f"failed: {event['reason']}")

    def _on_counted(self, event: dict[str, Any]) -> None:
        line = f"{event['shards']:,} of {event['of']:,} shards"
        self.progress.update(
            self.threshold,
            total=event["of"],
            completed=event["shards"],
            description=line,
            refresh=True,
        )

    def _on_progress(self, event: dict[str, Any]) -> None:
        left = (
            "?" if event["remaining"] is None else str(timedelta(seconds=round(event["remaining"])))
        )
        counts = f"{event['shards']:,} of {event['of']:,} shards, {event['failed']:,} failed, {event['broken']:,} broken"
        line = f"{event['rate']:,.0f} characters/s, {left} left; {counts}"
        self.progress.update(
            self.threshold,
            total=event["total"],
            completed=event["bytes"],
            description=line,
            refresh=True,
        )
        if not self.console.is_terminal and time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            self._print(f"{event['bytes'] / max(1, event['total']):.1%}, {line}")
