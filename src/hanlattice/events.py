"""What a long job reports while it works: events. A listener gets all of them; those worth keeping
go to a file too.
"""

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
    """The listener of a caller who does not listen."""


class Log:
    """Appends events to a file, one JSON object a line, and passes them on; without a file it only
    passes them on.
    """

    def __init__(self, path: Path | None, listen: Listener, start_at: int = 0) -> None:
        """`start_at`: how many bytes of an earlier log belong to this run; what follows them is cut
        off.
        """
        self.path = path
        self._listen = listen
        if path is None:
            return
        try:
            with open(path, "ab") as file:
                file.truncate(
                    min(start_at, file.tell())
                )  # a longer one would be filled up with NUL
        except OSError as error:
            raise OutputError(f"cannot write {path}: {reason(error)}") from None

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path else 0

    def tell(self, event: str, **facts: Any) -> None:
        """An event for the listener alone."""
        self._listen({"event": event, **facts})

    def keep(self, event: str, **facts: Any) -> None:
        """An event for the listener and the file."""
        if self.path:
            self._append(dump_json({"event": event, **facts}))
        self.tell(event, **facts)

    def _append(self, line: str) -> None:
        assert self.path is not None
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {reason(error)}") from None
