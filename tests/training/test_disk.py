"""Every operation on the disk fails once, while a model is trained and packed: an OutputError, and all can go on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hanlattice.errors import OutputError
from hanlattice.models.folder import load_model
from hanlattice.training.loop import train
from hanlattice.training.pack import pack
from tests.training.crash import Failing, largest_file
from tests.training.test_loop import assert_same_run, config_of, tiny  # noqa: F401 (a fixture)

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)
EVERY = int(os.environ.get("HANLATTICE_EVERY", "7"))  # which of the operations of training fail: 1 is all


def test_training_goes_on_after_any_failure(tiny: Path, tmp_path: Path) -> None:  # noqa: F811
    config = config_of(tiny, train__epochs=2)
    with Failing() as whole:
        train(config, tmp_path / "whole")
    for at in range(0, whole.count, EVERY):
        folder = tmp_path / str(at)
        with Failing(at, ERRORS[at % 3]), pytest.raises(OutputError):
            train(config, folder)
        train(config, folder, resume=True)
        assert_same_run(folder, tmp_path / "whole")


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_training_goes_on_after_a_full_disk(tiny: Path, tmp_path: Path, size: int) -> None:  # noqa: F811
    config = config_of(tiny, train__epochs=1)
    with largest_file(size), pytest.raises(OutputError, match="cannot write"):
        train(config, tmp_path / "run")
    train(config, tmp_path / "run", resume=True)
    assert not [file for file in (tmp_path / "run").iterdir() if file.name.endswith(".part")]
    load_model(tmp_path / "run")


def test_packing_leaves_no_model_or_a_whole_one(lattice_folder: Path, tmp_path: Path) -> None:
    with Failing() as whole:
        pack(lattice_folder, tmp_path / "whole")
    assert whole.count >= 8
    for at in range(whole.count):
        with Failing(at, ERRORS[at % 3]), pytest.raises(OutputError):
            pack(lattice_folder, tmp_path / str(at))
        if (tmp_path / str(at) / "model.safetensors").exists():
            load_model(tmp_path / str(at))
