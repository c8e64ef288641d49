"""Workers that begin quickly, and small configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanlattice.compare import pool
from tests.compare.tasks import SERVER
from tests.made import made_tree, write_made, write_toml


@pytest.fixture(autouse=True)
def _quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "CONTEXT", SERVER)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus on which an epoch takes a moment. Nobody writes into it."""
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=40)
    return folder


@pytest.fixture
def toml(tiny: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a configuration of that corpus: `toml("a", train__epochs=3)`."""

    def write(name: str, **changes: Any) -> Path:
        settings = {"train__epochs": 2, "model__hidden": 4, "model__encoder": "char", **changes}
        return write_toml(tmp_path / f"{name}.toml", made_tree(tiny, **settings))

    return write
