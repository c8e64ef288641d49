"""Command lines that do without typer and rich: `python -m hanlattice.bench` and `python -m hanlattice.pretrain`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import IO

from hanlattice.errors import HanlatticeError


def exit_code(work: Callable[[], None]) -> int:
    """0, or 2 with a line on standard error for what the user can mend."""
    try:
        work()
    except HanlatticeError as error:
        say(sys.stderr, f"error: {error}")
        return 2
    return 0


def say(file: IO[str], text: str) -> None:
    """A line that is seen at once."""
    file.write(text + "\n")
    file.flush()
