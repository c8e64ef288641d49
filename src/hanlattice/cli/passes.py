"""A moving line for work that reads its text several times: how far, and how long still."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class PassMeter:
    """Listens to `pass` events: pass 0 has a bar of its own, the `epochs` after it, which cost more, have one together.

    Other events go to the method `_on_NAME` of a subclass.
    """

    names = ("counting", "training")

    def __init__(self, console: Console, epochs: int) -> None:
        self.console, self.epochs = console, epochs
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=120,
        )
        self.tasks: dict[int, Any] = {}

    def __enter__(self) -> PassMeter:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        handler = getattr(self, f"_on_{event['event']}", None)
        if handler is not None:
            handler(event)

    def _on_pass(self, event: dict[str, Any]) -> None:
        part, size = min(event["number"], 1), event["size"]
        if part not in self.tasks:
            total = size * (self.epochs if part else 1)
            self.tasks[part] = self.progress.add_task(self.names[part], total=total)
        self.progress.update(self.tasks[part], completed=max(0, event["number"] - 1) * size + event["done"])
