"""What tests on a GPU share."""

from __future__ import annotations

from collections.abc import Callable

import torch


def run_without_waiting(step: Callable[[], None]) -> None:
    """Run a step twice; in the second run, any wait for the GPU is an error."""
    # The first run compiles everything, which waits.
    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
