"""Kill a process after a chosen step, and make operations on files fail."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import multiprocessing
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hanlattice.config import Config
from hanlattice.training.loop import train
from tests.helpers.patience import PATIENCE

_server = multiprocessing.get_context("forkserver")
Process = multiprocessing.context.ForkServerProcess


def preload(*modules: str) -> None:
    """Import modules once for all processes that start later."""
    # Importing torch._dynamo, which an optimiser does, takes a second.
    _server.set_forkserver_preload(
        ["hanlattice.training.loop", "hanlattice.lab.pretrain.lm.train", "torch._dynamo", *modules]
    )


preload()


def killed_at_step(config: Config, folder: Path, step: int, resume: bool = False) -> bool:
    """Train in another process, which is killed after this many steps."""
    return killed(_train_until_step, config, folder, step, resume)


def _as_here(target: Callable[..., None], *arguments: Any) -> None:
    # On ARM, a forked process computes without oneDNN (`ops.threads`), and rounds differently.
    # The parent of this one never computed, so it may use oneDNN.
    torch.backends.mkldnn.set_flags(True)
    target(*arguments)


def killed(target: Callable[..., None], *arguments: Any) -> bool:
    """Run a function in another process. Return False if it ended before it was killed."""
    process = start(target, *arguments)
    process.join(PATIENCE)
    assert process.exitcode in (0, -signal.SIGKILL), f"the training ended with {process.exitcode}"
    return process.exitcode == -signal.SIGKILL


def start(target: Callable[..., None], *arguments: Any) -> Process:
    """Start a function in another process."""
    process = _server.Process(target=_as_here, args=(target, *arguments))
    process.start()
    return process


def die_at_step(step: int) -> Callable[[dict[str, Any]], None]:
    """Return a listener that kills this process after this many steps."""
    left = step

    def listen(event: dict[str, Any]) -> None:
        nonlocal left
        left -= event["event"] == "step"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return listen


def moments(do: Callable[[], object], folder: Path, copies: Path) -> list[Path]:
    """Call a function, and return copies of a folder as kill -9 at any moment would leave it.

    The folder is copied before every fsync, rename and removal. Copies with the same files count
    once.
    """
    states: dict[tuple[tuple[str, bytes], ...], Path] = {}

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            files = sorted(file for file in folder.rglob("*") if file.is_file())
            state = tuple((str(file), file.read_bytes()) for file in files)
            if state and state not in states:
                states[state] = Path(shutil.copytree(folder, copies / str(len(states))))
            return call(*arguments, **named)

        return watch

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, watched(getattr(owner, name)))
        do()
    return list(states.values())


class Failing:
    """Let one operation on the files of a folder fail, as on a full or broken disk.

    Operations are opening to write, write, fsync, rename and removal. `count` counts them.

    Args:
        folder: Other files are left alone.
        at: Index of the operation that fails. Default: none fails.
        error: Number of the error.
    """

    def __init__(self, folder: Path, at: int | None = None, error: int = errno.ENOSPC) -> None:
        self.folder = folder
        self.at = at
        self.error = error
        self.count = 0
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Failing:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            self._patch.setattr(owner, name, self._counted(getattr(owner, name)))
        opened = self._opened(io.open)
        for owner in (io, builtins):
            self._patch.setattr(owner, "open", opened)
        return self

    def _opened(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            ours = isinstance(file, (str, Path)) and Path(file).is_relative_to(self.folder)
            if not ours or not set(mode) & set("wxa"):
                return call(file, mode, *arguments, **named)
            return _Written(self._counted(call)(file, mode, *arguments, **named), self._counted)

        return opened

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count - 1 == self.at:
                raise OSError(self.error, os.strerror(self.error))
            return call(*arguments, **named)

        return counted


class _Written:
    """A file whose every write is counted, and may fail."""

    def __init__(
        self, file: Any, counted: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self._file = file
        self.write = counted(file.write)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of files inside the block: larger writes fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _train_until_step(config: Config, folder: Path, step: int, resume: bool) -> None:
    train(config, folder, resume=resume, listen=die_at_step(step))
