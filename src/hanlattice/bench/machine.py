"""Where, and with what, figures were taken."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

from hanlattice import __version__
from hanlattice.extras import installed
from hanlattice.ops import library

_CPUINFO = Path("/proc/cpuinfo")


def versions() -> dict[str, Any]:
    """None for what is not there."""
    return {
        "hanlattice": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": installed("triton"),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "rjieba": installed("rjieba"),
    }


def machine(device: torch.device) -> dict[str, Any]:
    on_gpu = device.type == "cuda"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "native": library.missing() or library.loaded().level,  # its instruction set, or why it is not there
    }


def _cpu() -> str:
    lines = _CPUINFO.read_text(encoding="utf-8").splitlines() if _CPUINFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
