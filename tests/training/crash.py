"""Kill -9 in a process of its own after a chosen step, and what it would leave at each moment that touches the disk."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanlattice.config import Config
from hanlattice.training.loop import train

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    ["hanlattice.training.loop", "hanlattice.pretrain.lm.train", "torch._dynamo"]
)  # what an optimiser imports takes a second


def killed_at_step(config: Config, folder: Path, step: int, resume: bool = False) -> bool:
    """Train, killed after so many steps."""
    return killed(_train_until_step, config, folder, step, resume)


def killed(target: Callable[..., None], *arguments: Any) -> bool:
    """Run it in a process of its own. False when it ended before it was killed."""
    process = _server.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), f"the training ended with {process.exitcode}"
    return process.exitcode == -signal.SIGKILL


def die_at_step(step: int) -> Callable[[dict[str, Any]], None]:
    """A listener that kills this process after so many steps."""
    left = step

    def listen(event: dict[str, Any]) -> None:
        nonlocal left
        left -= event["event"] == "step"
        if left < 0:
            _die()

    return listen


def moments(do: Callable[[], object], folder: Path, copies: Path) -> list[Path]:
    """Do it, and copy the folder before every fsync, rename and removal: what kill -9 at that moment would leave.

    After one is before the next. Moments that leave the same files are one.
    """
    found: dict[tuple[tuple[str, bytes], ...], Path] = {}

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            left = tuple((str(file), file.read_bytes()) for file in sorted(folder.rglob("*")) if file.is_file())
            if left and left not in found:
                found[left] = Path(shutil.copytree(folder, copies / str(len(found))))
            return call(*arguments, **named)

        return watch

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, watched(getattr(owner, name)))
        do()
    return list(found.values())


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _train_until_step(config: Config, folder: Path, step: int, resume: bool) -> None:
    train(config, folder, resume=resume, listen=die_at_step(step))
