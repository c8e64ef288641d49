"""What the verbs share on a terminal: notes, tables without a frame, moving lines, and the model
that a name means.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from hanlattice.text.display import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn

    from hanlattice.evaluation.report import Table


def note(*texts: str) -> None:
    """A line each on standard error, beside the result."""
    for text in texts:
        typer.echo(f"note: {visible(text)}", err=True)


def make_console(stderr: bool = True) -> Console:
    """For lines that are printed as they are, however long."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def find_named(model: str) -> Path:
    """The folder of a model; a note if a bundled model is taken though a model's folder here has
    the same name.
    """
    from hanlattice.checkpoint import find_model

    folder = find_model(model)
    here = Path(model)
    if folder != here and (here / "config.json").is_file() and not here.samefile(folder):
        note(f"{model} is the bundled model; the folder here is ./{model}")
    return folder


def show_tables(console: Console, tables: Iterable[Table], *, fold: bool = True) -> None:
    from rich.box import SIMPLE_HEAD

    for table in tables:
        console.print()
        console.print(table.rich(fold=fold, box=SIMPLE_HEAD, show_edge=False))


class EventMeter:
    """A listener: an event goes to the method `_on_NAME`, if there is one. Bars move inside a
    `with`, on a terminal.
    """

    stopped = ""  # printed after Ctrl-C: how to go on

    def __init__(self, console: Console, *columns: ProgressColumn, **options: Any) -> None:
        from rich.progress import Progress

        self.console = console
        self.progress = Progress(
            *columns, console=console, disable=not console.is_terminal, **options
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.progress.stop()
        if error is KeyboardInterrupt and self.stopped:
            self.console.print(self.stopped)

    def __call__(self, event: dict[str, Any]) -> None:
        handler = getattr(self, f"_on_{event['event']}", None)
        if handler is not None:
            handler(event)
