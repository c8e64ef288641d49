"""Settings and models that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
import torch

from hanlattice.lab.pretrain.lm.train import train_language_model
from hanlattice.predict import Predictor, load
from hanlattice.training.loop import train
from tests.helpers.lm import tiny, write_text
from tests.helpers.made import made_config, write_language_model, write_made, write_transformer

hypothesis.settings.register_profile(
    "project",
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# `make quick` draws fewer examples.
hypothesis.settings.register_profile(
    "quick", parent=hypothesis.settings.get_profile("project"), max_examples=10
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "project"))
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the file that takes longest first, so that no process ends long after the others."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the artificial corpus and its vectors. Tests must not write into it."""
    folder = tmp_path_factory.mktemp("made")
    write_made(folder)
    return folder


@pytest.fixture(scope="session")
def lattice_folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained lattice model. Tests must not write into it."""
    return train(made_config(made), tmp_path_factory.mktemp("models") / "lattice").folder


@pytest.fixture(scope="session")
def char_folder(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained character model. Tests must not write into it."""
    config = made_config(made, model__encoder="char")
    return train(config, tmp_path_factory.mktemp("models") / "char").folder


@pytest.fixture(scope="session")
def lm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained language model. Tests must not write into it."""
    return write_language_model(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="session")
def transformer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random transformer. Tests must not write into it."""
    return write_transformer(tmp_path_factory.mktemp("transformer"))


@pytest.fixture(scope="session")
def lm_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw text: 60 lines, of which 6 are held out; about 20 chunks an epoch."""
    return write_text(tmp_path_factory.mktemp("text") / "text.txt")


@pytest.fixture(scope="session")
def trained_lm(lm_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of `lm_text` in both directions. Tests must not write into it."""
    folder = tmp_path_factory.mktemp("models") / "lm"
    train_language_model(tiny(), [lm_text], folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of an empty cache folder for one test."""
    monkeypatch.setenv("HANLATTICE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tagger(lattice_folder: Path) -> Predictor:
    """The lattice model, loaded anew, so that a test may change its lexicon."""
    return load(lattice_folder)
