"""Shards on a Ray cluster: actors of Ray Data hold the model; Ray schedules them, and does again what a node loses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hanlattice.corpus.local import ATTEMPTS
from hanlattice.corpus.run import Engine, Plan
from hanlattice.corpus.work import Outcome, Task, Worker
from hanlattice.errors import HanlatticeError
from hanlattice.events import Event, Listener
from hanlattice.extras import extra, quiet
from hanlattice.models.device import device_kind
from hanlattice.ray import connect, enter


def on_ray(address: str = "", workers: int | None = None) -> Engine:
    """The engine of a cluster. At most so many actors, each on a core or a GPU; without a number, one for each.

    More actors than the cluster has GPUs share them.
    """

    def engine(plan: Plan, listen: Listener) -> Iterator[tuple[int, Outcome]]:
        kind = "gpus" if device_kind(plan.settings.device) == "cuda" else "cpus"
        found = _count(connect(address), kind)
        most = workers or found
        share = 1 / math.ceil(most / found) if kind == "gpus" else 1
        with quiet("ray"), quiet("ray.data"):
            yield from _outcomes(plan, listen, most, {f"num_{kind}": share})

    return engine


def _count(ray: Any, resource: str) -> int:
    """How many of these the cluster has now."""
    found = int(ray.cluster_resources().get(resource.removesuffix("s").upper(), 0))
    if not found:
        raise HanlatticeError(f"this Ray cluster has no {resource}, and the model is to run on {resource}")
    return found


def _outcomes(plan: Plan, listen: Listener, most: int, resource: dict[str, float]) -> Iterator[tuple[int, Outcome]]:
    data, todo = extra("ray", "data"), plan.todo
    context = data.DataContext.get_current().copy()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.max_errored_blocks = -1  # a shard that fails is reported, and the others are done
    with data.DataContext.current(context):
        rows = [{"at": at} for at in range(len(todo))]
        found = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            Shards,
            fn_constructor_args=(str(Path.cwd()), Worker(plan.settings, plan.out, plan.digest), todo),
            compute=data.ActorPoolStrategy(
                min_size=1,
                max_size=most,
                initial_size=min(most, len(rows)),
                max_tasks_in_flight_per_actor=1,  # an actor that dies fails all that it was given
            ),
            batch_size=1,
            max_task_retries=ATTEMPTS - 1,
            **resource,
        )
        waiting = set(range(len(todo)))
        for row in found.iter_rows():
            at, (events, outcome) = int(row["at"]), json.loads(row["result"])
            for event in events:
                listen({**event, "task": at})
            waiting.remove(at)
            yield at, Outcome(*outcome)
    for at in sorted(waiting):
        reason = f"its process ended, {ATTEMPTS} times, or Ray gave it up; Ray's logs say why"
        yield at, Outcome(None, f"{todo[at].output}: {reason}")


class Shards:
    """What an actor holds: the tasks, and a worker, which loads the model at its first shard."""

    def __init__(self, home: str, worker: Worker, tasks: Sequence[Task]) -> None:
        enter(home)
        self.worker, self.tasks = worker, tasks

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """One shard. What it has to report comes with its outcome, but for how far it is."""
        events: list[Event] = []
        outcome = self.worker.attempt(self.tasks[batch["at"][0]], events.append)
        told = [event for event in events if event["event"] != "working"]
        return {"at": [batch["at"][0]], "result": [json.dumps([told, outcome])]}
