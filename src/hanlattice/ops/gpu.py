"""Whether Triton kernels can run here, and on which device they are launched."""

from __future__ import annotations

import os
import shutil
from contextlib import AbstractContextManager
from functools import cache

import torch
from torch import Tensor

# From this Triton on, arguments can be kept out of its specialisation on alignment.
OLDEST = (3, 2)


def why_not(x: Tensor) -> str:
    """Return why Triton kernels cannot take tensors like x, or "" if they can.

    On a CPU, Triton's interpreter can take them.
    """
    reason = _no_triton()
    if not reason and x.is_cuda:
        return _no_gpu(x.device)
    if not reason and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it needs a CUDA device, and the tensors are on {x.device}"
    return reason


def device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Make the tensor's device the current one, on which Triton launches, inside `with`."""
    current: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return current


@cache
def _no_triton() -> str:
    try:
        import triton
    except ImportError:
        install = "it comes with PyTorch for CUDA, or by pip install 'hanlattice[triton]'"
        return f"Triton is not installed: {install}"
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"it needs Triton {oldest} or newer, and {triton.__version__} is installed"
    return ""


@cache
def _no_gpu(device: torch.device) -> str:
    if torch.version.hip is not None:
        return "its kernels were never tried on ROCm"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} is older than compute capability 8.0"
    compilers = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    if not any(shutil.which(name) for name in compilers if name):
        return "Triton needs a C compiler at run time: install gcc or clang, or set CC"
    return ""
