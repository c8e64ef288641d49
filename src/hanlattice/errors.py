"""The errors that hanlattice raises on purpose. The command line prints them and exits with 2.

HanlatticeError
├── InputError       an input file or text is wrong: what was expected, what came, where
│   └── TagError     a tag, or a sequence of tags, does not fit its scheme
├── OutputError      a file could not be written (full disk, no permission)
├── ConfigError      a configuration has problems, all listed at once
├── ModelError       a model folder is missing, cut short, changed, or of another format
├── DownloadError    a package could not be fetched, or its checksum is wrong
└── ServerError      a server refused a request
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def one_line(path: str | Path) -> str:
    """Return a path for a message: what cannot be printed, line ends included, is escaped."""
    name = str(path)
    if name.isprintable():
        return name
    # The ideographic space U+3000 is usual in Chinese names, but Python calls it unprintable.
    return "".join(c if c.isprintable() or c == "\u3000" else ascii(c)[1:-1] for c in name)


class HanlatticeError(Exception):
    pass


class InputError(HanlatticeError):
    """An input is wrong; `path` and `line` (from 1) say where, when they are known."""

    def __init__(
        self, message: str, path: str | Path | None = None, line: int | None = None
    ) -> None:
        self.message = message
        self.path = path
        self.line = line
        number = "" if line is None else f":{line}"
        super().__init__(message if path is None else f"{one_line(path)}{number}: {message}")


class TagError(InputError):
    pass


class InputWarning(UserWarning):
    """A file has a flaw, and can still be read; the command line prints a note."""


class OutputError(HanlatticeError):
    """An output cannot be written; `errno` is the operating system's number of the error."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class ConfigError(HanlatticeError):
    """A configuration is wrong; `problems` lists every problem as a string."""

    def __init__(self, problems: Iterable[object], source: str = "") -> None:
        self.problems = [str(problem) for problem in problems]
        count = len(self.problems)
        head = f"{source or 'the configuration'} has {count} problem{'s' if count > 1 else ''}:"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))


class ModelError(HanlatticeError):
    pass


class DownloadError(HanlatticeError):
    pass


class ServerError(HanlatticeError):
    """A server refused a request; `status` is the HTTP status, 0 if no server answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
