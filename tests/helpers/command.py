"""Runs the command line: here, through its entry point, or as a process of its own."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from hanlattice.cli import main
from tests.helpers.patience import PATIENCE

PROGRAM = str(Path(sys.executable).with_name("hanlattice"))
COMMAND = (
    [PROGRAM] if Path(PROGRAM).exists() else [sys.executable, "-m", "hanlattice"]
)  # or it is not installed
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONWARNINGS": "error"}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    def refused(self, *parts: str) -> None:
        """It ended with 2, said these things, and no more than a person wants to read."""
        assert self.code == 2, self
        assert self.err.startswith("error: "), self.err
        assert "Traceback" not in self.err, self.err
        for part in parts:
            assert part in self.err, self.err


def hanlattice(*arguments: str | Path | int, stdin: bytes = b"", columns: int = 200) -> Outcome:
    """The entry point in this process. An exception that it lets through fails the test."""
    out = io.BytesIO()
    err = io.BytesIO()
    with (
        mock.patch.object(sys, "argv", ["hanlattice", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
        mock.patch.object(sys, "stdout", io.TextIOWrapper(out, "utf-8")),
        mock.patch.object(sys, "stderr", io.TextIOWrapper(err, "utf-8", write_through=True)),
        mock.patch.dict(os.environ, COLUMNS=str(columns)),
    ):
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        sys.stdout.flush()
        return Outcome(int(code), out.getvalue(), err.getvalue().decode("utf-8"))


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """The program as a process; the caller waits for it.

    It hears Ctrl-C even where the tests do not, as in a background job of a shell.
    """
    given = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": ENVIRONMENT,
    }
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a handler is not inherited, 'ignore' is
    try:
        return subprocess.Popen([*COMMAND, *map(str, arguments)], **{**given, **options})
    finally:
        signal.signal(signal.SIGINT, before)


def run(*arguments: str | Path, stdin: bytes | None = None, **options: Any) -> Outcome:
    """The program as a process, to its end."""
    if stdin is not None:
        options["stdin"] = subprocess.PIPE
    with start(*arguments, **options) as process:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    return Outcome(process.returncode, out or b"", (err or b"").decode("utf-8"))
