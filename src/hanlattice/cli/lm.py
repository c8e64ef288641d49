"""`hanlattice lm`: score text with a language model, or generate text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hanlattice.cli.options import Device, Encoding, Seed
from hanlattice.data.formats.jsonl import to_json
from hanlattice.data.formats.raw import RawText
from hanlattice.errors import InputError
from hanlattice.files import decode_lines
from hanlattice.text.normalize import LONE_SURROGATE

if TYPE_CHECKING:
    from hanlattice.lab.pretrain.lm.score import Bits

app = typer.Typer(help="Score text with a language model, or generate text.", no_args_is_help=True)

# Characters that are scored before more text is read
_BLOCK = 1 << 20
# Longer texts are shown without the bits of each symbol.
_SHOWN = 500
# The most bits of a symbol that is shown in a colour
_COLOURS = ((2.0, "green"), (6.0, "yellow"), (float("inf"), "red"))

Model = Annotated[Path, typer.Option("--model", "-m", help="Folder of the language model.")]
Threads = Annotated[int, typer.Option(min=0, help="CPU threads. With 0, torch chooses.")]

DirectionOption = StrEnum("DirectionOption", "forward backward")


@app.command("score")
def score(
    model: Model,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts, or `-` for standard input.")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Raw text: plain, gz, xz. Repeatable.")
    ] = None,
    encoding: Encoding = "auto",
    direction: Annotated[
        DirectionOption | None, typer.Option(help="Reading direction. Default: all that exist.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: an object for each line, then the totals.")
    ] = False,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Show how well a model predicts text: bits and perplexity, and the bits of each symbol.

    A symbol is a character or a word, as the model reads them. Each line is scored without the
    lines before it, and its end counts as one symbol.
    """
    from hanlattice.checkpoint.language_model import load_language_model
    from hanlattice.inference.device import use_threads
    from hanlattice.lab.pretrain.lm.score import figures, line_surprise, mean_score, text_cutter
    from hanlattice.lab.pretrain.lm.text import text_lines

    lines = chain(_texts(texts or ()), RawText(file) if file else ())
    use_threads(threads)
    loaded = load_language_model(model, device, _directions(model, direction))
    cut = text_cutter(loaded, device)
    bits = dict.fromkeys(loaded.directions, 0.0)
    counts = list[Any]()
    for block in _blocks(lines):
        symbols = cut(block)
        read = text_lines(loaded, symbols)
        surprises = {name: line_surprise(loaded, name, read) for name in loaded.directions}
        counts = [sum(pair) for pair in zip_longest(counts, figures(read), fillvalue=0)]
        for name, line_bits in surprises.items():
            bits[name] += sum(float(line.sum(dtype="float64")) for line in line_bits)
        if as_json:
            _write_lines(block, symbols, surprises)
        elif counts[0] <= _SHOWN:
            _show_lines(block, symbols, surprises)
    if not counts:
        raise InputError(
            "there is no text to score: give a text, --file FILE, or - for standard input"
        )
    totals = {name: mean_score(total, *counts).as_dict() for name, total in bits.items()}
    if as_json:
        typer.echo(to_json({"total": totals}))
        return
    unit = "character" if loaded.cutter is None else "word"
    for name, total in totals.items():
        typer.echo(
            f"{name}: {total['bits']:.4f} bits a {unit}, "
            f"perplexity {total['perplexity']:.3f}, "
            f"over {total['symbols']:,} {unit}s and line ends{by_character(total)}"
        )
    if counts[0] > _SHOWN:
        typer.echo(f"the text is long, so its {unit}s are not shown; --json has them all", err=True)


def by_character(score: Mapping[str, Any]) -> str:
    """Return the score of a word model by character, to compare it with a character model.

    Other scores give an empty string.
    """
    if "unknown" not in score:
        return ""
    return (
        f"; {score['bits_a_character']:.4f} bits a character, "
        f"perplexity {score['perplexity_of_a_character']:.3f}, "
        f"over {score['characters']:,} characters and line ends; "
        f"unknown words, which are spelt for that: {score['unknown']:,}"
    )


@app.command("sample")
def sample(
    model: Model,
    prompt: Annotated[
        str, typer.Option(help="Start of the text; with `--direction backward`, its end.")
    ] = "",
    length: Annotated[int, typer.Option(help="Most new characters or words.")] = 100,
    temperature: Annotated[
        float, typer.Option(help="Higher is more varied. 0 takes the most probable symbol.")
    ] = 0.8,
    top: Annotated[
        int, typer.Option(help="Choose among this many of the most probable symbols. 0 uses all.")
    ] = 0,
    seed: Seed = 1,
    count: Annotated[int, typer.Option("-n", help="Number of texts.")] = 1,
    direction: Annotated[
        DirectionOption, typer.Option(help="Direction in which the text is written.")
    ] = DirectionOption.forward,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Generate text with a model, one paragraph a line.

    A character model writes every digit as 0.
    """
    from hanlattice.checkpoint.language_model import load_language_model
    from hanlattice.inference.device import use_threads
    from hanlattice.lab.pretrain.lm.score import Sampling
    from hanlattice.lab.pretrain.lm.score import sample as write

    sampling = Sampling(length, temperature, top, seed)
    use_threads(threads)
    loaded = load_language_model(model, device, [direction.value])
    prompt = LONE_SURROGATE.sub("\ufffd", prompt)
    for text in write(loaded, prompt, sampling, count, direction.value):
        typer.echo(text)


def _texts(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        if text == "-":
            yield from (line for _, line in decode_lines(sys.stdin.buffer, "standard input"))
        else:
            # Bytes of an argument that are not UTF-8 arrive as lone surrogates.
            yield from LONE_SURROGATE.sub("\ufffd", text).split("\n")


def _directions(folder: Path, asked: DirectionOption | None) -> list[str]:
    """Return the direction asked for, or the directions that the folder has."""
    from hanlattice.checkpoint.language_model import DIRECTIONS, weights_file

    if asked is not None:
        return [asked.value]
    # Loading reports a folder without any direction.
    names = [name for name in DIRECTIONS if (folder / weights_file(name)).exists()]
    return names or list(DIRECTIONS)


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of lines that are not blank."""
    block: list[str] = []
    size = 0
    for line in lines:
        if line and not line.isspace():
            block.append(line)
            size += len(line)
        if size >= _BLOCK:
            yield block
            block = []
            size = 0
    if block:
        yield block


def _write_lines(
    texts: Sequence[str], symbols: Sequence[Sequence[str]], surprises: dict[str, list[Bits]]
) -> None:
    for index, (text, pieces) in enumerate(zip(texts, symbols, strict=True)):
        record: dict[str, Any] = {"text": text} | ({} if pieces is text else {"words": pieces})
        for name, line_bits in surprises.items():
            *inside, end = (round(float(bits), 4) for bits in line_bits[index])
            record[name] = {"bits": inside, "end": end}
        typer.echo(to_json(record))


def _show_lines(
    texts: Sequence[str], symbols: Sequence[Sequence[str]], surprises: dict[str, list[Bits]]
) -> None:
    """Print a table for each text: a row for each symbol, a column for each direction."""
    for index, (text, pieces) in enumerate(zip(texts, symbols, strict=True)):
        table = Table(title=escape(text), title_justify="left")
        table.add_column("", justify="right")
        columns: dict[str, list[str]] = {}
        for name, line_bits in surprises.items():
            table.add_column(name, justify="right")
            cells = columns[name] = []
            for bits in line_bits[index].tolist():
                colour = next(colour for most, colour in _COLOURS if bits <= most)
                cells.append(f"[{colour}]{bits:.2f}[/]")
        # The last cell of a direction is the end of the line, as this direction reads it.
        if "backward" in columns:
            ends = (cells[-1] if name == "backward" else "" for name, cells in columns.items())
            table.add_row("beginning", *ends)
        for place, symbol in enumerate(pieces):
            shows = symbol.isprintable() and not symbol.isspace()
            codes = " ".join(f"U+{ord(character):04X}" for character in symbol)
            heading = escape(symbol) if shows else codes
            table.add_row(heading, *(cells[place] for cells in columns.values()))
        if "forward" in columns:
            ends = (cells[-1] if name == "forward" else "" for name, cells in columns.items())
            table.add_row("end", *ends)
        Console().print(table)
