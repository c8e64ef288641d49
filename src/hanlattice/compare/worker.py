"""The other side of a pool: a process that does one task after the other and says how they go."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from hanlattice.compare.lock import working_in
from hanlattice.errors import HanlatticeError
from hanlattice.events import Event, Listener

EVENT, DONE, FAILED, MEMORY = "event", "done", "failed", "memory"
PAUSE = 0.5  # seconds between two steps that are told


def serve(talk: Connection, device: str, folder: Path) -> None:
    """Until the other side has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threads = torch.get_num_threads()
    with working_in(folder, alone=False):
        while True:
            try:
                do, arguments = talk.recv()
            except EOFError:
                return
            torch.set_num_threads(threads)  # train.threads = 0 leaves it as it is at first
            _send(talk, _done(do, device, _teller(talk), arguments))
            if device != "cpu":
                torch.cuda.empty_cache()


def _end_with_parent() -> None:
    """A killed parent cannot end its workers; without it they would write into a folder that is begun anew."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _done(do: Callable[..., Any], device: str, tell: Listener, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return DONE, do(device, tell, *arguments)
    except HanlatticeError as error:
        return FAILED, (str(error), "")
    except torch.OutOfMemoryError as error:
        return MEMORY, (f"out of memory on {device}: {str(error).splitlines()[0]}", "")
    except Exception as error:  # whatever it is, the other runs go on
        return FAILED, (f"{type(error).__name__}: {error}", traceback.format_exc())


def _teller(talk: Connection) -> Listener:
    """Events go to the other side; of steps, which may be thousands a second, a few."""
    told = float("-inf")

    def tell(event: Event) -> None:
        nonlocal told
        if event["event"] == "step":
            if time.monotonic() - told < PAUSE:
                return
            told = time.monotonic()
        _send(talk, (EVENT, event))

    return tell


def _send(talk: Connection, message: tuple[str, Any]) -> None:
    try:
        talk.send(message)
    except OSError:  # nobody is there any more
        os._exit(1)
