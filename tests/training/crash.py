"""Kill -9 in a process of its own, at a chosen moment: before the n-th time that something is put on disk."""

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
    ["hanlattice.training.loop", "hanlattice.pretrain.lm.train", "torch._dynamo"]
)  # what an optimiser imports takes a second


def killed_at_write(config: Config, folder: Path, moment: int, resume: bool = False) -> bool:
    """Train, killed at this moment. False when the training ended before the moment came."""
    return killed(_train_until_write, config, folder, moment, resume)


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


def die_at_write(moment: int) -> None:
    """Let this process be killed just before an fsync, a rename or a removal; after one is before the next.

    The removal of a part that was renamed already changes nothing, so it is no moment.
    """
    left = moment

    def watched(do: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            if not str(arguments[0]).endswith(".part") or Path(arguments[0]).exists():
                left -= 1
                if left < 0:
                    _die()
            return do(*arguments, **named)

        return watch

    os.fsync = watched(os.fsync)
    Path.replace = watched(Path.replace)  # type: ignore[method-assign]
    Path.unlink = watched(Path.unlink)  # type: ignore[method-assign]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _train_until_write(config: Config, folder: Path, moment: int, resume: bool) -> None:
    die_at_write(moment)
    train(config, folder, resume=resume)


def _train_until_step(config: Config, folder: Path, step: int, resume: bool) -> None:
    train(config, folder, resume=resume, listen=die_at_step(step))
