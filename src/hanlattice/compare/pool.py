"""Work in processes of its own: side by side as far as a device has room, and none of it lost when one dies."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

from hanlattice.compare.packing import Amount
from hanlattice.compare.worker import DONE, EVENT, MEMORY, serve
from hanlattice.events import Listener

CONTEXT: Any = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA


@dataclass(frozen=True)
class Task:
    """`do(device, tell, *arguments)` in a worker; `do` must be a function of a module."""

    name: str
    do: Callable[..., Any]
    arguments: tuple[Any, ...]
    needs: Mapping[str, Amount]  # on each device where it may run
    alone: bool = False  # nothing beside it on its device


class Outcome(NamedTuple):
    task: Task
    device: str
    value: Any  # what `do` gave; None if it failed
    reason: str = ""  # why it failed
    trace: str = ""  # where, if it is no mistake of the user


@dataclass
class Worker:
    """A process on a device, and what it is at."""

    device: str
    process: Any
    connection: Any
    task: Task | None = None
    beside: bool = False  # whether another task was at work on the device at any time of this one

    def give(self, task: Task) -> None:
        self.task, self.beside = task, False
        with contextlib.suppress(OSError):  # it has died just now, which `hear` will say
            self.connection.send((task.do, task.arguments))

    def hear(self) -> tuple[str, Any]:
        """The next thing that it says; if it has died, that."""
        try:
            message: tuple[str, Any] = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return "died", (_death(self.process.exitcode), "")
        return message

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(5)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.process.close()


@dataclass
class Pool:
    """Runs tasks on devices of these capacities. Use it in a `with`: no process is left behind."""

    folder: Path
    capacities: Mapping[str, Amount]
    listen: Listener
    workers: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.stop()
        self.workers.clear()

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """What came of each, as it comes. Those that stand first begin first, as far as there is room."""
        waiting = list(tasks)
        while waiting or self._busy():
            for device in self.capacities:
                self._fill(device, waiting)
            for worker in self._speaking():
                outcome = self._answer(worker, waiting)
                if outcome is not None:
                    yield outcome

    def _busy(self, device: str = "") -> list[Worker]:
        return [worker for worker in self.workers if worker.task and device in ("", worker.device)]

    def _fill(self, device: str, waiting: list[Task]) -> None:
        """Begin on this device whatever still fits, in order; on an idle one the first, however large."""
        for task in list(waiting):
            if device in task.needs and self._has_room(device, task):
                waiting.remove(task)
                self.listen({"event": "begin", "run": task.name, "device": device})
                self._idle_worker(device).give(task)
                together = self._busy(device)
                for worker in together:
                    worker.beside = worker.beside or len(together) > 1

    def _has_room(self, device: str, task: Task) -> bool:
        at_work = [worker.task for worker in self._busy(device) if worker.task]
        if not at_work:
            return True
        used = sum((other.needs[device] for other in at_work), Amount(0))
        alone = task.alone or any(other.alone for other in at_work)
        return not alone and (used + task.needs[device]).fits(self.capacities[device])

    def _idle_worker(self, device: str) -> Worker:
        for worker in [worker for worker in self.workers if worker.task is None]:
            if not worker.process.is_alive():
                self._drop(worker)
            elif worker.device == device:
                return worker
        self.workers.append(_start(device, self.folder))
        return self.workers[-1]

    def _drop(self, worker: Worker) -> None:
        worker.stop()
        self.workers.remove(worker)

    def _speaking(self) -> list[Worker]:
        ready = connection.wait([worker.connection for worker in self._busy()])
        return [worker for worker in self.workers if worker.connection in ready]

    def _answer(self, worker: Worker, waiting: list[Task]) -> Outcome | None:
        """Take one message. A task that ran out of a card's memory beside others is tried again alone."""
        kind, what = worker.hear()
        task = worker.task
        assert task is not None
        if kind == EVENT:
            self.listen({**what, "run": task.name, "device": worker.device})
            return None
        worker.task = None
        if kind == DONE:
            return Outcome(task, worker.device, what)
        if kind != MEMORY:  # it is gone, or what went wrong may have left the device in disorder
            self._drop(worker)
        if kind == MEMORY and worker.beside:
            waiting.append(replace(task, alone=True, needs={worker.device: task.needs[worker.device]}))
            self.listen({"event": "again", "run": task.name, "device": worker.device, "reason": what[0]})
            return None
        return Outcome(task, worker.device, None, *what)


def _start(device: str, folder: Path) -> Worker:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=serve, args=(theirs, device, folder), daemon=True)
    with _deaf_to_ctrl_c():
        process.start()
    theirs.close()  # so that its end is seen here
    return Worker(device, process, ours)


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """A process that begins here never hears Ctrl-C, which a terminal sends to all: who began it ends it."""
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    resource_tracker.ensure_running()  # which would let the signal through again if it began inside
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        guess = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{guess}"
    return f"its process ended with exit code {code}"
