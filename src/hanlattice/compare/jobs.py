"""Jobs side by side: a process for each, on the devices of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hanlattice.compare.job import Record
from hanlattice.compare.matrix import MatrixRow
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.events import Event, Listener
from hanlattice.models.device import find_device

CONTEXT: Any = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
PAUSE = 0.5  # seconds between two steps that a run reports


@dataclass(frozen=True)
class Job:
    """`do(device, listen, *arguments)` in a process of its own; `do` must be a function of a module."""

    name: str
    do: Callable[..., Record]
    arguments: tuple[Any, ...]
    path: Path  # of the record that it leaves
    device: str = ""  # where it must run; "" is anywhere
    cpus: int = 1  # that it needs


class Outcome(NamedTuple):
    record: Record | None  # None if it failed
    reason: str = ""  # why
    trace: str = ""  # where, if it is not a mistake of the user


Result = tuple[Job, str, Outcome]  # the job, its device, what came of it


class Machine:
    """Where jobs run: on the devices of this machine."""

    def __init__(self, devices: str, jobs: int, rows: Sequence[MatrixRow]) -> None:
        self.devices = find_devices(devices)
        self.slots = find_slots(self.devices, jobs, rows)

    def run(self, jobs: Sequence[Job], listen: Listener, alone: bool = False) -> Iterator[Result]:
        """What came of the jobs, as they end; with `alone`, one after the other."""
        return run_jobs(jobs, self.devices[:1] if alone else self.slots, listen)


def run_jobs(jobs: Sequence[Job], slots: Sequence[str], listen: Listener) -> Iterator[Result]:
    """What came of the jobs, as they end. A slot is a device on which one job runs at a time."""
    waiting, free = list(jobs), list(slots)
    working: dict[Any, tuple[Job, str, Any]] = {}  # by connection: the job, its device, its process
    try:
        while waiting or working:
            for device in tuple(free):
                job = next((job for job in waiting if job.device in ("", device)), None)
                if job is not None:
                    waiting.remove(job)
                    free.remove(device)
                    listen({"event": "begin", "run": job.name, "device": device})
                    ours, process = _start(job, device)
                    working[ours] = job, device, process
            ready = wait(list(working))
            for connection in [each for each in working if each in ready]:
                job, device, process = working[connection]
                message = _receive(connection, process)
                if not isinstance(message, Outcome):
                    listen({**message, "run": job.name, "device": device})
                    continue
                del working[connection]
                connection.close()
                process.join()
                free.append(device)
                yield job, device, message
    finally:  # whatever is still working can be killed: the same command continues
        for _, _, process in working.values():
            process.kill()
        for _, _, process in working.values():
            process.join()


def _start(job: Job, device: str) -> tuple[Connection, Any]:
    """The process never sees the Ctrl-C that a terminal sends to all: its parent ends it."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(theirs, job, device), daemon=True)
    with contextlib.ExitStack() as stack:
        if hasattr(signal, "pthread_sigmask"):  # not on Windows
            resource_tracker.ensure_running()  # started with the signal blocked, it would unblock it
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        process.start()
    theirs.close()  # so that the end of the process is seen here
    return ours, process


def _receive(connection: Connection, process: Any) -> Event | Outcome:
    """What a process says next; if it has died, that."""
    try:
        message: Event | Outcome = connection.recv()
        return message
    except (EOFError, OSError):
        process.join()
    if process.exitcode >= 0:
        return Outcome(None, f"its process ended with exit code {process.exitcode}")
    name = signal.Signals(-process.exitcode).name
    guess = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return Outcome(None, f"its process was ended by {name}{guess}")


def _work(connection: Connection, job: Job, device: str) -> None:
    """In the process: do the job, and send its events and outcome."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome = attempt(job, device, connection.send)
    with contextlib.suppress(BrokenPipeError):
        connection.send(outcome)


def attempt(job: Job, device: str, send: Listener) -> Outcome:
    """Do a job; whatever goes wrong is in the outcome."""
    try:
        return Outcome(job.do(device, _throttled(send), *job.arguments))
    except HanlatticeError as error:
        return Outcome(None, str(error))
    except Exception as error:  # whatever it is, the other runs go on
        return Outcome(None, f"{type(error).__name__}: {error}", traceback.format_exc())


def _end_with_parent() -> None:
    """A parent that is killed cannot end its processes, and they must not write into a folder that is resumed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _throttled(send: Listener) -> Listener:
    """Passes events on; of steps, which may be thousands a second, a few."""
    last = float("-inf")

    def listen(event: Event) -> None:
        nonlocal last
        if event["event"] == "step":
            if time.monotonic() - last < PAUSE:
                return
            last = time.monotonic()
        send(event)

    return listen


def find_devices(words: str) -> list[str]:
    """`auto` is every CUDA device or, without one, the CPU; else a list such as `cuda:0,cuda:1`."""
    if words.strip() == "auto":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [f"cuda:{at}" for at in range(count)] or ["cpu"]
    found = [find_device(word.strip()) for word in words.split(",")]
    devices = [f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu" for device in found]
    if len(set(devices)) < len(devices):
        raise InputError(f"--devices {words} names a device twice; --jobs says how many runs are side by side on each")
    return devices


def find_slots(devices: Sequence[str], jobs: int, rows: Sequence[MatrixRow]) -> list[str]:
    """A device for each run that is side by side with others, the devices in turn."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    on_cpu = max(1, min(cores // (row.config.train.threads or cores) for row in rows))
    counts = {device: jobs or (on_cpu if device == "cpu" else 1) for device in devices}
    return [device for at in range(max(counts.values())) for device in devices if at < counts[device]]
