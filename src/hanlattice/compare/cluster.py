"""Jobs on a Ray cluster: a task for each. Ray finds it a place, and gives it another when a node is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hanlattice.compare.jobs import PAUSE, Job, Outcome, Result, attempt
from hanlattice.errors import InputError
from hanlattice.events import Event, Listener
from hanlattice.extras import extra
from hanlattice.ray import connect, enter


class Cluster:
    """Where jobs run: on the CPUs of a cluster, each on as many as its threads, or on its GPUs, `jobs` on each."""

    def __init__(self, address: str, devices: str, jobs: int) -> None:
        self.ray = connect(address)
        if devices not in ("auto", "cpu", "cuda"):
            raise InputError(f"with --engine ray, --devices is auto, cpu or cuda, not {devices}: Ray chooses which")
        gpus = self.ray.cluster_resources().get("GPU", 0)
        is_gpu = bool(gpus) if devices == "auto" else devices == "cuda"
        if is_gpu and not gpus:
            raise InputError("this Ray cluster has no GPU; use --devices cpu")
        if jobs and not is_gpu:
            raise InputError("with --engine ray, --jobs is for GPUs; on CPUs a run has `train.threads` of them")
        self.devices = ["cuda:0" if is_gpu else "cpu"]  # a task sees only its own GPU
        self.share = 1 / (jobs or 1) if is_gpu else 0

    def run(self, jobs: Sequence[Job], listen: Listener, alone: bool = False) -> Iterator[Result]:
        """What came of the jobs, as they end; with `alone`, one after the other."""
        for some in [[job] for job in jobs] if alone else [jobs]:
            yield from self._run(some, listen)

    def _run(self, jobs: Sequence[Job], listen: Listener) -> Iterator[Result]:
        ray, device, begun = self.ray, self.devices[0], set[str]()
        queue = extra("ray", "util.queue").Queue(actor_options={"num_cpus": 0})
        work = ray.remote(_work)
        needs = [{"name": job.name, "num_cpus": job.cpus, "num_gpus": self.share} for job in jobs]
        tasks = [
            work.options(**need).remote(str(Path.cwd()), job, device, queue)
            for need, job in zip(needs, jobs, strict=True)
        ]
        working = dict(zip(tasks, jobs, strict=True))

        def hear(event: Event) -> None:
            if event["event"] != "begin" or event["run"] not in begun:  # a task that has moved begins again
                listen(event)
            begun.add(event["run"])

        try:
            while working:
                ended, _ = ray.wait(list(working), timeout=PAUSE)
                for event in queue.get_nowait_batch(queue.qsize()):
                    hear(event)
                for task in ended:
                    job = working.pop(task)
                    hear({"event": "begin", "run": job.name, "device": device})
                    yield job, device, _outcome(ray, task)
        finally:  # whatever is still working can be ended: the same command continues
            for task in working:
                ray.cancel(task, force=True)
            queue.shutdown()


def _outcome(ray: Any, task: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(task)
        return outcome
    except ray.exceptions.RayError as error:
        return Outcome(None, str(error).strip().splitlines()[0])


def _work(home: str, job: Job, device: str, queue: Any) -> Outcome:
    """In the cluster: do the job, and send its events."""

    def send(event: Event) -> None:
        queue.put({**event, "run": job.name, "device": device})

    enter(home)
    send({"event": "begin"})
    return attempt(job, device, send)
