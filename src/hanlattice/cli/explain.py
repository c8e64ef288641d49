"""`hanlattice explain`: which dictionary words a text has, and what changes without each."""

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

# Columns of a file, and of a pipe unless COLUMNS is set
_PIPE = 100

ExplainFormat = StrEnum("ExplainFormat", "terminal json svg html")


@with_options
def explain(
    options: TextOptions,
    format: Annotated[
        ExplainFormat, typer.Option("--format", "-f", help="Output format.")
    ] = ExplainFormat.terminal,
    decode: Decode = None,
    shares: Annotated[
        bool,
        typer.Option("--shares", help="Show the weight of each word in the LSTM cells instead."),
    ] = False,
    layer: Annotated[
        int, typer.Option(min=1, help="Layer whose weights are drawn. The lowest layer is 1.")
    ] = 1,
    without: Annotated[
        bool, typer.Option("--without", help="With `--shares`: also show what changes.")
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
    changes = without or not shares
    explanations = (tagger.explain(text, changes) for text in texts if text is not PAUSE)
    view = "shares" if shares else None
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
    """Return explanations as text in a format."""
    if format is ExplainFormat.json:
        return (to_json(explanation.to_dict()) + "\n" for explanation in explanations)
    if format is ExplainFormat.html:
        from hanlattice.explain.html import page

        return page(explanations, layer, view=view)
    if format is ExplainFormat.terminal:
        return _terminal(explanations, layer, view, to_screen)
    from hanlattice.explain.svg import picture

    # Two are enough to know that there is more than one.
    first = list(islice(explanations, 2))
    if len(first) != 1:
        number = "there are more" if first else "there is none"
        raise InputError(
            f"an SVG picture shows one text, and {number}: --format html takes any number"
        )
    if not first[0].text:
        raise InputError("the text is empty: there is nothing to draw")
    return [picture(first[0], layer, view=view)]


def _terminal(
    explanations: Iterator[Explanation], layer: int, view: str | None, to_screen: bool
) -> Iterator[str]:
    """Yield the lines of each explanation: with colours on a terminal, plain elsewhere."""
    from hanlattice.explain.terminal import lines

    width = shutil.get_terminal_size((_PIPE, 0)).columns if to_screen else _PIPE
    plain = Console(file=None, force_terminal=False, width=_PIPE)
    screen = Console(file=sys.stdout) if to_screen else plain
    for index, explanation in enumerate(explanations):
        with screen.capture() as captured:
            if index:
                screen.print()
            for line in lines(explanation, layer, width, view):
                text = Text.assemble(*line, no_wrap=True, overflow="ignore")
                text.rstrip()
                screen.print(text, soft_wrap=True, highlight=False)
        yield captured.get()
