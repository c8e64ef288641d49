"""`hanlattice lm`: score text with a language model, or sample text from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hanlattice.data.raw import RawText
from hanlattice.errors import InputError
from hanlattice.files import decode_lines
from hanlattice.text.normal import LONE_SURROGATE

if TYPE_CHECKING:
    from hanlattice.pretrain.lm.score import Bits

app = typer.Typer(help="Score text with a character language model, or let it write.", no_args_is_help=True)

_BLOCK = 1 << 20  # characters that are scored before anything more is read
_SHOWN = 500  # characters up to which each one is shown
_COLOURS = ((2.0, "green"), (6.0, "yellow"), (float("inf"), "red"))  # up to so many bits

Model = Annotated[Path, typer.Option("--model", "-m", help="The language model's folder.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Threads = Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves the choice to torch.")]


class Direction(StrEnum):
    forward = "forward"
    backward = "backward"


@app.command("score")
def score(
    model: Model,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts, or - for standard input.")] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="Raw text: plain, gz or xz. May be repeated.")
    ] = None,
    direction: Annotated[Direction | None, typer.Option(help="Without it, every direction in the folder.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line of text, and one for all of them at the end.")
    ] = False,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Bits a character and perplexity of all the text, and the surprise of each character.

    Every line is read by itself, and its end counts as a character.
    """
    from hanlattice.models.device import use_threads
    from hanlattice.models.language_model import load_language_model
    from hanlattice.pretrain.lm.score import mean_score, text_surprise

    lines = chain(_texts(texts or ()), RawText(file) if file else ())
    use_threads(threads)
    found = load_language_model(model, device, _directions(model, direction))
    bits, symbols = dict.fromkeys(found.directions, 0.0), 0
    for block in _blocks(lines):
        each = {name: text_surprise(found, name, block) for name in found.directions}
        symbols += sum(len(line) + 1 for line in block)
        for name, surprises in each.items():
            bits[name] += sum(float(surprise.sum(dtype="float64")) for surprise in surprises)
        if as_json:
            _write_lines(block, each)
        elif symbols <= _SHOWN:
            _show_lines(block, each)
    if not symbols:
        raise InputError("there is no text to score: give a text, --file FILE, or - for standard input")
    totals = {name: mean_score(total, symbols).as_dict() for name, total in bits.items()}
    if as_json:
        typer.echo(json.dumps({"total": totals}))
        return
    for name, total in totals.items():
        typer.echo(
            f"{name}: {total['bits']:.4f} bits a character, perplexity {total['perplexity']:.3f}, over "
            f"{total['symbols']:,} characters and line ends"
        )
    if symbols > _SHOWN:
        typer.echo("the text is long, so its characters are not shown; --json has them all", err=True)


@app.command("sample")
def sample(
    model: Model,
    prompt: Annotated[str, typer.Option(help="What the text begins with; backward: what it ends with.")] = "",
    length: Annotated[int, typer.Option(help="At most so many new characters.")] = 100,
    temperature: Annotated[float, typer.Option(help="Below 1 safer, above 1 wilder; 0 takes the most probable.")] = 0.8,
    top: Annotated[int, typer.Option(help="Choose among so many of the most probable characters; 0: among all.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same texts.")] = 1,
    count: Annotated[int, typer.Option("-n", help="How many texts.")] = 1,
    direction: Annotated[Direction, typer.Option(help="Which way the text is written.")] = Direction.forward,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Text sampled from the model, one paragraph a line. Digits are 0, which is how the model sees all of them."""
    from hanlattice.models.device import use_threads
    from hanlattice.models.language_model import load_language_model
    from hanlattice.pretrain.lm.score import Sampling
    from hanlattice.pretrain.lm.score import sample as write

    sampling = Sampling(length, temperature, top, seed)
    use_threads(threads)
    found = load_language_model(model, device, [direction.value])
    for text in write(found, LONE_SURROGATE.sub("\ufffd", prompt), sampling, count, direction.value):
        typer.echo(text)


def _texts(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        if text == "-":
            yield from (line for _, line in decode_lines(sys.stdin.buffer, "standard input"))
        else:
            yield from LONE_SURROGATE.sub("\ufffd", text).split("\n")  # an argument need not be UTF-8


def _directions(folder: Path, asked: Direction | None) -> list[str]:
    """The one asked for, or those in the folder; loading refuses a folder without any."""
    from hanlattice.models.language_model import DIRECTIONS, weights_file

    if asked is not None:
        return [asked.value]
    return [name for name in DIRECTIONS if (folder / weights_file(name)).exists()] or list(DIRECTIONS)


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
            block, size = [], 0
    if block:
        yield block


def _write_lines(texts: Sequence[str], each: dict[str, list[Bits]]) -> None:
    for at, text in enumerate(texts):
        record: dict[str, Any] = {"text": text}
        for name, surprises in each.items():
            *characters, end = (round(float(bits), 4) for bits in surprises[at])
            record[name] = {"bits": characters, "end": end}
        typer.echo(json.dumps(record, ensure_ascii=False))


def _show_lines(texts: Sequence[str], each: dict[str, list[Bits]]) -> None:
    for at, text in enumerate(texts):
        table = Table(title=escape(text), title_justify="left")
        for heading in ("", *each):
            table.add_column(heading, justify="right")
        found = {name: [_cell(bits) for bits in surprises[at].tolist()] for name, surprises in each.items()}
        if "backward" in found:
            table.add_row("beginning", *(cells[-1] if name == "backward" else "" for name, cells in found.items()))
        for place, character in enumerate(text):
            shows = character.isprintable() and not character.isspace()
            heading = escape(character) if shows else f"U+{ord(character):04X}"
            table.add_row(heading, *(cells[place] for cells in found.values()))
        if "forward" in found:
            table.add_row("end", *(cells[-1] if name == "forward" else "" for name, cells in found.items()))
        Console().print(table)


def _cell(bits: float) -> str:
    colour = next(colour for most, colour in _COLOURS if bits <= most)
    return f"[{colour}]{bits:.2f}[/]"
