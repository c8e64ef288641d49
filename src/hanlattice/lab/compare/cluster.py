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
    """The CPUs or GPUs of a cluster. A job takes its threads, or a GPU that `jobs` share."""

    def __init__(self, address: str, devices: str, jobs: int) -> None:
        self.ray = connect(address)
        if devices not in ("auto", "cpu", "cuda"):
            wanted = f"--devices is auto, cpu or cuda, not {devices}"
            raise InputError(f"with --engine ray, {wanted}: Ray chooses which")
        gpus = self.ray.cluster_resources().get("GPU", 0)
        is_gpu = bool(gpus) if devices == "auto" else devices == "cuda"
        if is_gpu and not gpus:
            raise InputError("this Ray cluster has no GPU; use --devices cpu")
        if jobs and not is_gpu:
            raise InputError(
                "with --engine ray, --jobs is for GPUs; on CPUs a run has `train.threads` of them"
            )
        # A task sees only its own GPU.
        self.devices = ["cuda:0" if is_gpu else "cpu"]
        self.share = 1 / (jobs or 1) if is_gpu else 0

    def run(
        self, jobs: Sequence[CompareJob], listen: Listener, alone: bool = False
    ) -> Iterator[Result]:
        """Yield the result of each job as it ends; with `alone`, run one after the other."""

        def needs(job: CompareJob) -> dict[str, Any]:
            return {"num_cpus": job.cpus, "num_gpus": self.share}

        slots = self.devices if alone else self.devices * len(jobs)
        return run_jobs(jobs, slots, RayProcesses(self.ray, needs, reuse=False), listen)
