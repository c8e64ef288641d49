"""`hanlattice explain`: which words of the lexicon a text has, what changes without each, and their
shares.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from hanlattice.cli.options import Decode, TextOptions, with_options
from hanlattice.cli.texts import add_words, begin, write_results
from hanlattice.data.formats.jsonl import to_json
from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.explain import Explanation

_PIPE = 100  # columns of a file, and of a pipe where COLUMNS does not say how many


class ExplainFormat(StrEnum):
    terminal = "terminal"
    json = "json"
    svg = "svg"
    html = "html"


@with_options
def explain(
    options: TextOptions,
    format: Annotated[
        ExplainFormat,
        typer.Option("--format", "-f", help="Output format."),
    ] = ExplainFormat.terminal,
    decode: Decode = None,
    shares: Annotated[
        bool,
        typer.Option(
            "--shares",
            help="Show the weight of each word in the LSTM cells, not what changes without it.",
        ),
    ] = False,
    layer: Annotated[
        int,
        typer.Option(min=1, help="Layer whose weights are drawn. The lowest layer is 1."),
    ] = 1,
    without: Annotated[
        bool,
        typer.Option("--without", help="With `--shares`: also show what changes."),
    ] = False,
) -> None:
    """Show why: remove each dictionary word in turn, and show what changes."""
    from hanlattice.explain.drawing import choose_layer
    from hanlattice.inference.device import use_threads
    from hanlattice.predict import PAUSE, load

    texts, folder = begin(options)
    use_threads(1)
    tagger = load(folder, options.device, decode=decode)
    add_words(tagger, options)
    # A missing layer is reported before any text is read.
    choose_layer(tagger.explain(""), layer)
    view = "shares" if shares else None
    changes = without or not shares
    explanations = (tagger.explain(text, changes) for text in texts if text is not PAUSE)
    results = _written(explanations, format, layer, view, options.out is None)
    if format is ExplainFormat.json:
        results = texts.placed(results)
    write_results(results, options.out, texts)


def _written(
    explanations: Iterator[Explanation],
    format: ExplainFormat,
    layer: int,
    view: str | None,
    to_screen: bool,
) -> Iterable[str]:
    if format is ExplainFormat.json:
        return (to_json(explanation.to_dict()) + "\n" for explanation in explanations)
    if format is ExplainFormat.svg:
        return _svg(explanations, layer, view)
    if format is ExplainFormat.html:
        from hanlattice.explain.html import page

        return page(explanations, layer, view=view)
    return _terminal(explanations, layer, view, to_screen)


def _svg(explanations: Iterator[Explanation], layer: int, view: str | None) -> list[str]:
    from hanlattice.explain.svg import picture

    first = list(islice(explanations, 2))
    if len(first) != 1:
        many = "there are more" if first else "there is none"
        raise InputError(
            f"a picture in SVG is of one text, and {many}: --format html takes any number"
        )
    if not first[0].text:
        raise InputError("the text is empty: there is nothing to draw")
    return [picture(first[0], layer, view=view)]


def _terminal(
    explanations: Iterator[Explanation], layer: int, view: str | None, to_screen: bool
) -> Iterator[str]:
    """The lines, with colours at a terminal, plain in a file or a pipe."""
    from hanlattice.explain.terminal import lines

    screen = (
        Console(file=sys.stdout)
        if to_screen
        else Console(file=None, force_terminal=False, width=_PIPE)
    )
    width = shutil.get_terminal_size((_PIPE, 0)).columns if to_screen else _PIPE
    for nth, explanation in enumerate(explanations):
        with screen.capture() as caught:
            if nth:
                screen.print()
            for line in lines(explanation, layer, width, view):
                joined = Text.assemble(*line, no_wrap=True, overflow="ignore")
                joined.rstrip()
                screen.print(joined, soft_wrap=True, highlight=False)
        yield caught.get()
