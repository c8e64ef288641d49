"""What the tests let processes do instead of trainings."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from hanlattice.errors import InputError
from hanlattice.events import Listener
from tests.helpers.patience import PATIENCE


def answer(device: str, listen: Listener, value: Any) -> dict[str, Any]:
    listen({"event": "asked", "value": value})
    return {"value": value, "process": os.getpid()}


def refuse(device: str, listen: Listener, words: str) -> None:
    raise InputError(words)


def stumble(device: str, listen: Listener, words: str) -> None:
    raise KeyError(words)


def die(device: str, listen: Listener, how: int) -> None:
    os.kill(os.getpid(), how)


def leave(device: str, listen: Listener, code: int) -> None:
    os._exit(code)


def many_steps(device: str, listen: Listener, count: int) -> dict[str, Any]:
    for at in range(count):
        listen({"event": "step", "at": at})
    return {}


def meet(device: str, listen: Listener, folder: Path, name: str, others: int) -> dict[str, Any]:
    """Ends when so many are here at the same time."""
    (folder / name).touch()
    end = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < others:
        assert time.monotonic() < end, "nobody came"
        time.sleep(0.01)
    return {}


def wait_forever(device: str, listen: Listener) -> None:
    listen({"event": "waiting", "process": os.getpid()})
    signal.pause()
