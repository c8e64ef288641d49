"""Run the command line in this process, through its entry point, or in another process."""

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
# Without an installation, the module is run.
COMMAND = [PROGRAM] if Path(PROGRAM).exists() else [sys.executable, "-m", "hanlattice"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONWARNINGS": "error"}


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    def refused(self, *parts: str) -> None:
        """Assert that the command ended with 2 and one error line, which has these parts."""
        assert self.code == 2, self
        assert self.err.startswith("error: "), self.err
        assert "Traceback" not in self.err, self.err
        for part in parts:
            assert part in self.err, self.err


def hanlattice(*arguments: str | Path | int, stdin: bytes = b"", columns: int = 200) -> Outcome:
    """Run a command in this process. An exception that it lets through fails the test."""
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
    """Start a command as a process; the caller waits for it.

    The process handles Ctrl-C, even if the tests run in a background job and ignore it.
    """
    defaults = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": ENVIRONMENT,
    }
    # A process inherits that a signal is ignored, but not its handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen([*COMMAND, *map(str, arguments)], **{**defaults, **options})
    finally:
        signal.signal(signal.SIGINT, before)


def run(*arguments: str | Path, stdin: bytes | None = None, **options: Any) -> Outcome:
    """Run a command as a process, and wait for its end."""
    if stdin is not None:
        options["stdin"] = subprocess.PIPE
    with start(*arguments, **options) as process:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    return Outcome(process.returncode, out or b"", (err or b"").decode("utf-8"))
