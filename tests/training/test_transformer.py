"""Training with a transformer: rates by layer, resuming, and batches in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hanlattice.checkpoint.load import load_model
from hanlattice.training.build import build
from hanlattice.training.loop import train, train_step
from hanlattice.training.optim import learning_rates, make_optimizer
from hanlattice.training.processes import ProcessGroup
from hanlattice.training.step import Training
from tests.helpers.made import made_config, sentences


@pytest.fixture
def settings(transformer_folder: Path) -> dict[str, Any]:
    return {
        "transformer__model": str(transformer_folder),
        "transformer__overlap": 8,
        "model__encoder": "none",
    }


def test_each_layer_has_a_rate_and_the_transformer_a_warmup_of_its_own(
    made: Path, settings: dict[str, Any]
) -> None:
    own = {"transformer__lr": 1e-3, "transformer__layer_decay": 0.5, "transformer__warmup": 0.2}
    config = made_config(made, **settings, **own, train__weight_decay=0.1, train__epochs=2)
    tagger = build(config, sentences(20, 1)).tagger
    optimizer = make_optimizer(tagger, config.train, config.transformer)
    names = {id(p): name for name, p in tagger.named_parameters()}
    assert sorted(names.values()) == sorted(
        names[id(p)] for group in optimizer.param_groups for p in group["params"]
    )
    rates = learning_rates(config.train, optimizer, 0, 50)  # step 1 of 20 in which it rises
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        for name in (names[id(p)] for p in group["params"]):
            depth = (
                2
                if "embeddings" in name
                else 1
                if "layer.0" in name
                else 0
                if "layer.1" in name
                else None
            )
            assert rate == pytest.approx(
                config.train.lr if depth is None else 1e-3 * 0.5**depth / 20
            ), name
            decays = name == "output.weight" or name.endswith(
                ("dense.weight", "query.weight", "key.weight")
            )
            decays |= name in ("transformer.place",) or name.endswith("value.weight")
            assert group["weight_decay"] == (0.1 if decays else 0.0), name
    last = learning_rates(config.train, optimizer, 99, 50)
    assert last == pytest.approx(
        [group["peak"] / (80 if group["warmup"] else 100) for group in optimizer.param_groups]
    )


def interrupt(event: dict[str, Any]) -> None:
    """In the second epoch."""
    if event["event"] == "step" and (event["epoch"], event["batch"]) == (1, 5):
        raise KeyboardInterrupt


def test_it_learns_and_a_resumed_run_ends_with_the_same_weights(
    made: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    config = made_config(
        made, **settings, transformer__lr=0.01, train__epochs=4, train__accumulate=2
    )
    losses: list[float] = []
    train(
        config,
        tmp_path / "whole",
        listen=lambda e: losses.append(e["loss"]) if e["event"] == "epoch" else None,
    )
    assert losses[-1] < 0.75 * losses[0]
    often = replace(config, train=replace(config.train, checkpoint_minutes=1e-9))
    with pytest.raises(KeyboardInterrupt):
        train(often, tmp_path / "stopped", listen=interrupt)
    train(config, tmp_path / "stopped", resume=True)
    whole, stopped = (
        load_model(tmp_path / name).tagger.state_dict() for name in ("whole", "stopped")
    )
    assert all(torch.equal(stopped[name], tensor) for name, tensor in whole.items())


def test_a_batch_in_parts_has_the_gradients_of_the_whole(
    made: Path, settings: dict[str, Any]
) -> None:
    config = made_config(made, **settings, transformer__dropout=0.0, model__dropout=0.0)
    built = build(config, sentences(20, 1))
    examples = built.indexer.examples(sentences(20, 1))
    tagger = built.tagger.train()
    gradients = []
    losses = []
    for count in (1, 3):
        training = Training(tagger, torch.optim.SGD(tagger.parameters(), lr=0.0), clip=0.0)
        parts = [tagger.batch(examples, part) for part in np.array_split(np.arange(20), count)]
        train_step(training, tagger, parts, ProcessGroup("cpu"))
        losses.append(training.loss)
        gradients.append([p.grad.clone() for p in tagger.parameters() if p.grad is not None])
    torch.testing.assert_close(losses[0], losses[1])
    for whole, summed in zip(*gradients, strict=True):
        torch.testing.assert_close(summed, whole, rtol=1e-3, atol=1e-5)


def test_frozen_it_stays_as_it_was_beside_a_lattice_and_its_mixture_is_learnt(
    made: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    more = {
        "model__encoder": "lattice",
        "model__pools": True,
        "transformer__frozen": True,
        "train__epochs": 2,
    }
    config = made_config(made, **(settings | more))
    before = build(config, sentences(20, 1)).tagger.state_dict()
    model = load_model(train(config, tmp_path / "run").folder)
    after = model.tagger.state_dict()
    same = {
        name
        for name, tensor in before.items()
        if name.startswith("transformer.") and torch.equal(tensor, after[name])
    }
    assert {name for name in before if name.startswith("transformer.model.")} == same
    assert model.tagger.transformer.frozen
