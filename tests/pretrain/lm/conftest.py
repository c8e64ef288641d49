"""Text and a language model that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hanlattice.pretrain.lm.train import train_language_model
from tests.pretrain.lm.made import tiny, write_text


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """Sixty lines, of which six are held out; about twenty chunks an epoch."""
    return write_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="session")
def trained(text, tmp_path_factory) -> Path:
    """Both directions. Nobody writes into it."""
    folder = tmp_path_factory.mktemp("models") / "lm"
    train_language_model(tiny(), [text], folder)
    return folder
