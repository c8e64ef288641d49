"""A failing disk, at every operation in training, packing and corpora, is an OutputError."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from hanlattice.checkpoint.load import load_model
from hanlattice.corpus.run import CorpusPlan, run
from hanlattice.corpus.settings import CorpusSettings
from hanlattice.corpus.worker import ShardWorker
from hanlattice.errors import HanlatticeError, OutputError
from hanlattice.events import Listener
from hanlattice.tasks.run import Outcome
from hanlattice.training.loop import train
from hanlattice.training.pack import pack
from tests.corpus.test_run import content, texts
from tests.helpers.crash import Failing, largest_file
from tests.training.test_loop import assert_same_run, config_of, tiny  # noqa: F401 (a fixture)

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO)
EVERY = int(os.environ.get("HANLATTICE_EVERY", "23"))  # which of the operations fail: 1 is all


def test_training_goes_on_after_any_failure(tiny: Path, tmp_path: Path) -> None:  # noqa: F811
    config = config_of(tiny, train__epochs=2)
    with Failing(tmp_path) as whole:
        train(config, tmp_path / "whole")
    for at in range(0, whole.count, EVERY):
        folder = tmp_path / str(at)
        with Failing(folder, at, ERRORS[at % 3]), pytest.raises(OutputError):
            train(config, folder)
        train(config, folder, resume=folder.exists())
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
    with Failing(tmp_path) as whole:
        pack(lattice_folder, tmp_path / "whole")
    assert whole.count >= 8
    for at in range(0, whole.count, max(1, EVERY // 2)):
        with Failing(tmp_path, at, ERRORS[at % 3]), pytest.raises(OutputError):
            pack(lattice_folder, tmp_path / str(at))
        if (tmp_path / str(at) / "model.safetensors").exists():
            load_model(tmp_path / str(at))


def here(plan: CorpusPlan, listen: Listener) -> Iterator[tuple[int, Outcome]]:
    """An engine of corpora in this process, where files can be made to fail."""
    worker = ShardWorker(plan.settings, plan.out, plan.digest)
    try:
        for at, task in enumerate(plan.todo):
            yield at, worker.attempt(task, listen)
    finally:
        worker.reader.close()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_corpus_goes_on_after_any_failure(
    lattice_folder: Path, tmp_path: Path, kind: str
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{text}\n" for text in texts(16)), "utf-8")
    settings = CorpusSettings(lattice_folder, shard_size=200, format=kind)
    with Failing(tmp_path) as whole:
        run([str(source)], tmp_path / "whole", settings, engine=here)
    assert whole.count > 20
    for at in range(0, whole.count, max(1, EVERY // 4)):
        out = tmp_path / str(at)
        with Failing(out, at, ERRORS[at % 3]), pytest.raises(HanlatticeError, match="cannot write"):
            run([str(source)], out, settings, engine=here)
        run([str(source)], out, settings, engine=here)
        assert content(out) == content(tmp_path / "whole")


@pytest.mark.parametrize("step", [-1e9, -0.5])
def test_nothing_relies_on_the_clock(
    tiny: Path,  # noqa: F811
    lattice_folder: Path,
    tmp_path: Path,
    step: float,
) -> None:
    """A clock that goes backwards while a model is trained, and a corpus tagged."""
    config = config_of(tiny, train__epochs=2, train__checkpoint_minutes=1e-3)
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{text}\n" for text in texts(12)), "utf-8")
    settings = CorpusSettings(lattice_folder, shard_size=200)
    ticks = count()
    for name in ("calm", "backwards"):
        with pytest.MonkeyPatch.context() as patch:
            if name == "backwards":
                patch.setattr(time, "time", lambda: 2e9 + step * next(ticks))
            train(config, tmp_path / name)
            run([str(source)], tmp_path / f"{name} out", settings, engine=here)
    assert_same_run(tmp_path / "backwards", tmp_path / "calm")
    assert content(tmp_path / "backwards out") == content(tmp_path / "calm out")
