"""What the tests let workers do. These begin from a server that has torch loaded, since spawning takes seconds."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch

from hanlattice.errors import InputError
from hanlattice.events import Listener

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["hanlattice.compare.run", "hanlattice.training.loop", "hanlattice.pretrain.lm.train", "torch._dynamo"]
)


def answer(device: str, tell: Listener, value: Any) -> tuple[str, Any, int]:
    tell({"event": "asked", "value": value})
    return device, value, os.getpid()


def refuse(device: str, tell: Listener, words: str) -> None:
    raise InputError(words)


def stumble(device: str, tell: Listener, words: str) -> None:
    raise KeyError(words)


def die(device: str, tell: Listener, how: int) -> None:
    os.kill(os.getpid(), how)


def leave(device: str, tell: Listener, code: int) -> None:
    os._exit(code)


def many_steps(device: str, tell: Listener, count: int) -> None:
    for at in range(count):
        tell({"event": "step", "at": at})


def threads(device: str, tell: Listener, count: int) -> int:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    return before


def meet(device: str, tell: Listener, folder: Path, name: str, others: int) -> None:
    """Ends when so many are here at the same time."""
    (folder / name).touch()
    end = time.monotonic() + 60
    while len(list(folder.iterdir())) < others:
        assert time.monotonic() < end, "nobody came"
        time.sleep(0.01)


def too_large(device: str, tell: Listener, folder: Path, name: str) -> str:
    """Out of memory the first time; both of two such tasks are at work when it happens."""
    if (folder / name).exists():
        return "done"
    meet(device, tell, folder, name, 2)
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate\nmore lines")


def always_too_large(device: str, tell: Listener) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


def wait_forever(device: str, tell: Listener, folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    signal.pause()
