"""Cached states of a language model equal those computed on the fly."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hanlattice
from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.load import load_model
from hanlattice.data.corpus import read_corpus
from hanlattice.errors import ModelError, OutputError
from hanlattice.features import Examples
from hanlattice.training import lm_cache as module
from hanlattice.training.build import Built, build
from hanlattice.training.lm_cache import states_file, with_states
from hanlattice.training.loop import train
from tests.helpers.made import made_config, write_language_model
from tests.helpers.patience import PATIENCE


def make(made: Path, lm: Path, encoder: str = "lattice") -> tuple[Built, Examples]:
    config = made_config(made, lm__model=str(lm), model__encoder=encoder)
    sentences = read_corpus(config.data.train).sentences
    built = build(config, sentences)
    built.tagger.eval()
    return built, built.indexer.examples(sentences)


@pytest.mark.parametrize(
    ("encoder", "chunk"), [("lattice", 50), ("lattice", 1 << 16), ("char", 1000)]
)
def test_cached_states_are_those_computed_on_the_fly(
    made: Path,
    lm_folder: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoder: str,
    chunk: int,
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    built, examples = make(made, lm_folder, encoder)
    kept = with_states(examples, built.tagger.lm, "x")
    places = np.array([5, 0, 17])
    expected = built.tagger.emissions(examples.batch(places))
    batch = kept.batch(places)
    assert batch.states is not None
    torch.testing.assert_close(built.tagger.emissions(batch), expected, rtol=1e-3, atol=1e-3)


def test_states_decide(made: Path, lm_folder: Path, tmp_path: Path) -> None:
    built, examples = make(made, lm_folder)
    other, _ = make(made, write_language_model(tmp_path / "other", seed=5))
    other.tagger.load_state_dict(built.tagger.state_dict())
    batch = examples.batch([0, 1])
    assert not torch.allclose(other.tagger.emissions(batch), built.tagger.emissions(batch))


def test_states_are_computed_once_for_these_texts_and_this_model(
    made: Path, lm_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, examples = make(made, lm_folder)
    first = np.array(
        with_states(examples, built.tagger.lm, "x").states
    )  # a copy: the file is to be damaged
    path = states_file(examples, built.tagger.lm, "x")
    assert states_file(examples, built.tagger.lm, "y") != path
    part = built.indexer.read(["南京"])
    assert states_file(part, built.tagger.lm, "x") != path
    with monkeypatch.context() as patch:
        patch.setattr(module, "compute", lambda *_: pytest.fail("computed again"))
        again = with_states(examples, built.tagger.lm, "x")
    assert np.array_equal(first, np.asarray(again.states))
    path.write_bytes(path.read_bytes()[:-1])  # what a failing disk might leave
    assert np.array_equal(np.asarray(with_states(examples, built.tagger.lm, "x").states), first)


def test_runs_side_by_side_compute_them_once(
    made: Path, lm_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, examples = make(made, lm_folder)
    lm = built.tagger.lm
    computed = []
    both = threading.Barrier(2)
    assert lm is not None
    write = module._write

    def slowly(*given: Any) -> None:
        computed.append(given)
        time.sleep(0.2)  # the other has asked by now
        write(*given)

    def run(_: int) -> Examples:
        both.wait(PATIENCE)
        return with_states(examples, lm, "x")

    monkeypatch.setattr(module, "_write", slowly)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, range(2))
    assert len(computed) == 1
    np.testing.assert_array_equal(first.states, second.states)


def test_a_full_disk_is_reported(
    made: Path, lm_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, examples = make(made, lm_folder)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "compute", full)
    with pytest.raises(OutputError, match="the disk is full"):
        with_states(examples, built.tagger.lm, "x")
    assert not list(cache.rglob("*.npy*"))


def test_a_cache_that_cannot_be_written_is_reported(
    made: Path, lm_folder: Path, cache: Path
) -> None:
    built, examples = make(made, lm_folder)
    assert built.tagger.lm is not None
    cache.mkdir(exist_ok=True)
    (cache / "lm-states").write_text("a file where the folder would be")
    with pytest.raises(OutputError, match=r"cannot write .*lm-states"):
        with_states(examples, built.tagger.lm, "x")


def test_a_tagger_with_a_language_model_trains_and_stands_alone(
    made: Path, lm_folder: Path, tmp_path: Path, cache: Path
) -> None:
    lm = Path(shutil.copytree(lm_folder, tmp_path / "lm"))
    config = made_config(made, lm__model=str(lm), train__epochs=6)
    result = train(config, tmp_path / "run")
    assert result.scores["dev"]["overall"]["f1"] > 0.8
    shutil.rmtree(lm)
    shutil.rmtree(cache)
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    tagger = hanlattice.load(moved)
    assert [(span.text, span.label) for span in tagger("王建国去了青石镇！").spans] == [
        ("王建国", "PER"),
        ("青石镇", "LOC"),
    ]
    shutil.copy(
        write_language_model(tmp_path / "other", seed=3) / "forward.safetensors", moved / "lm"
    )
    with pytest.raises(ModelError, match="does not match its checksum"):
        load_model(moved)


def test_a_run_resumes_to_the_same_weights(
    made: Path, lm_folder: Path, tmp_path: Path, cache: Path
) -> None:
    config = made_config(made, lm__model=str(lm_folder), train__epochs=2, data__limit=60)
    train(config, tmp_path / "whole")

    def stop(event: dict[str, object]) -> None:
        if event["event"] == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "stopped", listen=stop)
    train(config, tmp_path / "stopped", resume=True)
    whole, stopped = (
        load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "stopped")
    )
    assert whole.keys() == stopped.keys()
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_a_run_is_not_resumed_with_another_language_model(
    made: Path, lm_folder: Path, tmp_path: Path, cache: Path
) -> None:
    lm = Path(shutil.copytree(lm_folder, tmp_path / "lm"))
    config = made_config(made, lm__model=str(lm), train__epochs=2, data__limit=60)

    def stop(event: dict[str, object]) -> None:
        if event["event"] == "epoch":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", listen=stop)
    write_language_model(lm, seed=9)
    with pytest.raises(ModelError, match="another configuration or other data"):
        train(config, tmp_path / "run", resume=True)


def test_without_cache_nothing_is_written(
    made: Path, lm_folder: Path, tmp_path: Path, cache: Path
) -> None:
    config = made_config(
        made, lm__model=str(lm_folder), lm__cache=False, train__epochs=1, data__limit=60
    )
    train(config, tmp_path / "run")
    assert not cache.exists()
