"""Command lines that do without typer and rich: `python -m hanlattice.bench`, `.compare` and `.pretrain`.

As in the command line proper, whatever a terminal would obey, in a file's name say, is printed as an escape.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import IO, NoReturn

from hanlattice.errors import HanlatticeError
from hanlattice.text.display import visible


class Parser(argparse.ArgumentParser):
    """argparse repeats a wrong option as it was given."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message, "\n"))


def exit_code(work: Callable[[], None]) -> int:
    """0, or 2 with a line on standard error for what the user can mend."""
    try:
        work()
    except HanlatticeError as error:
        say(sys.stderr, f"error: {error}")
        return 2
    return 0


def say(file: IO[str], text: str) -> None:
    """A line, or several, that are seen at once."""
    file.write(visible(text, "\n") + "\n")
    file.flush()
