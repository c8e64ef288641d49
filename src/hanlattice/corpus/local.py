"""Processes on this machine, which share the model's memory; one that dies is replaced, and its task done again."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from hanlattice.corpus.work import Outcome
from hanlattice.events import Event, Listener

ATTEMPTS = 3  # at a task whose process dies
CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
CONTEXT: Any = multiprocessing.get_context("fork" if CAN_FORK else "spawn")


class Works(Protocol):
    """What a process holds. Where processes cannot be forked it is pickled."""

    def attempt(self, task: Any, tell: Listener) -> Outcome: ...


def outcomes(worker: Works, tasks: Sequence[Any], count: int, listen: Listener) -> Iterator[tuple[int, Outcome]]:
    """(which task, what came of it), as they end, done by so many processes. Those that are forked share `worker`.

    `listen` gets what the processes tell, with the task that it is about, and that a process has died.
    """
    waiting, attempts = deque(range(len(tasks))), Counter[int]()
    working: dict[Any, tuple[Any, int]] = {}  # by connection: the process, its task
    gc.collect()
    gc.freeze()  # else the collector writes to the pages that the processes share
    try:
        while waiting or working:
            while waiting and len(working) < count:
                connection, process = _start(worker, tasks)
                working[connection] = process, _give(connection, waiting)
            ready = wait(list(working))
            for connection in [each for each in working if each in ready]:
                process, at = working[connection]
                message = _receive(connection)
                if isinstance(message, dict):
                    listen({**message, "task": at})
                    continue
                if message is None:
                    del working[connection]
                    attempts[at] += 1
                    message = _died(process, attempts[at])
                    connection.close()
                    listen({"event": "died", "task": at, "reason": message.reason, "attempts": attempts[at]})
                    if attempts[at] < ATTEMPTS:
                        waiting.appendleft(at)
                        continue
                elif waiting:
                    working[connection] = process, _give(connection, waiting)
                else:
                    del working[connection]
                    _dismiss(connection, process)
                yield at, message
    finally:  # what is still working can be killed: the same command goes on from there
        for process, _ in working.values():
            process.kill()
        for process, _ in working.values():
            process.join()
        gc.unfreeze()


def _start(worker: Works, tasks: Sequence[Any]) -> tuple[Connection, Any]:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_work, args=(theirs, ours if CAN_FORK else None, worker, tasks), daemon=True)
    process.start()
    theirs.close()  # so that the end of the process is seen here
    return ours, process


def _give(connection: Connection, waiting: deque[int]) -> int:
    """Its next task for a process; if it has just died, that is seen where its answer is received."""
    at = waiting.popleft()
    with contextlib.suppress(BrokenPipeError):
        connection.send(at)
    return at


def _dismiss(connection: Connection, process: Any) -> None:
    """Closing would not do: other processes have inherited this end."""
    with contextlib.suppress(BrokenPipeError):
        connection.send(None)
    connection.close()
    process.join()


def _receive(connection: Connection) -> Event | Outcome | None:
    """What a process says; None if it has died."""
    try:
        message: Event | Outcome = connection.recv()
        return message
    except (EOFError, OSError):
        return None


def _died(process: Any, attempts: int) -> Outcome:
    process.join()
    code = process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Outcome(None, f"its process ended by {how}, {attempts} of {ATTEMPTS} times")


def _work(connection: Connection, other_end: Connection | None, worker: Works, tasks: Sequence[Any]) -> None:
    """In the process: do tasks until there are no more.

    Ctrl-C and the end of a terminal go to all, and the parent says what happens.
    """
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if other_end is not None:
        other_end.close()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # nobody is there any more
        while (at := connection.recv()) is not None:
            connection.send(worker.attempt(tasks[at], connection.send))
    os._exit(0)  # nothing of the parent's is cleaned up twice


def _end_with_parent() -> None:
    """A parent that is killed cannot end its processes; they keep its lock while they live."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
