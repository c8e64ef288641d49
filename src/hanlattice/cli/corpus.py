"""`hanlattice corpus`: tag or cut files of any size and number, each line exactly once."""

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

    from hanlattice.corpus.statistics import SpanTally

app = typer.Typer(
    help="Corpora of any size: tag them, cut them into words, count what was found.",
    no_args_is_help=True,
)
# Seconds between two lines of progress, where no terminal shows a bar
EVERY = 60.0
MB = 1_000_000

InputFormat = StrEnum("InputFormat", "txt jsonl csv tsv parquet")
CorpusFormat = StrEnum("CorpusFormat", "jsonl parquet")
WORKERS = "Number of processes."
Workers = Annotated[int, typer.Option("--workers", "-w", min=1, help=WORKERS)]


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(DictionaryOptions):
    """The options of `corpus tag` and `corpus segment`."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders or patterns: Parquet, txt, JSONL, CSV, TSV; plain, gz, xz or zst."
        ),
    ]
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Output folder. Run the same command again to resume."),
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
    format: Annotated[CorpusFormat, typer.Option("--format", "-f", help="Output format.")] = (
        CorpusFormat.jsonl
    )
    input_format: Annotated[
        InputFormat | None, typer.Option(help="Input format. Default: by each file's suffix.")
    ] = None
    encoding: Encoding = "auto"
    field: Annotated[str, typer.Option(help="Field or column that holds the text.")] = "text"
    into: Annotated[
        str, typer.Option(help="Field or column for the result. The input's fields are kept.")
    ] = "spans"
    scores: Annotated[
        bool, typer.Option(help="Write the probability of each span. `--no-scores` is faster.")
    ] = True
    shard_size: Annotated[
        float, typer.Option(min=0.001, help="Megabytes of input for each output file.")
    ] = 8
    device: Device = "cpu"
    fast: Fast = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line or file that cannot be read.")
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
Least = Annotated[int, typer.Option(min=1, help="Leave out strings that were found less often.")]


@app.command()
def count(
    folder: Folder,
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="Number of strings to show for each label.")
    ] = 20,
    least: Least = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file for all strings, as JSONL.")
    ] = None,
    workers: Workers = 1,
) -> None:
    """Count the strings that were found, and show the most frequent ones of each label.

    Each string comes with its mean probability and an example.
    """
    from hanlattice.cli.console import show_tables
    from hanlattice.corpus.statistics import files_of, tables
    from hanlattice.data.formats.jsonl import to_json
    from hanlattice.files import atomic_write, check_output

    check_output(out, files_of(folder))
    tally = _count(folder, workers)
    rows = tally.ranked(least)
    if out is not None:
        with atomic_write(out) as file:
            file.writelines(to_json(row.as_dict()) + "\n" for row in rows)
    show_tables(make_console(stderr=False), tables(tally, rows, number))


@app.command()
def words(
    folder: Folder,
    model: ModelFolder = "seg",
    lexicon: Lexicons = None,
    least: Least = 5,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out words with a lower mean probability.")
    ] = 0.0,
    out: Out = None,
    workers: Workers = 1,
) -> None:
    """List new words: the segmenter found them often, and no dictionary has them.

    Each line has a word, its count, its mean probability and an example, with TABs between them.
    The most probable words come first. `--lexicon` reads this list.
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
    lines = []
    for row in new_words(_count(folder, workers), known.__contains__, least, min_score):
        score = "" if row.score is None else f"{row.score:.4f}"
        lines.append(f"{row.text}\t{row.count}\t{score}\t{visible(row.examples[0])}\n")
    write_results(for_screen(lines, out), out)


def _count(folder: Path, workers: int) -> SpanTally:
    from hanlattice.corpus.statistics import count as count_all

    with CorpusMeter(make_console()) as meter:
        tally = count_all(folder, workers, meter)
        if tally.missed:
            meter.print(
                "note: there are more strings than are counted at a time: "
                f"a count may be {tally.missed:,} too low"
            )
    return tally


def _run(options: CorpusOptions, **task: Any) -> None:
    from hanlattice.corpus.run import on_this_machine, raise_failures, run
    from hanlattice.corpus.settings import CorpusSettings

    if options.engine == Engines.ray:
        from hanlattice.corpus.on_ray import on_ray

        engine = on_ray(options.address, options.workers)
    elif options.address:
        raise InputError("--address is the address of a Ray cluster: add --engine ray")
    else:
        engine = on_this_machine(options.workers or 1)
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
    with CorpusMeter(console) as meter:
        summary = run(options.inputs, options.out, settings, engine=engine, listen=meter)
    broken = f", {summary.broken:,} of them broken and kept as they are" if summary.broken else ""
    console.print(
        f"{counted(summary.shards, 'shard')}, {summary.made:,} of them new: "
        f"{counted(summary.rows, 'row')}{broken}, "
        f"{counted(summary.characters, 'character')}, {counted(summary.spans, 'span')}"
    )
    raise_failures(summary, options.out)


class CorpusMeter(EventMeter):
    """Show the progress of a run: a bar on a terminal, elsewhere a line a minute."""

    stopped = "stopped; the same command goes on from here"

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, TextColumn

        # Processes are forked during a run, so no thread may refresh the bar.
        super().__init__(console, BarColumn(), TextColumn("{task.description}"), auto_refresh=False)
        self.task = self.progress.add_task("reading", total=None)
        self._printed_at = time.monotonic()

    def __call__(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "notice":
                self.print(f"note: {event['text']}")
            case "plan":
                kept = f", {event['kept']:,} of them there already" if event["kept"] else ""
                todo = f"{event['bytes'] / MB:,.1f} MB to do"
                self.print(f"{counted(event['shards'], 'shard')}{kept}; {todo}")
            case "broken":
                self.print(f"{event['path']}:{event['line']}: {event['error']}")
            case "died":
                self.print(f"note: shard {event['task'] + 1}: {event['reason']}")
            case "failed":
                self.print(f"failed: {event['reason']}")
            case "counted":
                done = f"{event['shards']:,} of {event['of']:,} shards"
                self._move(event["shards"], event["of"], done)
            case "progress":
                left = "?"
                if event["remaining"] is not None:
                    left = str(timedelta(seconds=round(event["remaining"])))
                line = (
                    f"{event['rate']:,.0f} characters/s, {left} left; "
                    f"{event['shards']:,} of {event['of']:,} shards, "
                    f"{event['failed']:,} failed, {event['broken']:,} broken"
                )
                self._move(event["bytes"], event["total"], line)
                if not self.console.is_terminal and time.monotonic() - self._printed_at > EVERY:
                    self._printed_at = time.monotonic()
                    self.print(f"{event['bytes'] / max(1, event['total']):.1%}, {line}")

    def _move(self, done: int, total: int, text: str) -> None:
        self.progress.update(self.task, total=total, completed=done, description=text, refresh=True)
