"""Actors on a Ray cluster, each of which holds a worker. Ray finds places for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from hanlattice.errors import HanlatticeError
from hanlattice.optional import require
from hanlattice.ray import enter
from hanlattice.tasks.run import ATTEMPTS, Death, Message, Outcome, Worker, attempt

PAUSE = 0.5  # seconds between two looks at what the actors report
# The queue lives on the head node: any other may be lost while the run goes on.
QUEUE = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}}


@dataclass(eq=False)
class RayProcess:
    """An actor on a cluster."""

    ray: Any
    actor: Any
    number: int
    result: Any = None  # of its task

    def give(self, task: Any) -> None:
        self.result = self.actor.attempt.remote(task)

    def receive(self) -> Outcome | Death:
        try:
            outcome: Outcome = self.ray.get(self.result)
            return outcome
        except self.ray.exceptions.RayError as error:
            # The actor may be out of reach and alive: it must not do what another one does again.
            self.kill()
            return Death(f"its process on Ray ended: {str(error).strip().splitlines()[0]}")

    def kill(self) -> None:
        self.ray.kill(self.actor)

    join = kill


@dataclass
class RayProcesses:
    """Starts actors on a cluster."""

    ray: Any
    needs: Callable[[Any], dict[str, Any]]  # options of the actor for a task, such as `num_gpus`
    reuse: bool = True
    attempts: int = ATTEMPTS

    def __post_init__(self) -> None:
        self._numbers = count()

    def __enter__(self) -> None:
        self._queue = require("ray", "util.queue").Queue(actor_options=QUEUE)
        self._actor = self.ray.remote(_Actor)

    def __exit__(self, *_: object) -> None:
        self._queue.shutdown()

    def start(self, worker: Worker, task: Any) -> RayProcess:
        number = next(self._numbers)
        place = self._actor.options(**self.needs(task))
        actor = place.remote(str(Path.cwd()), worker, number, self._queue)
        return RayProcess(self.ray, actor, number)

    def receive(self, working: Sequence[RayProcess]) -> Iterator[tuple[RayProcess, Message]]:
        ended, _ = self.ray.wait([process.result for process in working], timeout=PAUSE)
        # The events of a task are in the queue before it ends.
        processes = {process.number: process for process in working}
        for number, event in self._queue.get_nowait_batch(self._queue.qsize()):
            # An actor that was given up may still be heard.
            if number in processes:
                yield processes[number], event
        for process in working:
            if process.result in ended:
                yield process, process.receive()


@dataclass
class _Actor:
    """Does the tasks of a RayProcess in the cluster."""

    home: str
    worker: Worker
    number: int
    queue: Any

    def attempt(self, task: Any) -> Outcome:
        try:
            enter(self.home)
        except HanlatticeError as error:
            return Outcome(None, str(error), is_final=True)
        return attempt(self.worker, task, lambda event: self.queue.put((self.number, event)))
