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

CONTEXT: Any = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
PAUSE = 0.5  # seconds between two steps that a run reports


@dataclass(frozen=True)
class CompareJob:
    """`do(device, listen, *arguments)` in a process of its own; `do` must be a function of a
    module.
    """

    name: str
    do: Callable[..., Record]
    arguments: tuple[Any, ...]
    path: Path  # of the record that it leaves
    device: str = ""  # where it must run; "" is anywhere
    cpus: int = 1  # that it needs


Result = tuple[CompareJob, str, Outcome]  # the job, its device, what came of it


class Machine:
    """Where jobs run: on the devices of this machine."""

    def __init__(self, devices: str, jobs: int, rows: Sequence[MatrixRow]) -> None:
        self.devices = find_devices(devices)
        self.slots = find_slots(self.devices, jobs, rows)

    def run(
        self, jobs: Sequence[CompareJob], listen: Listener, alone: bool = False
    ) -> Iterator[Result]:
        """Yield what came of the jobs, as they end; with `alone`, one after the other."""
        processes = LocalProcesses(CONTEXT, attempts=1, reuse=False)
        return run_jobs(jobs, self.devices[:1] if alone else self.slots, processes, listen)


def run_jobs(
    jobs: Sequence[CompareJob],
    slots: Sequence[str],
    processes: Processes,
    listen: Listener,
) -> Iterator[Result]:
    """Yield what came of the jobs, as they end.

    Args:
        slots: the devices. On each, one job runs at a time.
    """
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
        """Do a job. Of its steps, which may be thousands a second, report a few."""
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
    """`auto` is every CUDA device or, without one, the CPU; else a list such as `cuda:0,cuda:1`."""
    if words.strip() == "auto":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [f"cuda:{at}" for at in range(count)] or ["cpu"]
    found = [find_device(word.strip()) for word in words.split(",")]
    devices = [f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu" for device in found]
    if len(set(devices)) < len(devices):
        raise InputError(
            f"--devices {words} names a device twice; --jobs says how many runs are side by side on each"
        )
    return devices


def find_slots(devices: Sequence[str], jobs: int, rows: Sequence[MatrixRow]) -> list[str]:
    """A device for each run that is side by side with others, the devices in turn."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    on_cpu = max(1, min(cores // (row.config.train.threads or cores) for row in rows))
    counts = {device: jobs or (on_cpu if device == "cpu" else 1) for device in devices}
    return [
        device for at in range(max(counts.values())) for device in devices if at < counts[device]
    ]
