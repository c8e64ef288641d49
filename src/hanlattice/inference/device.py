"""Devices and threads by the names that a user gives."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from hanlattice.checks import brief
from hanlattice.errors import InputError
from hanlattice.ops.threads import share_with_torch
from hanlattice.ops.threads import use as use_threads
from hanlattice.optional import require

if TYPE_CHECKING:
    import torch

__all__ = ["device_kind", "find_device", "load_torch", "use_threads"]


def device_kind(name: str) -> str:
    """cpu or cuda, whether or not this machine has it."""
    if not isinstance(name, str):
        raise TypeError(
            f"a device must be a str such as cpu or cuda:0, not {type(name).__name__}: {brief(name)}"
        )
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", name):
        raise InputError(f"no device is called {name!r}: expected cpu, cuda, or cuda:0 and so on")
    return name.partition(":")[0]


def load_torch() -> None:
    """Import torch, and give it the threads that were asked for while it was not loaded."""
    is_loaded = "torch" in sys.modules
    require("torch")
    # A number that a program has given to torch itself stays.
    if not is_loaded:
        share_with_torch()


def find_device(name: str) -> torch.device:
    """`cpu`, `cuda` or `cuda:1`, if this machine has it."""
    device_kind(name)
    load_torch()
    import torch

    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"{name} was asked for, and torch finds no CUDA device here; use cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"{name} was asked for, and there are {torch.cuda.device_count()} CUDA devices, from cuda:0"
        )
    return device
