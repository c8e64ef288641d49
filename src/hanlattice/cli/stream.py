"""The texts of a call as they come: counted, with their places, and with a pause where standard
input has one.
"""

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

WAIT = 0.15  # seconds without input after which the lines that have come are answered
_AHEAD = 4096  # lines that are read before they are wanted

Place = tuple[str, int]  # file and line
Source = tuple[
    str | None, Callable[[], Iterator[str]]
]  # the name of a file, or None for a text, and its lines


class Texts:
    """The texts of all sources; `places`, once `placed` is called, are those that were read and not
    written yet.
    """

    def __init__(self, sources: Iterable[Source], is_typed: bool = False) -> None:
        self.sources = list(sources)
        self.is_typed = is_typed  # by a person, who waits for each result
        self.count = 0
        self.characters = 0
        self.places: deque[Place | None] | None = None
        self.progress: Callable[[int], None] = lambda count: None
        self._texts = self._read()

    def __iter__(self) -> Iterator[str]:
        return self._texts

    def group_size(self, asked: int | None) -> int | None:
        """Return how many texts to compute at a time: one, if a person is typing them."""
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
        """JSON lines with the file and line of their texts first, where there are several inputs."""
        if len(self.sources) < 2:
            return lines
        places: deque[Place | None] = deque()
        self.places = places
        return (_placed(line, places.popleft()) for line in lines)


def _placed(line: str, place: Place | None) -> str:
    return (
        line if place is None else f'{{"file": {to_json(place[0])}, "line": {place[1]}, {line[1:]}'
    )


def is_pipe(file: BinaryIO) -> bool:
    """Whether lines come as somebody writes them: neither a file, which is there, nor a terminal."""
    with contextlib.suppress(OSError, ValueError):  # in tests it is no real stream
        return not (file.isatty() or stat.S_ISREG(os.fstat(file.fileno()).st_mode))
    return False


def arriving(
    read: Callable[[BinaryIO], Iterator[str]], file: BinaryIO, wait: float
) -> Iterator[str]:
    """The lines of a pipe, and PAUSE where none comes for `wait` seconds; what has been written is
    sent then.

    A thread reads, on a descriptor of its own: one that is stuck in reading standard input cannot
    be left at the end.
    """
    from hanlattice.predict import PAUSE

    lines: queue.Queue[Any] = queue.Queue(_AHEAD)
    stream = open(os.dup(file.fileno()), "rb", closefd=False)  # noqa: SIM115 (the thread closes the descriptor)
    threading.Thread(target=_fill, args=(lines, read, stream), daemon=True).start()
    while True:
        try:
            item = lines.get_nowait() if not wait else lines.get(timeout=wait)
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


def _fill(
    lines: queue.Queue[Any], read: Callable[[BinaryIO], Iterator[str]], stream: BinaryIO
) -> None:
    """Lines, then None, or the error that ended them."""
    try:
        for line in read(stream):
            lines.put(line)
        lines.put(None)
    except BaseException as error:
        lines.put(error)
    finally:
        os.close(stream.fileno())


@contextlib.contextmanager
def shown_progress(texts: Texts) -> Iterator[None]:
    """A moving line on a terminal: how many texts have been read, and how many a second."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from hanlattice.cli.console import make_console

    console = make_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,} texts, {task.speed:,.0f} a second"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=None)
        texts.progress = lambda count: progress.update(task, completed=count)
        yield
