"""The texts of a call: counted, with their places, and with a pause where a pipe has one."""

from __future__ import annotations

import contextlib
import os
import queue
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

from hanlattice.data.formats.jsonl import to_json

# Seconds without input, after which the lines that have arrived are answered
WAIT = 0.15
# Lines that the reading thread may be ahead of the model
_AHEAD = 4096

# File and line
Place = tuple[str, int]
# The name of a file (None for a text), and a function that returns its lines
Source = tuple[str | None, Callable[[], Iterator[str]]]


class Texts:
    """An iterator over the texts of all sources, which counts them.

    Args:
        sources: A name and a function that returns lines, for each input.
        is_typed: Whether a person types the texts, and waits for each result.
    """

    def __init__(self, sources: Iterable[Source], is_typed: bool = False) -> None:
        self.sources = list(sources)
        self.is_typed = is_typed
        self.count = 0
        self.characters = 0
        # The places of texts that were read, but whose results were not written yet
        self.places: deque[Place | None] | None = None
        self.progress: Callable[[int], None] = lambda count: None
        self._texts = self._read()

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def group_size(self, asked: int | None) -> int | None:
        """Return how many texts to compute at a time: one if a person is typing them."""
        return 1 if self.is_typed else asked

    def _read(self) -> Iterator[str]:
        from hanlattice.predict import PAUSE

        for name, lines in self.sources:
            number = 0
            for text in lines():
                if text is not PAUSE:
                    number += 1
                    self.count += 1
                    self.characters += len(text)
                    if self.places is not None:
                        self.places.append(None if name is None else (name, number))
                    self.progress(self.count)
                yield text

    def placed(self, lines: Iterable[str]) -> Iterable[str]:
        """Put file and line first in each JSON line, if there are several inputs."""
        if len(self.sources) < 2:
            return lines
        places: deque[Place | None] = deque()
        self.places = places

        def add_place(line: str) -> str:
            if (place := places.popleft()) is None:
                return line
            # The line is an object, so its fields follow its first brace.
            return f'{{"file": {to_json(place[0])}, "line": {place[1]}, {line[1:]}'

        return map(add_place, lines)


def is_pipe(file: BinaryIO) -> bool:
    """Return whether lines arrive while somebody writes them, from no file and no terminal."""
    # In tests, standard input has no descriptor.
    with contextlib.suppress(OSError, ValueError):
        return not (file.isatty() or stat.S_ISREG(os.fstat(file.fileno()).st_mode))
    return False


def arriving(
    read: Callable[[BinaryIO], Iterator[str]], file: BinaryIO, wait: float
) -> Iterator[str]:
    """Yield the lines of a pipe, and PAUSE when no line arrives for `wait` seconds.

    After a pause, standard output is flushed, so that the reader gets all results so far.
    """
    from hanlattice.predict import PAUSE

    lines: queue.Queue[Any] = queue.Queue(_AHEAD)
    # A thread that is stuck in reading standard input would block the exit of the process, so
    # the thread reads a copy of the descriptor, and closes it.
    stream = open(os.dup(file.fileno()), "rb", closefd=False)  # noqa: SIM115

    def fill() -> None:
        try:
            for line in read(stream):
                lines.put(line)
            lines.put(None)
        except BaseException as error:
            lines.put(error)
        finally:
            os.close(stream.fileno())

    threading.Thread(target=fill, daemon=True).start()
    while True:
        try:
            item = lines.get(timeout=wait) if wait else lines.get_nowait()
        except queue.Empty:
            yield PAUSE
            sys.stdout.flush()
            item = lines.get()
        if isinstance(item, str):
            yield item
        elif item is None:
            return
        else:
            raise item


@contextlib.contextmanager
def shown_progress(texts: Texts) -> Iterator[None]:
    """Show on a terminal how many texts have been read, and how many a second."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from hanlattice.cli.console import make_console

    console = make_console()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,} texts, {task.speed:,.0f} a second"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=None)
        texts.progress = lambda count: progress.update(task, completed=count)
        yield
