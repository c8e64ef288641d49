"""Shards on a Ray cluster, whose actors hold the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hanlattice.corpus.run import CorpusPlan, Engine
from hanlattice.corpus.worker import ShardWorker
from hanlattice.errors import HanlatticeError
from hanlattice.events import Listener
from hanlattice.inference.device import device_kind
from hanlattice.ray import connect
from hanlattice.tasks.on_ray import RayProcesses
from hanlattice.tasks.run import Outcome, run_tasks


def on_ray(address: str = "", workers: int | None = None) -> Engine:
    """Make an engine that runs actors on a cluster, each on a core or a GPU.

    Args:
        workers: how many actors; by default one for each core or GPU. If there are more than GPUs,
            they share them.
    """

    def engine(plan: CorpusPlan, listen: Listener) -> Iterator[tuple[int, Outcome]]:
        kind = "gpus" if device_kind(plan.settings.device) == "cuda" else "cpus"
        ray = connect(address)
        count = _count(ray, kind)
        most = workers or count
        share = 1 / math.ceil(most / count) if kind == "gpus" else 1
        processes = RayProcesses(ray, lambda task: {f"num_{kind}": share})
        team = [ShardWorker(plan.settings, plan.out, plan.digest)] * most
        for task, _, outcome in run_tasks(team, plan.todo, processes, listen):
            yield task, outcome

    return engine


def _count(ray: Any, resource: str) -> int:
    """How many of these the cluster has now."""
    count = int(ray.cluster_resources().get(resource.removesuffix("s").upper(), 0))
    if not count:
        raise HanlatticeError(
            f"this Ray cluster has no {resource}, and the model is to run on {resource}"
        )
    return count
