"""A moving line for work that reads its text several times: how far, and how long still."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hanlattice.cli.meter import EventMeter


class PassMeter(EventMeter):
    """For `pass` events: pass 0 has a bar of its own, the `epochs` after it, which cost more, have one together."""

    names = ("counting", "training")

    def __init__(self, console: Console, epochs: int) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            speed_estimate_period=120,
        )
        self.epochs = epochs
        self.tasks: dict[int, Any] = {}

    def _on_pass(self, event: dict[str, Any]) -> None:
        part, size = min(event["number"], 1), event["size"]
        if part not in self.tasks:
            total = size * (self.epochs if part else 1)
            self.tasks[part] = self.progress.add_task(self.names[part], total=total)
        self.progress.update(self.tasks[part], completed=max(0, event["number"] - 1) * size + event["done"])
