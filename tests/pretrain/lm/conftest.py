"""Short names for what the tests of this folder use most."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def text(lm_text: Path) -> Path:
    return lm_text


@pytest.fixture(scope="session")
def trained(trained_lm: Path) -> Path:
    return trained_lm
