"""Jobs on a Ray cluster, each in an actor of its own, for which Ray finds a place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hanlattice.errors import InputError
from hanlattice.events import Listener
from hanlattice.lab.compare.jobs import CompareJob, Result, run_jobs
from hanlattice.ray import connect
from hanlattice.tasks.on_ray import RayProcesses


class Cluster:
    """Where jobs run: on the CPUs of a cluster, each on as many as its threads, or on its GPUs,
    `jobs` on each.
    """

    def __init__(self, address: str, devices: str, jobs: int) -> None:
        self.ray = connect(address)
        if devices not in ("auto", "cpu", "cuda"):
            raise InputError(
                f"with --engine ray, --devices is auto, cpu or cuda, not {devices}: Ray chooses which"
            )
        gpus = self.ray.cluster_resources().get("GPU", 0)
        is_gpu = bool(gpus) if devices == "auto" else devices == "cuda"
        if is_gpu and not gpus:
            raise InputError("this Ray cluster has no GPU; use --devices cpu")
        if jobs and not is_gpu:
            raise InputError(
                "with --engine ray, --jobs is for GPUs; on CPUs a run has `train.threads` of them"
            )
        self.devices = ["cuda:0" if is_gpu else "cpu"]  # a task sees only its own GPU
        self.share = 1 / (jobs or 1) if is_gpu else 0

    def run(
        self, jobs: Sequence[CompareJob], listen: Listener, alone: bool = False
    ) -> Iterator[Result]:
        """Yield what came of the jobs, as they end; with `alone`, one after the other."""
        slots = self.devices if alone else self.devices * len(jobs)
        return run_jobs(jobs, slots, RayProcesses(self.ray, self._needs, reuse=False), listen)

    def _needs(self, job: CompareJob) -> dict[str, Any]:
        return {"num_cpus": job.cpus, "num_gpus": self.share}
