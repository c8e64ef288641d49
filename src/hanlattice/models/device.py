"""The device that a user names, checked before any work is done for it."""

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
