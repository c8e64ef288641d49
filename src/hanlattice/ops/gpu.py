"""Whether Triton kernels can run here, and on which device they are launched."""

from __future__ import annotations

import os
import shutil
from contextlib import AbstractContextManager
from functools import cache

import torch
from torch import Tensor

OLDEST = (3, 2)  # Triton: arguments can be kept out of its specialisation on alignment


def why_not(x: Tensor) -> str:
    """What keeps Triton kernels from tensors like x; "" if nothing does. Its interpreter takes
    those of a CPU.
    """
    reason = _no_triton()
    if not reason and x.is_cuda:
        return _no_gpu(x.device)
    if not reason and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it needs a CUDA device, and the tensors are on {x.device}"
    return reason


def device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Inside, the tensor's device is the current one, on which Triton launches."""
    current: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return current


@cache
def _no_triton() -> str:
    try:
        import triton
    except ImportError:
        return "Triton is not installed: it comes with PyTorch for CUDA, or by pip install 'hanlattice[triton]'"
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST:
        return f"it needs Triton {'.'.join(map(str, OLDEST))} or newer, and {triton.__version__} is installed"
    return ""


@cache
def _no_gpu(device: torch.device) -> str:
    """What a GPU that is there must also have."""
    if torch.version.hip is not None:
        return "its kernels were never tried on ROCm"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return f"{torch.cuda.get_device_name(device)} is older than compute capability 8.0"
    if not any(
        shutil.which(name) for name in (os.environ.get("CC", ""), "cc", "gcc", "clang") if name
    ):
        return "Triton needs a C compiler at run time: install gcc or clang, or set CC"
    return ""
