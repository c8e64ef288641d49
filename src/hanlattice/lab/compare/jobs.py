"""Jobs side by side on the devices of this machine, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hanlattice.errors import InputError
from hanlattice.events import Event, Listener
from hanlattice.inference.device import find_device
from hanlattice.lab.compare.job import Record
from hanlattice.lab.compare.matrix import MatrixRow
from hanlattice.tasks.local import LocalProcesses
from hanlattice.tasks.run import Outcome, Processes, run_tasks

# A forked process cannot use CUDA.
CONTEXT: Any = multiprocessing.get_context("spawn")
# Seconds between two steps that a run reports.
PAUSE = 0.5
# A job, its device, and its outcome.
Result = tuple["CompareJob", str, Outcome]


@dataclass(frozen=True)
class CompareJob:
    """The call `do(device, listen, *arguments)` of a module's function, in its own process.

    It leaves a record at `path`, needs `cpus`, and must run on `device`, or anywhere if "".
    """

    name: str
    do: Callable[..., Record]
    arguments: tuple[Any, ...]
    path: Path
    device: str = ""
    cpus: int = 1


class Machine:
    """The devices of this machine, and the slots of jobs on them."""

    def __init__(self, devices: str, jobs: int, rows: Sequence[MatrixRow]) -> None:
        self.devices = find_devices(devices)
        self.slots = find_slots(self.devices, jobs, rows)

    def run(
        self, jobs: Sequence[CompareJob], listen: Listener, alone: bool = False
    ) -> Iterator[Result]:
        """Yield the result of each job as it ends; with `alone`, run one after the other."""
        processes = LocalProcesses(CONTEXT, attempts=1, reuse=False)
        return run_jobs(jobs, self.devices[:1] if alone else self.slots, processes, listen)


def run_jobs(
    jobs: Sequence[CompareJob], slots: Sequence[str], processes: Processes, listen: Listener
) -> Iterator[Result]:
    """Yield the result of each job as it ends; each of `slots` is a device for one at a time."""
    begun = set[str]()

    def hear(event: Event) -> None:
        event = dict(event)
        name = jobs[event.pop("task")].name
        # A job whose process is replaced begins again.
        if event["event"] != "begin" or name not in begun:
            listen({**event, "run": name})
        if event["event"] == "begin":
            begun.add(name)

    workers = [JobWorker(device) for device in slots]
    for task, worker, outcome in run_tasks(workers, jobs, processes, hear, JobWorker.accepts):
        # Its process may have died before it could say that it begins.
        hear({"event": "begin", "task": task, "device": worker.device})
        yield jobs[task], worker.device, outcome


@dataclass(frozen=True)
class JobWorker:
    """Does jobs on one device."""

    device: str

    def accepts(self, job: CompareJob) -> bool:
        return job.device in ("", self.device)

    def attempt(self, job: CompareJob, emit: Listener) -> Outcome:
        """Do a job, and report a few of its steps, which may be thousands a second."""
        last = float("-inf")

        def listen(event: Event) -> None:
            nonlocal last
            if event["event"] == "step":
                if time.monotonic() - last < PAUSE:
                    return
                last = time.monotonic()
            emit({**event, "device": self.device})

        listen({"event": "begin"})
        return Outcome(job.do(self.device, listen, *job.arguments))


def find_devices(words: str) -> list[str]:
    """Read a list such as `cuda:0,cuda:1`; `auto` is every CUDA device or, without one, the CPU."""
    if words.strip() == "auto":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [f"cuda:{index}" for index in range(count)] or ["cpu"]
    listed = [find_device(word.strip()) for word in words.split(",")]
    devices = [f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu" for device in listed]
    if len(set(devices)) < len(devices):
        advice = "--jobs says how many runs are side by side on each"
        raise InputError(f"--devices {words} names a device twice; {advice}")
    return devices


def find_slots(devices: Sequence[str], jobs: int, rows: Sequence[MatrixRow]) -> list[str]:
    """Return a device for each run that is side by side with others, the devices in turn."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    on_cpu = max(1, min(cores // (row.config.train.threads or cores) for row in rows))
    counts = {device: jobs or (on_cpu if device == "cpu" else 1) for device in devices}
    turns = range(max(counts.values()))
    return [device for turn in turns for device in devices if turn < counts[device]]
