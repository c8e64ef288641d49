"""Which backends of the lattice LSTM a device can run, and what "auto" stands for there."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from hanlattice.errors import InputError
from hanlattice.ops.lattice_lstm import BACKENDS
from hanlattice.ops.lattice_lstm.backends import choose


def runnable(x: Tensor) -> dict[str, str]:
    """The backends for tensors like x, by the name to ask for, with their full names: "auto" → "native".

    Two names for the same thing come once: "auto" first, the others in their order. Triton's interpreter can run the
    fused kernels on a CPU, but it is there to test them.
    """
    found: dict[str, str] = {}
    for name in BACKENDS:
        if name.startswith("fused") and not x.is_cuda:
            continue
        try:
            full = _full_name(name, x)
        except InputError:
            continue
        if full not in found.values():
            found[name] = full
    return found


def _full_name(name: str, x: Tensor) -> str:
    """The module that does the work, and the precision if there is a choice."""
    call = choose(name, x).lattice_lstm
    if isinstance(call, partial):
        return f"{call.func.__module__.rpartition('.')[2]}-{call.keywords['precision']}"
    return call.__module__.rpartition(".")[2]
