"""Learning rates, groups of weights, and the running average."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from hanlattice.config import TrainConfig, make_config
from hanlattice.training.build import build
from hanlattice.training.optim import Average, learning_rate, make_optimizer
from hanlattice.training.optim import warmup_linear as warmup_linear
from tests.helpers.made import made_tree, sentences


def settings(**changes: Any) -> TrainConfig:
    return make_config({"train": {"lr": 1.0, "epochs": 4, **changes}}).train


def rates(config: TrainConfig, steps: int = 5) -> list[float]:
    return [
        learning_rate(config, step, steps, config.lr, config.warmup)
        for step in range(steps * config.epochs)
    ]


def test_constant_stays():
    assert rates(settings(schedule="constant")) == [1.0] * 20


def test_inverse_falls_once_an_epoch():
    found = rates(settings(schedule="inverse", decay=0.5))
    assert found == pytest.approx([1.0] * 5 + [1 / 1.5] * 5 + [1 / 2] * 5 + [1 / 2.5] * 5)


def test_linear_falls_at_every_step_and_never_to_nothing():
    assert rates(settings(schedule="linear")) == pytest.approx(
        [(20 - step) / 20 for step in range(20)]
    )


def test_warm_up_rises_then_the_schedule_takes_over():
    found = rates(settings(schedule="linear", warmup=0.2))
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert found[4:] == pytest.approx([(20 - step) / 16 for step in range(4, 20)])


def test_warmup_linear_rises_and_falls_to_nothing():
    found = [warmup_linear(1.0, 0.1, step, 100) for step in range(100)]
    assert found[:11] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0])
    assert found[10:] == sorted(found[10:], reverse=True)
    assert found[-1] == pytest.approx(1 / 90)
    assert warmup_linear(1.0, 0.0, 0, 1) == 1.0


@given(
    schedule=st.sampled_from(["constant", "inverse", "linear"]),
    warmup=st.floats(0, 0.999),
    epochs=st.integers(1, 6),
    steps=st.integers(1, 6),
)
def test_a_rate_is_above_0_and_at_most_lr(
    schedule: str, warmup: float, epochs: int, steps: int
) -> None:
    found = rates(settings(schedule=schedule, warmup=warmup, epochs=epochs), steps)
    assert all(0 < rate <= 1 + 1e-12 for rate in found)


MODELS: dict[str, dict[str, Any]] = {
    "characters, bigrams, softwords": {"encoder": "char", "bichar": True, "softword": True},
    "lattice of words and subwords": {"sources": "both", "bichar": True},
    "words": {"encoder": "word", "char_features": "lstm", "bichar": True},
}


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("model", MODELS)
def test_weight_decay_is_for_the_matrices_of_encoder_and_output(made, lm_folder, model, optimizer):
    """Not for vectors of any kind, not for the CRF; and what is fixed is in no group."""
    tree = made_tree(
        made, lm__model=str(lm_folder), train__optimizer=optimizer, train__weight_decay=0.3
    )
    tree |= {"subwords": {"vectors": str(made / "subwords.vec")}, "softwords": {"pos": True}}
    config = make_config({**tree, "model": {**tree["model"], **MODELS[model]}})
    tagger = build(config, sentences(20, 1)).tagger
    names = {id(parameter): name for name, parameter in tagger.named_parameters()}
    decayed, others = (
        [names[id(p)] for p in group["params"]]
        for group in make_optimizer(tagger, config.train).param_groups
    )
    assert {"output.weight", "lm.project.weight"} <= set(decayed)
    assert {name.split(".")[0] for name in decayed} == {"encoder", "output", "lm"}
    assert any(name.startswith("encoder.") for name in decayed)
    assert "extra_embeddings.bichars.trained" in others
    assert "crf.transitions" in others
    assert all(tagger.get_parameter(name).ndim == 2 for name in decayed)
    assert not any(
        tagger.get_parameter(n).ndim == 2 and n.startswith(("encoder.", "output.")) for n in others
    )
    assert {*decayed, *others} == {name for name, p in tagger.named_parameters() if p.requires_grad}


def test_the_average_of_an_unchanging_weight_is_that_weight():
    net = nn.Linear(2, 2)
    average = Average(net, 0.9)
    before = [weight.detach().clone() for weight in average.weights]
    for step in range(5):
        average.update(step)
    for mean, weight in zip(average.mean, before, strict=True):
        torch.testing.assert_close(mean, weight)


def test_the_average_follows_its_formula():
    net = nn.Linear(1, 1, bias=False)
    average = Average(net, 0.5)
    expected = net.weight.item()
    for step in range(20):
        with torch.no_grad():
            net.weight.fill_(float(step))
        average.update(step)
        memory = min(0.5, (1 + step) / (10 + step))
        expected = memory * expected + (1 - memory) * step
    assert float(average.mean[0]) == pytest.approx(expected)


def test_in_place_the_model_has_the_average_and_afterwards_its_own_weights():
    net = nn.Linear(1, 1, bias=False)
    average = Average(net, 0.5)
    with torch.no_grad():
        net.weight.fill_(100.0)
    average.update(0)
    mean = float(average.mean[0])
    with average.in_place():
        assert net.weight.item() == mean != 100.0
    assert net.weight.item() == 100.0
    assert float(average.mean[0]) == mean


def test_without_memory_there_is_no_average():
    net = nn.Linear(1, 1)
    average = Average(net, 0.0)
    before = net.weight.detach().clone()
    average.update(0)
    with average.in_place():
        assert torch.equal(net.weight, before)
    assert average.mean == []
    assert len(average.weights) == 2


def test_in_place_no_tensor_moves():
    """The weights of an LSTM are to stay in one piece of memory, where cuDNN finds them."""
    net = nn.LSTM(3, 2, bidirectional=True)
    average = Average(net, 0.5)
    with torch.no_grad():
        for weight in average.weights:
            weight.add_(1.0)
    own, mean = (
        [tensor.detach().clone() for tensor in kind] for kind in (average.weights, average.mean)
    )
    places = [tensor.data_ptr() for tensor in (*average.weights, *average.mean)]

    def check(weights: list[Tensor], means: list[Tensor]) -> None:
        assert [tensor.data_ptr() for tensor in (*average.weights, *average.mean)] == places
        assert [weight.data_ptr() for weight in net.parameters()] == places[: len(weights)]
        for found, expected in zip(
            (*average.weights, *average.mean), (*weights, *means), strict=True
        ):
            assert torch.equal(found, expected)

    with average.in_place():
        check(mean, own)
    check(own, mean)
    with pytest.raises(KeyError), average.in_place():
        raise KeyError
    check(own, mean)
    assert all(weight.requires_grad for weight in average.weights)
