"""Find devices by the names that users give them, and set the number of threads."""

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
    """Return `cpu` or `cuda` for a device name, whether or not this machine has the device."""
    if not isinstance(name, str):
        kind = type(name).__name__
        raise TypeError(f"a device must be a str such as cpu or cuda:0, not {kind}: {brief(name)}")
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", name):
        raise InputError(f"no device is called {name!r}: expected cpu, cuda, or cuda:0 and so on")
    return name.partition(":")[0]


def load_torch() -> None:
    """Import torch. If that is the first import, pass on the number of threads set so far."""
    is_loaded = "torch" in sys.modules
    require("torch")
    # A program that imported torch itself may have set its threads, and keeps them.
    if not is_loaded:
        share_with_torch()


def find_device(name: str) -> torch.device:
    """Return the device called `cpu`, `cuda` or `cuda:1`; refuse one that this machine lacks."""
    device_kind(name)
    load_torch()
    import torch

    device = torch.device(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InputError(f"{name} was asked for, and torch finds no CUDA device here; use cpu")
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise InputError(
                f"{name} was asked for, and there are {count} CUDA devices, from cuda:0"
            )
    return device
