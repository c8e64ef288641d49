"""Give tasks to processes, pass on what they report, and replace a process that dies."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from hanlattice.errors import HanlatticeError
from hanlattice.events import Event, Listener

ATTEMPTS = 3  # at a task whose process dies, before the task is given up


class Outcome(NamedTuple):
    """What came of a task."""

    record: dict[str, Any] | None  # None if it failed
    reason: str = ""  # why it failed
    trace: str = ""  # the traceback of an error that is not the user's
    is_final: bool = False  # whether other tasks would fail for the same reason


class Death(NamedTuple):
    """The last message of a process: it ended before its task did."""

    reason: str


class Worker(Protocol):
    """Does tasks, one at a time. A process that is not forked gets it pickled."""

    def attempt(self, task: Any, emit: Listener) -> Outcome: ...


WorkerType = TypeVar("WorkerType", bound=Worker)


Message = Event | Outcome | Death


class Processes(Protocol):
    """Starts processes and hears them, inside a `with`."""

    attempts: int  # at a task whose process dies
    reuse: bool  # whether a process does more than one task

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...

    def start(self, worker: Worker, task: Any) -> Any:
        """Start a process with room for this task; it can `give(task)`, `kill()` and `join()`."""

    def receive(self, working: Sequence[Any]) -> Iterable[tuple[Any, Message]]:
        """Wait until one of these processes says something, and yield what they say."""


def run_tasks(
    workers: Sequence[WorkerType],
    tasks: Sequence[Any],
    processes: Processes,
    listen: Listener,
    accepts: Callable[[WorkerType, Any], bool] = lambda worker, task: True,
) -> Iterator[tuple[int, WorkerType, Outcome]]:
    """Yield the number of each task, its worker and its outcome, in the order in which they end.

    Args:
        workers: one for each process that may work at the same time.
        listen: gets the events of the processes with the number of their `task`, and `died` for a
            process that dies.
        accepts: whether a worker can do a task.
    """
    waiting = list(range(len(tasks)))
    free = list(workers)
    working: dict[Any, tuple[WorkerType, int]] = {}  # by process
    deaths = Counter[int]()

    def find_task(worker: WorkerType) -> int | None:
        return next((number for number in waiting if accepts(worker, tasks[number])), None)

    def give(process: Any, worker: WorkerType, number: int) -> None:
        waiting.remove(number)
        working[process] = worker, number
        process.give(tasks[number])

    with processes:
        try:
            while waiting or working:
                for worker in tuple(free):
                    if (following := find_task(worker)) is not None:
                        free.remove(worker)
                        give(processes.start(worker, tasks[following]), worker, following)
                for process, message in processes.receive(list(working)):
                    worker, number = working[process]
                    if isinstance(message, dict):
                        listen({**message, "task": number})
                        continue
                    # Its next task comes before the caller handles this outcome: it need not wait.
                    can_go_on = processes.reuse and isinstance(message, Outcome)
                    if can_go_on and (following := find_task(worker)) is not None:
                        give(process, worker, following)
                    else:
                        del working[process]
                        free.append(worker)
                        process.join()
                    if isinstance(message, Death):
                        deaths[number] += 1
                        most = processes.attempts
                        count = f" (attempt {deaths[number]} of {most})" if most > 1 else ""
                        message = Outcome(None, f"{message.reason}{count}")
                        facts = {"reason": message.reason, "attempts": deaths[number]}
                        listen({"event": "died", "task": number, **facts})
                        if deaths[number] < most:
                            waiting.insert(0, number)
                            continue
                    yield number, worker, message
        finally:  # Whatever still works can be killed: the same command resumes it.
            for process in working:
                process.kill()
            for process in working:
                process.join()


def attempt(worker: Worker, task: Any, emit: Listener) -> Outcome:
    """Do a task in this process. An error becomes an outcome, so that other tasks go on."""
    try:
        return worker.attempt(task, emit)
    except HanlatticeError as error:
        return Outcome(None, str(error))
    except Exception as error:
        return Outcome(None, f"{type(error).__name__}: {error}", traceback.format_exc())
