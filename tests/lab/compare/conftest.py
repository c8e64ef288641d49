"""Processes that start quickly, and small configurations."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hanlattice.lab.compare import jobs
from tests.helpers.made import made_tree, write_made, write_toml

SERVER = multiprocessing.get_context(
    "forkserver"
)  # it has torch loaded, which takes seconds in a spawned process
SERVER.set_forkserver_preload(
    [
        "hanlattice.lab.compare.run",
        "hanlattice.training.loop",
        "hanlattice.lab.pretrain.lm.train",
        "torch._dynamo",
    ]
)


@pytest.fixture(autouse=True, scope="module")
def _quick_processes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "CONTEXT", SERVER)
        yield


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus on which an epoch takes a moment. Nobody writes into it."""
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=40)
    return folder


@pytest.fixture
def toml(tiny: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a configuration of that corpus: `toml("a", train__epochs=3)`."""
    return lambda name, **changes: write_small(tmp_path / f"{name}.toml", tiny, **changes)


def write_small(path: Path, corpus: Path, **changes: Any) -> Path:
    """A configuration that trains in a moment."""
    settings = {"train__epochs": 2, "model__hidden": 4, "model__encoder": "char", **changes}
    return write_toml(path, made_tree(corpus, **settings))
