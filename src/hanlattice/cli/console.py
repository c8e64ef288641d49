"""What the verbs share on a terminal: notes, tables without a frame, moving lines, and the model that a name means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, ProgressColumn

from hanlattice.text.display import visible

if TYPE_CHECKING:
    from hanlattice.evaluation.report import Table


def note(text: str) -> None:
    """A line on standard error, beside the result."""
    typer.echo(f"note: {visible(text)}", err=True)


def find_named(model: str) -> Path:
    """The folder of a model; a note if a bundled model is taken though a model's folder here has the same name."""
    from hanlattice.models import find_model

    folder, here = find_model(model), Path(model)
    if folder != here and (here / "config.json").is_file() and not here.samefile(folder):
        note(f"{model} is the bundled model; the folder here is ./{model}")
    return folder


def show_tables(console: Console, tables: Iterable[Table], *, fold: bool = True) -> None:
    for table in tables:
        console.print()
        console.print(table.rich(fold=fold, box=SIMPLE_HEAD, show_edge=False))


class EventMeter:
    """A listener: an event goes to the method `_on_NAME`, if there is one. Bars move inside a `with`, on a terminal."""

    def __init__(self, console: Console, *columns: ProgressColumn, **options: Any) -> None:
        self.console = console
        self.progress = Progress(*columns, console=console, disable=not console.is_terminal, **options)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        handler = getattr(self, f"_on_{event['event']}", None)
        if handler is not None:
            handler(event)
