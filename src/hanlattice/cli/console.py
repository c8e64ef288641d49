"""Print notes and tables, show the progress of a long job, and find a model by its name."""

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
    """Print each text as a note on standard error, apart from the result."""
    for text in texts:
        typer.echo(f"note: {visible(text)}", err=True)


def make_console(stderr: bool = True) -> Console:
    """Return a console that prints lines unchanged, however long they are."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def find_named(model: str) -> Path:
    """Return the folder of a model, given as a folder or as the name of a bundled model.

    A bundled model comes before a folder with the same name; then a note says so.
    """
    from hanlattice.checkpoint import find_model

    folder = find_model(model)
    local = Path(model)
    if folder != local and (local / "config.json").is_file() and not local.samefile(folder):
        note(f"{model} is the bundled model; the folder here is ./{model}")
    return folder


def show_tables(console: Console, tables: Iterable[Table], *, fold: bool = True) -> None:
    """Print tables with an empty line before each; `fold` wraps long cells."""
    from rich.box import SIMPLE_HEAD

    for table in tables:
        console.print()
        console.print(table.rich(fold=fold, box=SIMPLE_HEAD, show_edge=False))


class EventMeter:
    """Show the events of a long job as printed lines, and as bars on a terminal.

    A subclass overrides `__call__`, which gets each event. Bars move inside a `with` block.
    """

    # Printed after Ctrl-C: how to resume
    stopped = ""

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
        raise NotImplementedError

    def print(self, line: str, keep: str = "") -> None:
        """Print a line above the bars; control characters not in `keep` become escapes."""
        self.console.print(visible(line, keep))
