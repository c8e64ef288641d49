"""Which backends of the lattice LSTM a device can run, and what "auto" stands for there."""

from __future__ import annotations

from torch import Tensor

from hanlattice.errors import InputError
from hanlattice.ops.lattice_lstm import BACKENDS
from hanlattice.ops.lattice_lstm.backends import choose, resolve


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
            choose(name, x)
        except InputError:  # it cannot run here
            continue
        if resolve(name, x) not in found.values():
            found[name] = resolve(name, x)
    return found
