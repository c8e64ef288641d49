"""Every error that hanlattice raises on purpose. The command line prints them without a traceback
and exits with 2.

HanlatticeError
├── InputError       a file or a text that was given: what was expected, what came, where
│   └── TagError     a tag, or a sequence of tags, that does not fit its scheme
├── OutputError      a file that could not be written (full disk, no permission)
├── ConfigError      everything that is wrong with a configuration, all at once
├── ModelError       a model folder that is missing, cut short, changed, or of another format
├── DownloadError    a package that could not be fetched or is not what it should be
└── ServerError      what a server says of a request that it refuses
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def one_line(path: str | Path) -> str:
    """A path for a message: line ends, control characters and bytes that are no text as escapes."""
    name = str(path)
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() or c == "\u3000" else ascii(c)[1:-1] for c in name)


class HanlatticeError(Exception):
    pass


class InputError(HanlatticeError):
    """What is wrong with an input; `path` and `line` (from 1) say where, when they are known."""

    def __init__(
        self, message: str, path: str | Path | None = None, line: int | None = None
    ) -> None:
        self.message = message
        self.path = path
        self.line = line
        name = None if path is None else one_line(path)
        place = "" if name is None else f"{name}: " if line is None else f"{name}:{line}: "
        super().__init__(place + message)


class TagError(InputError):
    pass


class InputWarning(UserWarning):
    """What was noticed in a file that could still be read; the command line prints it as a note."""


class OutputError(HanlatticeError):
    """`errno` is the operating system's number of the error, where there is one."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class ConfigError(HanlatticeError):
    """Problems that are strings, or anything whose `str` is one; `problems` are those strings."""

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
    """`status` is the HTTP status, or 0 where no server answers."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}" if status else message)
        self.status = status
