"""Devices and threads by the names that a user gives."""

from __future__ import annotations

import re

import torch

from hanlattice.errors import InputError


def find_device(name: str) -> torch.device:
    """`cpu`, `cuda` or `cuda:1`, if this machine has it."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", name):
        raise InputError(f"no device is called {name!r}: expected cpu, cuda, or cuda:0 and so on")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"{name} was asked for, and torch finds no CUDA device here; use cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"{name} was asked for, and there are {torch.cuda.device_count()} CUDA devices, from cuda:0")
    return device


def use_threads(count: int) -> None:
    """Use so many CPU threads in one operation; 0 leaves the choice to torch.

    The C code gives each thread whole sentences and synchronises once a batch; each of torch's own operations waits
    for its slowest thread. More threads are faster on an idle machine; one is faster where other programs run.
    """
    if count:
        torch.set_num_threads(count)
