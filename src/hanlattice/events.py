"""Events that a long job reports while it works, to a listener and to the log of its run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hanlattice.errors import OutputError
from hanlattice.files import dump_json, reason

Event = dict[str, Any]
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing: the listener of a caller who does not listen."""


class Log:
    """Pass events on to a listener, and append those worth keeping to a file as lines of JSON.

    Args:
        path: The file; None passes events on without keeping any.
        start_at: How many bytes of an earlier log belong to this run. The rest is cut off.
    """

    def __init__(self, path: Path | None, listen: Listener, start_at: int = 0) -> None:
        self.path = path
        self._listen = listen
        if path is None:
            return
        try:
            with open(path, "ab") as file:
                # `truncate` would fill a shorter file with NUL bytes.
                file.truncate(min(start_at, file.tell()))
        except OSError as error:
            raise OutputError(f"cannot write {path}: {reason(error)}") from None

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path else 0

    def emit(self, event: str, **facts: Any) -> None:
        """Send an event to the listener alone."""
        self._listen({"event": event, **facts})

    def record(self, event: str, **facts: Any) -> None:
        """Append an event to the file, then send it to the listener."""
        if self.path:
            try:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write(dump_json({"event": event, **facts}) + "\n")
                    file.flush()
                    # A resumed run trusts this log, so each line must survive a power cut.
                    os.fsync(file.fileno())
            except OSError as error:
                raise OutputError(f"cannot write {self.path}: {reason(error)}") from None
        self.emit(event, **facts)
