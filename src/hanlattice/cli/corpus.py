"""`hanlattice corpus`: files of any size and number, tagged or cut into words, each line exactly once."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanlattice.cli.console import Address, Encoding, Engine, Engines, EventMeter, find_named, make_console
from hanlattice.cli.texts import (
    Decode,
    Device,
    Fast,
    Lexicons,
    ModelFolder,
    Out,
    Trust,
    check_trust,
    for_screen,
    write_results,
)
from hanlattice.errors import InputError
from hanlattice.text.display import counted, visible

if TYPE_CHECKING:
    from rich.console import Console

    from hanlattice.corpus.run import Engine as CorpusEngine
    from hanlattice.corpus.run import Summary
    from hanlattice.corpus.statistics import Tally

app = typer.Typer(
    help="Corpora of any size: tag them, cut them into words, count what was found.", no_args_is_help=True
)
EVERY = 60.0  # seconds between two lines of progress where there is no terminal
MB = 1_000_000


class InputFormat(StrEnum):
    txt = "txt"
    jsonl = "jsonl"
    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"


class Format(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


Corpus = Annotated[
    list[str], typer.Argument(help="Files, folders or patterns: txt, JSONL, CSV, TSV, also as gz, xz or zst; Parquet.")
]
OutFolder = Annotated[Path, typer.Option("--out", "-o", help="A folder for the outputs; the same one goes on.")]
Workers = Annotated[int, typer.Option("--workers", "-w", min=1, help="Processes.")]
MostWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers", "-w", min=1, help="Processes. [default: 1; with Ray, as many as the cluster has cores or GPUs]"
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", "-f", help="How to write the outputs.")]
GivenFormat = Annotated[
    InputFormat | None, typer.Option(help="The format of all inputs. [default: what their names say]")
]
Field = Annotated[str, typer.Option(help="The field, or column, that has the text.")]
Into = Annotated[str, typer.Option(help="The field, or column, that the outputs have beside those of the inputs.")]
ShardSize = Annotated[float, typer.Option(min=0.001, help="Megabytes of input for each output.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first line or file that cannot be read.")]
Scores = Annotated[bool, typer.Option(help="The probability of each span; without it, quicker.")]


@app.command()
def tag(
    inputs: Corpus,
    out: OutFolder,
    model: ModelFolder = "ner",
    workers: MostWorkers = None,
    engine: Engine = Engines.local,
    address: Address = "",
    format: OutputFormat = Format.jsonl,
    input_format: GivenFormat = None,
    encoding: Encoding = "auto",
    field: Field = "text",
    into: Into = "spans",
    scores: Scores = True,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out spans that are less probable than this.")
    ] = 0.0,
    decode: Decode = None,
    lexicon: Lexicons = None,
    trust: Trust = None,
    shard_size: ShardSize = 8,
    device: Device = "cpu",
    fast: Fast = False,
    strict: Strict = False,
) -> None:
    """Find the entities of a corpus: an output for each part of a file. The same command again goes on."""
    if math.isnan(min_score):  # older typers let it pass the limits above
        raise InputError("--min-score must be from 0 to 1, not nan")
    if min_score and not scores:
        raise InputError("--min-score needs scores: leave --no-scores out")
    check_trust(trust, lexicon)
    given: dict[str, Any] = {"lexicons": tuple(lexicon or ()), "trust": trust, "decode": decode, "min_score": min_score}
    given |= {"input_format": input_format and input_format.value, "encoding": encoding}
    given |= {"format": format.value, "field": field, "into": into}
    given |= {"scores": scores, "shard_size": _bytes(shard_size), "device": device, "fast": fast, "strict": strict}
    _run(inputs, out, _engine(engine, address, workers), model, given)


@app.command()
def segment(
    inputs: Corpus,
    out: OutFolder,
    model: ModelFolder = "seg",
    workers: MostWorkers = None,
    engine: Engine = Engines.local,
    address: Address = "",
    format: OutputFormat = Format.jsonl,
    input_format: GivenFormat = None,
    encoding: Encoding = "auto",
    field: Field = "text",
    into: Into = "spans",
    scores: Scores = True,
    lexicon: Lexicons = None,
    trust: Trust = None,
    shard_size: ShardSize = 8,
    device: Device = "cpu",
    fast: Fast = False,
    strict: Strict = False,
) -> None:
    """Cut a corpus into words: an output for each part of a file. The same command again goes on."""
    check_trust(trust, lexicon)
    given: dict[str, Any] = {"task": "segment", "lexicons": tuple(lexicon or ()), "trust": trust}
    given |= {"input_format": input_format and input_format.value, "encoding": encoding}
    given |= {"format": format.value, "field": field, "into": into}
    given |= {"scores": scores, "shard_size": _bytes(shard_size), "device": device, "fast": fast, "strict": strict}
    _run(inputs, out, _engine(engine, address, workers), model, given)


Folder = Annotated[Path, typer.Argument(help="A folder that `corpus tag` or `corpus segment` wrote.")]
Least = Annotated[int, typer.Option(min=1, help="Leave out what was found less often.")]


@app.command()
def count(
    folder: Folder,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Strings of each label that are shown.")] = 20,
    least: Least = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file for all strings, as JSONL.")] = None,
    workers: Workers = 1,
) -> None:
    """Count what was found by label: the most frequent strings, their mean probability, and examples."""
    from hanlattice.cli.console import show_tables
    from hanlattice.corpus.statistics import files_of, tables
    from hanlattice.data.jsonl import to_json
    from hanlattice.files import check_output, writing

    check_output(out, files_of(folder))
    tally = _count(folder, workers)
    found = tally.ranked(least)
    if out is not None:
        with writing(out) as file:
            file.writelines(to_json(row.as_dict()) + "\n" for row in found)
    show_tables(make_console(stderr=False), tables(tally, found, number))


@app.command()
def words(
    folder: Folder,
    model: ModelFolder = "seg",
    lexicon: Lexicons = None,
    least: Least = 5,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out words whose mean probability is lower.")
    ] = 0.0,
    out: Out = None,
    workers: Workers = 1,
) -> None:
    """New words: what the segmenter found often, and neither its lexicon nor --lexicon has.

    One a line, the likeliest first: word, count, mean probability, an example, with TABs between. --lexicon reads it.
    """
    from hanlattice.corpus.statistics import check_model, files_of, new_words
    from hanlattice.files import check_output
    from hanlattice.models import model_files
    from hanlattice.models.folder import load_model
    from hanlattice.text.lexicon import Lexicon

    model_folder = find_named(model)
    check_output(out, [*files_of(folder), *(lexicon or ()), *model_files(model_folder)])
    check_model(folder, model_folder)
    known = load_model(model_folder).indexer.lexicon or Lexicon()
    for path in lexicon or ():
        known.load(path)
    found = new_words(_count(folder, workers), known.__contains__, least, min_score)
    lines = (f"{row.text}\t{row.count}\t{_score(row.score)}\t{visible(row.examples[0])}\n" for row in found)
    write_results([], for_screen(lines, out), out)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:.4f}"


def _count(folder: Path, workers: int) -> Tally:
    from hanlattice.corpus.statistics import count as count_all

    with _Meter(make_console()) as meter:
        tally = count_all(folder, workers, meter)
        if tally.missed:
            text = f"there are more strings than are counted at a time: a count may be {tally.missed:,} too low"
            meter({"event": "notice", "text": text})
    return tally


def _bytes(megabytes: float) -> int:
    if not math.isfinite(megabytes):
        raise InputError(f"--shard-size must be a number of megabytes, not {megabytes}")
    return round(megabytes * MB)


def _engine(engine: Engines, address: str, workers: int | None) -> CorpusEngine:
    if engine == Engines.ray:
        from hanlattice.corpus.on_ray import on_ray

        return on_ray(address, workers)
    if address:
        raise InputError("--address is that of a Ray cluster: give --engine ray, too")
    from hanlattice.corpus.run import on_this_machine

    return on_this_machine(workers or 1)


def _run(inputs: list[str], out: Path, engine: CorpusEngine, model: str, given: dict[str, Any]) -> None:
    from hanlattice.corpus.run import raise_failures, run
    from hanlattice.corpus.settings import Settings

    settings, console = Settings(find_named(model), **given), make_console()
    with _Meter(console) as meter:
        summary = run(inputs, out, settings, engine=engine, listen=meter)
    _show(console, summary)
    raise_failures(summary, out)


def _show(console: Console, summary: Summary) -> None:
    broken = f", {summary.broken:,} of them broken and kept as they are" if summary.broken else ""
    rows = f"{counted(summary.rows, 'row')}{broken}"
    counts = f"{counted(summary.characters, 'character')}, {counted(summary.spans, 'span')}"
    console.print(f"{counted(summary.shards, 'shard')}, {summary.made:,} of them new: {rows}, {counts}")


class _Meter(EventMeter):
    """Shows the progress of a run: a bar on a terminal, elsewhere a line a minute. No thread: processes are forked."""

    stopped = "stopped; the same command goes on from here"

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, TextColumn

        super().__init__(console, BarColumn(), TextColumn("{task.description}"), auto_refresh=False)
        self.bar = self.progress.add_task("reading", total=None)
        self._last = time.monotonic()

    def _print(self, line: str) -> None:
        self.console.print(visible(line))

    def _on_notice(self, event: dict[str, Any]) -> None:
        self._print(f"note: {event['text']}")

    def _on_plan(self, event: dict[str, Any]) -> None:
        kept = f", {event['kept']:,} of them there already" if event["kept"] else ""
        self._print(f"{counted(event['shards'], 'shard')}{kept}; {event['bytes'] / MB:,.1f} MB to do")

    def _on_broken(self, event: dict[str, Any]) -> None:
        self._print(f"{event['path']}:{event['line']}: {event['error']}")

    def _on_died(self, event: dict[str, Any]) -> None:
        self._print(f"note: shard {event['task'] + 1}: {event['reason']}")

    def _on_failed(self, event: dict[str, Any]) -> None:
        self._print(f"failed: {event['reason']}")

    def _on_counted(self, event: dict[str, Any]) -> None:
        line = f"{event['shards']:,} of {event['of']:,} shards"
        self.progress.update(self.bar, total=event["of"], completed=event["shards"], description=line, refresh=True)

    def _on_progress(self, event: dict[str, Any]) -> None:
        left = "?" if event["remaining"] is None else str(timedelta(seconds=round(event["remaining"])))
        counts = (
            f"{event['shards']:,} of {event['of']:,} shards, {event['failed']:,} failed, {event['broken']:,} broken"
        )
        line = f"{event['rate']:,.0f} characters/s, {left} left; {counts}"
        self.progress.update(self.bar, total=event["total"], completed=event["bytes"], description=line, refresh=True)
        if not self.console.is_terminal and time.monotonic() - self._last > EVERY:
            self._last = time.monotonic()
            self._print(f"{event['bytes'] / max(1, event['total']):.1%}, {line}")
