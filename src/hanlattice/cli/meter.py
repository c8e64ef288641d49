"""What every moving line has: it listens to events, and moves only on a terminal."""

from __future__ import annotations

from typing import Any, Self

from rich.console import Console
from rich.progress import Progress, ProgressColumn


class EventMeter:
    """A listener: an event goes to the method `_on_NAME`, if there is one. The bars move inside a `with`."""

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
