"""Kill -9 in a process of its own, at a chosen moment: before or after the n-th time that something is put on disk."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hanlattice.config import Config
from hanlattice.training.loop import train

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    ["hanlattice.training.loop", "torch._dynamo"]
)  # what an optimiser imports takes a second


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at_write(config: Config, folder: Path, moment: int, resume: bool = False) -> bool:
    """Train, killed at this moment. False when the training ended before the moment came."""
    return _run(_train_until_write, config, folder, moment, resume)


def killed_at_step(config: Config, folder: Path, step: int, resume: bool = False) -> bool:
    """Train, killed after so many steps."""
    return _run(_train_until_step, config, folder, step, resume)


def _run(target: Callable[..., None], *arguments: Any) -> bool:
    process = _server.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), f"the training ended with {process.exitcode}"
    return process.exitcode == -signal.SIGKILL


def _train_until_write(config: Config, folder: Path, moment: int, resume: bool) -> None:
    """Moments come in pairs, before and after each fsync, rename and removal."""
    left = moment

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            die()

    def watched(do: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            count_down()
            result = do(*arguments, **named)
            count_down()
            return result

        return watch

    os.fsync = watched(os.fsync)
    Path.replace = watched(Path.replace)  # type: ignore[method-assign]
    Path.unlink = watched(Path.unlink)  # type: ignore[method-assign]
    train(config, folder, resume=resume)


def _train_until_step(config: Config, folder: Path, step: int, resume: bool) -> None:
    left = step

    def listen(event: dict[str, Any]) -> None:
        nonlocal left
        left -= event["event"] == "step"
        if left < 0:
            die()

    train(config, folder, resume=resume, listen=listen)
