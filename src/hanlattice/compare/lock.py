"""One comparison at a time in a folder. A killed one's workers may live a moment longer, and are waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

from hanlattice.errors import OutputError
from hanlattice.files import reason

LOCK = ".lock"
PATIENCE = 20.0  # seconds; a worker whose parent has gone ends at once, if the system lets it


@contextmanager
def working_in(folder: Path, alone: bool) -> Iterator[None]:
    """Hold the folder. The one who begins must be alone in it for a moment; its workers then join it."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with _open(folder) as file:
        end = time.monotonic() + PATIENCE
        while alone:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OutputError(
                        f"another `hanlattice compare` is at work in {folder}: wait for its end"
                    ) from None
                time.sleep(0.05)
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _open(folder: Path) -> BufferedWriter:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / LOCK).open("ab")
    except OSError as error:
        raise OutputError(f"cannot write {folder / LOCK}: {reason(error)}") from None
