"""Raw text as lists of units, as often as word2vec asks for them, with progress."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from hanlattice.data.raw import RawText
from hanlattice.errors import OutputError
from hanlattice.events import Listener
from hanlattice.files import reason
from hanlattice.pretrain.units import Units

LONGEST = 10_000  # units in one list; word2vec leaves out what comes after them
_LINE = 1 << 18  # characters of a line that are worked on at a time: text without line ends must not fill the memory
_BACK = 1000  # characters before that in which a better place for a cut is looked for
_PAUSE = 0.1  # seconds between two events of progress


class Progress:
    """Raw text that tells how far it is: a `pass` event with bytes done, of `size`, a few times a second.

    `number` is that of the pass: each is one more than the last. A very long line comes in parts, like several lines.
    """

    def __init__(self, text: RawText, listen: Listener) -> None:
        self.text, self._listen = text, listen
        self.number = -1
        self._told = 0.0

    def __iter__(self) -> Iterator[str]:
        self.number += 1
        for line in self.text:
            self.tell(self.text.done)
            yield from parts(line)
        self.tell(self.text.size)

    def tell(self, done: int) -> None:
        now = time.monotonic()
        if done == self.text.size or now >= self._told + _PAUSE:
            self._told = now
            self._listen({"event": "pass", "number": self.number, "done": done, "size": self.text.size})


def parts(line: str) -> Iterator[str]:
    """The line, cut where it is very long: after white space or a sign, if there is one near, else anywhere."""
    start = 0
    while len(line) - start > _LINE:
        end = start + _LINE
        near = range(end, max(start, end - _BACK), -1)
        end = next((at for at in near if not line[at - 1].isalnum()), end)
        yield line[start:end]
        start = end
    yield line[start:] if start else line


class Sentences:
    """Iterates over lists of units, with the `pass` events of `Progress`: pass 0 counts, pass 1 is the first epoch.

    Units that are slow to find are written to a nameless file in `folder` by the first whole pass, and read from there.
    """

    def __init__(self, text: RawText, units: Units, folder: Path, listen: Listener) -> None:
        self.progress, self.units, self.folder = Progress(text, listen), units, folder
        self.stopped = False
        self._kept: IO[bytes] | None = None

    def __iter__(self) -> Iterator[list[str]]:
        self.stopped = False
        for units in self._from_disk(self._kept) if self._kept else self._from_text():
            for at in range(0, len(units), LONGEST):
                yield units[at : at + LONGEST]
            if self.stopped:
                return

    def _from_text(self) -> Iterable[list[str]]:
        found = filter(None, self.units(self.progress))
        return self._keeping(found) if self.units.slow else found

    def _from_disk(self, file: IO[bytes]) -> Iterator[list[str]]:
        """As large a share of the raw text counts as done as was read of the units that were kept."""
        self.progress.number += 1
        file.seek(0)
        for line in file:
            self.progress.tell(self.progress.text.size * file.tell() // self._size)
            yield line.decode("utf-8").rstrip("\n").split(" ")

    def _keeping(self, sentences: Iterable[list[str]]) -> Iterator[list[str]]:
        try:
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 (it lives as long as this object)
            try:
                for units in sentences:
                    file.write(" ".join(units).encode("utf-8") + b"\n")
                    yield units
                self._size = file.tell()
                self._kept = file
            finally:
                if self._kept is not file:
                    file.close()
        except OSError as error:
            raise OutputError(f"cannot write a temporary file to {self.folder}: {reason(error)}") from None

    def close(self) -> None:
        """Let go of the units that were kept."""
        self.stopped = True
        if self._kept is not None:
            self._kept.close()
