"""Without dev all epochs are trained, and the last weights or their average are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.load import load_model
from hanlattice.config import Config
from hanlattice.inference.threshold import USUAL_THRESHOLD
from hanlattice.training import loop
from hanlattice.training.corpora import NO_DEV, read_corpora
from tests.helpers.command import hanlattice
from tests.helpers.crash import killed_at_step
from tests.helpers.made import made_config, made_tree, write_made, write_toml

SMALL = {"data__dev": "", "model__hidden": 4, "train__epochs": 3}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_made(folder, train=24)
    return folder


def config_of(tiny: Path, **changes: Any) -> Config:
    return made_config(tiny, **{**SMALL, **changes})


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_the_last_weights_or_their_average_are_kept(average, tiny, tmp_path):
    config = config_of(tiny, train__average=average)
    run = loop.prepare(
        config, tmp_path / "run", read_corpora(config.data), False, lambda event: None
    )
    loop._epochs(run)
    kept = load_tensors(tmp_path / "run" / "model.safetensors")[0]
    with run.training.average.in_place():
        last = {name: weight.clone() for name, weight in run.tagger.state_dict().items()}
    assert all(torch.equal(kept[name], weight) for name, weight in last.items())
    now = run.tagger.state_dict()["output.weight"]
    assert torch.equal(kept["output.weight"], now) == (average == 0)


def test_it_is_said_and_only_test_is_scored(tiny, tmp_path):
    config = write_toml(tmp_path / "c.toml", made_tree(tiny, **SMALL))
    outcome = hanlattice("train", config, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert f"note: {NO_DEV}" in outcome.err
    assert "dev F1" not in outcome.err
    assert "dev, weights" not in outcome.text
    assert "test, weights of epoch 3" in outcome.text
    model = load_model(tmp_path / "run")
    assert set(model.scores) == {"epoch", "test"}
    assert "Last epoch; there was no dev to choose by: 3." in (
        tmp_path / "run" / "README.md"
    ).read_text("utf-8")
    assert hanlattice("info", tmp_path / "run").code == 0


def test_a_stopped_run_goes_on(tiny, tmp_path):
    config = config_of(tiny)
    whole = loop.train(config, tmp_path / "whole").scores
    assert killed_at_step(config, tmp_path / "run", 5)
    assert loop.train(config, tmp_path / "run", resume=True).scores == whole
    kept, expected = (
        load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("run", "whole")
    )
    assert all(torch.equal(kept[name], weight) for name, weight in expected.items())
    log = [
        json.loads(line)
        for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()
    ]
    assert [event["best_epoch"] for event in log if event["event"] == "epoch"] == [1, 2, 3]


def test_the_bar_of_spans_is_the_usual_one(tiny, tmp_path):
    folder = loop.train(
        config_of(tiny, model__decode="spans", data__test="", train__epochs=1), tmp_path / "run"
    ).folder
    assert load_model(folder).threshold() == USUAL_THRESHOLD
