"""Processes on this machine, each at the other end of a pipe."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from hanlattice.tasks.run import ATTEMPTS, Death, Message, Worker, attempt

CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
CONTEXT: Any = multiprocessing.get_context("fork" if CAN_FORK else "spawn")
# A terminal sends these to all processes. The parent ends the others.
_OF_TERMINALS = [getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)]


class LocalProcess:
    """A process of this machine."""

    def __init__(self, context: Any, worker: Worker) -> None:
        self.connection, theirs = context.Pipe()
        # A forked process inherits our end of the pipe, and must close it to notice our end.
        inherited = self.connection if context.get_start_method() == "fork" else None
        self.process = context.Process(target=_work, args=(theirs, inherited, worker), daemon=True)
        with _signals_blocked(context):
            self.process.start()
        # While their end is open here, the end of the process is not noticed.
        theirs.close()

    def give(self, task: Any) -> None:
        self._send((task,))

    def _send(self, arguments: tuple[Any, ...]) -> None:
        # A process that has just died is noticed where its answer is received.
        with contextlib.suppress(ConnectionError):
            self.connection.send(arguments)

    def receive(self) -> Message:
        try:
            message: Message = self.connection.recv()
            return message
        except (EOFError, OSError):
            return Death(self._cause())

    def kill(self) -> None:
        self.process.kill()

    def join(self) -> None:
        # Closing the pipe would not end it: processes forked later have inherited this end.
        self._send(())
        self.connection.close()
        self.process.join()

    def _cause(self) -> str:
        self.process.join()
        code = self.process.exitcode
        if code >= 0:
            return f"its process ended with exit code {code}"
        name = signal.Signals(-code).name
        guess = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{guess}"


@dataclass
class LocalProcesses:
    """Starts processes on this machine. Forked processes share the memory of their worker."""

    context: Any = CONTEXT
    attempts: int = ATTEMPTS
    reuse: bool = True

    def __enter__(self) -> None:
        gc.collect()
        # Else the garbage collector writes to the pages that forked processes share.
        gc.freeze()

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()

    def start(self, worker: Worker, task: Any) -> LocalProcess:
        return LocalProcess(self.context, worker)

    def receive(self, working: Sequence[LocalProcess]) -> Iterator[tuple[LocalProcess, Message]]:
        ready = wait([process.connection for process in working])
        for process in working:
            if process.connection in ready:
                yield process, process.receive()


@contextlib.contextmanager
def _signals_blocked(context: Any) -> Iterator[None]:
    """Block the signals of terminals, also in a process that is started inside the `with`."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    if context.get_start_method() != "fork":
        # Its start unblocks the signals, so it has to run before they are blocked.
        resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_TERMINALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, inherited: Connection | None, worker: Worker) -> None:
    """Do tasks in a process, until there are no more."""
    for number in _OF_TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if inherited is not None:
        inherited.close()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # The parent has ended.
        while arguments := connection.recv():
            connection.send(attempt(worker, arguments[0], connection.send))
    # What the parent has registered for its exit is not done twice.
    os._exit(0)


def _end_with_parent() -> None:
    """End this process when its parent ends.

    A parent that is killed cannot end its processes. They hold the lock of its folder while they
    live, and must not write into a folder that is resumed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
