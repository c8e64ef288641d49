"""Short names for what the tests of this folder use most; and no plots, which take longer than a
small training.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hanlattice.lab.pretrain.lm import folder


@pytest.fixture(scope="session")
def text(lm_text: Path) -> Path:
    return lm_text


@pytest.fixture(scope="session")
def trained(trained_lm: Path) -> Path:
    return trained_lm


@pytest.fixture(autouse=True)
def no_plots(trained_lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `trained_lm`, which has them."""
    monkeypatch.setattr(folder, "can_plot", lambda: False)
