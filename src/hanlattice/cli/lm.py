"""`hanlattice lm`: score text with a language model, or sample text from it."""

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

app = typer.Typer(help="Score text with a language model, or let it write.", no_args_is_help=True)

_BLOCK = 1 << 20  # characters that are scored before anything more is read
_SHOWN = 500  # symbols up to which each one is shown
_COLOURS = ((2.0, "green"), (6.0, "yellow"), (float("inf"), "red"))  # up to so many bits

Model = Annotated[Path, typer.Option("--model", "-m", help="The language model's folder.")]
Threads = Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves the choice to torch.")]


class DirectionOption(StrEnum):
    forward = "forward"
    backward = "backward"


@app.command("score")
def score(
    model: Model,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts, or - for standard input.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Raw text: plain, gz or xz. May be repeated."),
    ] = None,
    encoding: Encoding = "auto",
    direction: Annotated[
        DirectionOption | None, typer.Option(help="Without it, every direction in the folder.")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object a line of text, and one for all of them at the end."
        ),
    ] = False,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Bits and perplexity of all the text, and the surprise of each character or word.

    Every line is read by itself, and its end counts as one.
    """
    from hanlattice.checkpoint.language_model import load_language_model
    from hanlattice.inference.device import use_threads
    from hanlattice.lab.pretrain.lm.score import figures, line_surprise, mean_score, text_cutter
    from hanlattice.lab.pretrain.lm.text import text_lines

    lines = chain(_texts(texts or ()), RawText(file) if file else ())
    use_threads(threads)
    found = load_language_model(model, device, _directions(model, direction))
    cut = text_cutter(found, device)
    bits = dict.fromkeys(found.directions, 0.0)
    counts = list[Any]()
    for block in _blocks(lines):
        pieces = cut(block)
        read = text_lines(found, pieces)
        each = {name: line_surprise(found, name, read) for name in found.directions}
        counts = [sum(pair) for pair in zip_longest(counts, figures(read), fillvalue=0)]
        for name, surprises in each.items():
            bits[name] += sum(float(surprise.sum(dtype="float64")) for surprise in surprises)
        if as_json:
            _write_lines(block, pieces, each)
        elif counts[0] <= _SHOWN:
            _show_lines(block, pieces, each)
    if not counts:
        raise InputError(
            "there is no text to score: give a text, --file FILE, or - for standard input"
        )
    totals = {name: mean_score(total, *counts).as_dict() for name, total in bits.items()}
    if as_json:
        typer.echo(to_json({"total": totals}))
        return
    unit = "character" if found.cutter is None else "word"
    for name, total in totals.items():
        typer.echo(
            f"{name}: {total['bits']:.4f} bits a {unit}, perplexity {total['perplexity']:.3f}, over "
            f"{total['symbols']:,} {unit}s and line ends{by_character(total)}"
        )
    if counts[0] > _SHOWN:
        typer.echo(f"the text is long, so its {unit}s are not shown; --json has them all", err=True)


def by_character(found: Mapping[str, Any]) -> str:
    """What a score of words says of characters, to compare it with a model of those; nothing of
    other scores.
    """
    if "unknown" not in found:
        return ""
    return (
        f"; {found['bits_a_character']:.4f} bits a character, perplexity {found['perplexity_of_a_character']:.3f}, "
        f"over {found['characters']:,} characters and line ends; "
        f"unknown words, which are spelt for that: {found['unknown']:,}"
    )


@app.command("sample")
def sample(
    model: Model,
    prompt: Annotated[
        str, typer.Option(help="What the text begins with; backward: what it ends with.")
    ] = "",
    length: Annotated[int, typer.Option(help="At most so many new characters or words.")] = 100,
    temperature: Annotated[
        float, typer.Option(help="Below 1 safer, above 1 wilder; 0 takes the most probable.")
    ] = 0.8,
    top: Annotated[
        int,
        typer.Option(
            help="Choose among so many of the most probable characters or words; 0: among all."
        ),
    ] = 0,
    seed: Seed = 1,
    count: Annotated[int, typer.Option("-n", help="How many texts.")] = 1,
    direction: Annotated[
        DirectionOption, typer.Option(help="Which way the text is written.")
    ] = DirectionOption.forward,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Text sampled from the model, one paragraph a line. To a model of characters all digits are 0."""
    from hanlattice.checkpoint.language_model import load_language_model
    from hanlattice.inference.device import use_threads
    from hanlattice.lab.pretrain.lm.score import Sampling
    from hanlattice.lab.pretrain.lm.score import sample as write

    sampling = Sampling(length, temperature, top, seed)
    use_threads(threads)
    found = load_language_model(model, device, [direction.value])
    for text in write(
        found, LONE_SURROGATE.sub("\ufffd", prompt), sampling, count, direction.value
    ):
        typer.echo(text)


def _texts(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        if text == "-":
            yield from (line for _, line in decode_lines(sys.stdin.buffer, "standard input"))
        else:
            yield from LONE_SURROGATE.sub("\ufffd", text).split(
                "\n"
            )  # an argument need not be UTF-8


def _directions(folder: Path, asked: DirectionOption | None) -> list[str]:
    """The one asked for, or those in the folder; loading refuses a folder without any."""
    from hanlattice.checkpoint.language_model import DIRECTIONS, weights_file

    if asked is not None:
        return [asked.value]
    return [name for name in DIRECTIONS if (folder / weights_file(name)).exists()] or list(
        DIRECTIONS
    )


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines that are not blank, some at a time."""
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
    texts: Sequence[str], pieces: Sequence[Sequence[str]], each: dict[str, list[Bits]]
) -> None:
    for at, (text, symbols) in enumerate(zip(texts, pieces, strict=True)):
        record: dict[str, Any] = {"text": text} | ({} if symbols is text else {"words": symbols})
        for name, surprises in each.items():
            *inside, end = (round(float(bits), 4) for bits in surprises[at])
            record[name] = {"bits": inside, "end": end}
        typer.echo(to_json(record))


def _show_lines(
    texts: Sequence[str], pieces: Sequence[Sequence[str]], each: dict[str, list[Bits]]
) -> None:
    for at, (text, symbols) in enumerate(zip(texts, pieces, strict=True)):
        table = Table(title=escape(text), title_justify="left")
        for heading in ("", *each):
            table.add_column(heading, justify="right")
        found = {
            name: [_cell(bits) for bits in surprises[at].tolist()]
            for name, surprises in each.items()
        }
        if "backward" in found:
            table.add_row(
                "beginning",
                *(cells[-1] if name == "backward" else "" for name, cells in found.items()),
            )
        for place, symbol in enumerate(symbols):
            shows = symbol.isprintable() and not symbol.isspace()
            heading = (
                escape(symbol)
                if shows
                else " ".join(f"U+{ord(character):04X}" for character in symbol)
            )
            table.add_row(heading, *(cells[place] for cells in found.values()))
        if "forward" in found:
            table.add_row(
                "end", *(cells[-1] if name == "forward" else "" for name, cells in found.items())
            )
        Console().print(table)


def _cell(bits: float) -> str:
    colour = next(colour for most, colour in _COLOURS if bits <= most)
    return f"[{colour}]{bits:.2f}[/]"
