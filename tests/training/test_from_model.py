"""Training from a model: new labels are learnt, frozen weights stay, stopped runs resume."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.load import load_model
from hanlattice.config import Config, make_config
from hanlattice.data.formats.columns import write_columns
from hanlattice.errors import ConfigError, ModelError
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import prepare, train
from hanlattice.training.optim import group_of
from hanlattice.training.pack import pack
from hanlattice.training.warm_start import carried_settings
from tests.helpers.command import hanlattice
from tests.helpers.crash import killed_at_step
from tests.helpers.made import sentences, write_toml


def with_times(sentence: Sentence) -> Sentence:
    """Rename the labels of a sentence, and add spans of a label that the model does not know."""
    spans = [
        replace(span, label={"PER": "PER.NAM", "LOC": "地名"}[span.label])
        for span in sentence.spans or ()
    ]
    starts = [sentence.text.find(word) for word in ("昨天", "今天")]
    spans += [Span(at, at + 2, "TIME") for at in starts if at >= 0]
    return Sentence(sentence.text, tuple(sorted(spans, key=lambda span: span.start)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for seed, (part, count) in enumerate({"train": 18, "dev": 18, "test": 18}.items(), start=20):
        write_columns(folder / f"{part}.bmes", map(with_times, sentences(count, seed)))
    return folder


def tree_of(corpus: Path, **train: Any) -> dict[str, dict[str, Any]]:
    data = {part: str(corpus / f"{part}.bmes") for part in ("train", "dev", "test")}
    return {"data": data, "train": {"epochs": 1, "batch_size": 4, "lr": 0.02, **train}}


def config_of(
    corpus: Path, model: Path, rates: dict[str, float] | None = None, **train: Any
) -> Config:
    fixed, usual = carried_settings(str(model))
    carried = {name: {**usual.get(name, {}), **fixed.get(name, {})} for name in {*fixed, *usual}}
    start = {"model": str(model), "labels": {"地名": "LOC"}}
    return make_config(
        {**carried, **tree_of(corpus, **train), "start": start, "rates": rates or {}}
    )


def weights(folder: Path) -> dict[str, Tensor]:
    return load_tensors(folder / "model.safetensors")[0]


def test_from_the_command_line_a_new_label_is_learnt_from_a_few_sentences(
    corpus, lattice_folder, tmp_path
):
    config = write_toml(tmp_path / "c.toml", tree_of(corpus, epochs=5))
    labels = 'start.labels={"地名" = "LOC"}'
    outcome = hanlattice(
        "train", config, "--from", lattice_folder, "--set", labels, "--out", tmp_path / "run"
    )
    assert outcome.code == 0, outcome.err
    assert (
        "labels: PER.NAM begins as PER; TIME begins as a mean of LOC, PER; 地名 begins as LOC"
        in outcome.err
    )
    model = load_model(tmp_path / "run")
    assert model.scores["test"]["by_type"]["TIME"]["f1"] > 0.9
    assert model.scores["test"]["overall"]["f1"] > 0.9
    assert model.config.model.hidden == load_model(lattice_folder).config.model.hidden
    version = model.data["start"]["version"]
    assert f"- begun with the weights of {lattice_folder} ({version})" in (
        tmp_path / "run/README.md"
    ).read_text("utf-8")
    assert version in hanlattice("info", tmp_path / "run").text
    again = hanlattice("train", config, "--from", tmp_path / "run", "--out", tmp_path / "next")
    assert again.code == 0, again.err
    assert load_model(tmp_path / "next").data["start"]["before"]["version"] == version


def test_what_contradicts_the_model_is_refused_with_the_way_out(corpus, lattice_folder, tmp_path):
    config = write_toml(tmp_path / "c.toml", {**tree_of(corpus), "model": {"hidden": 4}})
    outcome = hanlattice("train", config, "--from", lattice_folder, "--out", tmp_path / "run")
    outcome.refused("model.hidden is 4, and 16 in", "remove it, or add --set model.hidden=16")
    hanlattice("train", config, "--from", "nro", "--out", tmp_path / "run").refused(
        "there is no such model folder"
    )
    with pytest.raises(
        ConfigError, match=r"model\.hidden is 4, and 16 in"
    ):  # also where no file is read
        train(
            replace(
                config_of(corpus, lattice_folder), model=make_config({"model": {"hidden": 4}}).model
            ),
            tmp_path,
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("frozen", [("embeddings",), ("embeddings", "encoder"), ("output",)])
def test_frozen_groups_do_not_change_and_the_others_do(frozen, corpus, lattice_folder, tmp_path):
    config = config_of(corpus, lattice_folder, dict.fromkeys(frozen, 0.0), epochs=2)
    run = prepare(config, tmp_path / "before", read_corpora(config.data), False, lambda event: None)
    before = {name: weight.detach().clone() for name, weight in run.tagger.named_parameters()}
    after = weights(train(config, tmp_path / "run").folder)
    for name, weight in before.items():
        assert torch.equal(after[name], weight) == (group_of(name) in frozen), name
    assert {group_of(name) for name in before} == {"embeddings", "encoder", "output"}


def test_with_everything_frozen_there_is_nothing_to_train(corpus, lattice_folder, tmp_path):
    rates = dict.fromkeys(("embeddings", "encoder", "output"), 0.0)
    with pytest.raises(ConfigError, match="freezes everything"):
        train(config_of(corpus, lattice_folder, rates), tmp_path / "run")


def test_each_group_has_its_rate(corpus, lattice_folder, tmp_path):
    """One step of plain gradients moves a group in proportion to its rate."""
    moved = []
    for at, rates in enumerate(({}, {"embeddings": 0.5, "encoder": 0.25, "output": 2.0})):
        settings = {"optimizer": "sgd", "clip": 0.0, "batch_size": 18, "lr": 0.01}
        config = config_of(corpus, lattice_folder, rates, **settings)
        run = prepare(
            config, tmp_path / str(at), read_corpora(config.data), False, lambda event: None
        )
        before = {name: weight.detach().clone() for name, weight in run.tagger.named_parameters()}
        after = weights(train(config, tmp_path / f"run-{at}").folder)
        moved.append({name: after[name] - weight for name, weight in before.items()})
    for name, step in moved[0].items():
        rate = {"embeddings": 0.5, "encoder": 0.25, "output": 2.0}[group_of(name)]
        torch.testing.assert_close(moved[1][name], rate * step, atol=2e-6, rtol=1e-3)


def test_a_stopped_run_goes_on_and_not_from_another_model(corpus, lattice_folder, tmp_path):
    source = tmp_path / "source"
    pack(lattice_folder, source)
    config = config_of(corpus, source, {"embeddings": 0.5, "encoder": 0.0}, epochs=2, average=0.9)
    train(config, tmp_path / "whole")
    assert killed_at_step(replace_minutes(config), tmp_path / "run", 7)
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    train(config, tmp_path / "run", resume=True)
    mine = weights(tmp_path / "run")
    theirs = weights(tmp_path / "whole")
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    shutil.rmtree(source)
    pack(lattice_folder, source, precision="half")
    with pytest.raises(ModelError, match="another configuration or other data"):
        train(config, tmp_path / "other", resume=True)


def replace_minutes(config: Config) -> Config:
    return replace(config, train=replace(config.train, checkpoint_minutes=1e-9))
