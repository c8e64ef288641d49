"""A step is zero, loss, backward, clip, step, average; a state restores all or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hanlattice.checkpoint.checksums import load_tensors, save_tensors
from hanlattice.errors import HanlatticeError, ModelError
from hanlattice.training.step import Training


def make(clip: float = 0.5, memory: float = 0.9, seed: int = 0) -> Training:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    return Training(net, torch.optim.AdamW(net.parameters(), lr=0.1), clip, memory)


def add_gradients(training: Training) -> Tensor:
    losses = training.model(torch.randn(5, 3)).square().sum(1)
    losses.mean().backward()
    return losses.detach().sum()


def take(training: Training, steps: int) -> None:
    for _ in range(steps):
        training.step(lambda: add_gradients(training), rate=0.1 / (1 + training.progress.step))
        training.progress.advance(5, 15)


def everything(training: Training) -> list[Tensor]:
    slots = [state[name] for state in training.optimizer.state.values() for name in sorted(state)]
    return [
        *training.average.weights,
        *training.average.mean,
        *slots,
        training.loss,
        torch.get_rng_state(),
    ]


@pytest.mark.parametrize("clip", [0.0, 1e-3])
def test_a_step_is_what_its_parts_are(clip):
    training = make(clip)
    twin = make(clip)
    weights = list(twin.model.parameters())
    torch.manual_seed(1)
    take(training, 3)
    torch.manual_seed(1)
    total = torch.zeros((), dtype=torch.float64)
    for step in range(3):
        for group in twin.optimizer.param_groups:
            group["lr"] = 0.1 / (1 + step)
        twin.optimizer.zero_grad()
        total += add_gradients(twin)
        if clip:
            nn.utils.clip_grad_norm_(weights, clip)
        twin.optimizer.step()
        twin.average.update(step)
    assert torch.equal(training.loss, total)
    for mine, other in zip(everything(training)[:8], everything(twin)[:8], strict=True):
        assert torch.equal(mine, other)
    norm = torch.cat([weight.grad.flatten() for weight in training.average.weights]).norm()
    assert (norm <= 1.01e-3) == bool(clip)


def test_the_rate_stays_if_none_is_given():
    training = make()
    training.step(lambda: add_gradients(training))
    assert [group["lr"] for group in training.optimizer.param_groups] == [0.1]


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_a_state_brings_everything_back(tmp_path: Path, memory: float) -> None:
    stopped = make(memory=memory)
    take(stopped, 2)
    carried = {"h": torch.randn(2, 3)}
    stopped.progress.best = 0.25
    stopped.progress.best_at = 1
    rng = torch.get_rng_state()
    stopped.save(tmp_path / "state", "me", carried)
    again = make(memory=memory, seed=9)
    back = {"h": torch.zeros(2, 3)}
    again.load(tmp_path / "state", "me", back)
    assert again.progress == stopped.progress
    assert torch.equal(back["h"], carried["h"])
    assert torch.equal(torch.get_rng_state(), rng)
    for mine, other in zip(everything(again), everything(stopped), strict=True):
        assert torch.equal(mine, other)
    take(stopped, 3)
    expected = [tensor.detach().clone() for tensor in everything(stopped)]
    torch.set_rng_state(rng)
    take(again, 3)
    for mine, other in zip(everything(again), expected, strict=True):
        assert torch.equal(mine, other)
    assert again.progress.mean_loss == again.progress.loss / 25


def test_a_state_of_another_version_or_run_is_refused_and_changes_nothing(tmp_path):
    training = make()
    path = tmp_path / "state"
    take(training, 1)
    training.save(path, "me")
    tensors, metadata = load_tensors(path)
    other = make(seed=3)
    before = [tensor.detach().clone() for tensor in everything(other)]
    with pytest.raises(
        ModelError, match="another configuration or other data; resume with the same ones"
    ):
        other.load(path, "you")
    for version in ({}, {"format": "2"}):
        save_tensors(path, tensors, {"identity": "me", "progress": metadata["progress"], **version})
        with pytest.raises(
            ModelError,
            match="another version of hanlattice wrote this state, and this version cannot",
        ):
            other.load(path, "me")
    for mine, expected in zip(everything(other), before, strict=True):
        assert torch.equal(mine, expected)
    save_tensors(path, {**tensors, "model.0.bias": torch.zeros(1)}, metadata)
    with pytest.raises(ModelError, match=r"model\.0\.bias does not fit the model"):
        other.load(path, "me")


ODD_STATES = {
    "a slot of no weight": {"optimizer.9.exp_avg": torch.zeros(1)},
    "a slot without a number": {"optimizer.x.y": torch.zeros(1)},
    "a slot of another shape": {"optimizer.0.exp_avg": torch.zeros(2, 9)},
    "a slot of integers": {"optimizer.0.exp_avg": torch.zeros(4, 3, dtype=torch.int64)},
    "a slot of another optimiser": {"optimizer.0.momentum_buffer": torch.zeros(4, 3)},
    "a weight of integers": {"model.0.bias": torch.ones(4, dtype=torch.int32)},
    "an average in double precision": {"average.0": torch.zeros(4, 3, dtype=torch.float64)},
    "an array of nothing": {"other": torch.zeros(1)},
    "random numbers that are none": {"rng.cpu": torch.zeros(3)},
}


@pytest.mark.parametrize("tensors", ODD_STATES.values(), ids=ODD_STATES)
def test_a_state_that_somebody_else_made_is_refused(tmp_path, tensors):
    training = make()
    path = tmp_path / "state"
    take(training, 1)
    training.save(path, "me")
    there, metadata = load_tensors(path)
    save_tensors(path, {**there, **tensors}, metadata)
    with pytest.raises(ModelError, match=r"does not fit|not a state of this run"):
        make().load(path, "me")


@pytest.mark.parametrize("kind", ["adamw", "momentum"])
def test_a_state_without_one_slot_of_the_optimizer_is_refused(tmp_path, kind):
    def fresh() -> Training:
        training = make()
        if kind == "momentum":
            parameters = training.model.parameters()
            training.optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        return training

    training = fresh()
    path = tmp_path / "state"
    take(training, 1)
    training.save(path, "me")
    tensors, metadata = load_tensors(path)
    fresh().load(path, "me")
    slots = [name for name in tensors if name.startswith("optimizer.")]
    assert len(slots) == {"adamw": 12, "momentum": 4}[kind]
    for slot in slots:
        save_tensors(path, {n: t for n, t in tensors.items() if n != slot}, metadata)
        with pytest.raises(ModelError, match="not a state of this run"):
            fresh().load(path, "me")


@pytest.mark.parametrize(
    "field", ["epoch", "batch", "step", "counted", "characters", "best_at", "seconds", "log_size"]
)
def test_progress_is_never_negative(tmp_path, field):
    training = make()
    path = tmp_path / "state"
    training.save(path, "me")
    tensors, metadata = load_tensors(path)
    progress = json.loads(metadata["progress"]) | {field: -1}
    save_tensors(path, tensors, {**metadata, "progress": json.dumps(progress)})
    with pytest.raises(
        ModelError, match=f"not a state of this run .*{field} must be 0 or more, not -1"
    ):
        training.load(path, "me")


@pytest.mark.parametrize(
    "progress", ["", "[]", "null", '{"epoch": "1"}', '{"colour": 1}', '{"loss": NaN}', "[" * 5000]
)
def test_progress_that_is_none_is_refused(tmp_path, progress):
    training = make()
    path = tmp_path / "state"
    training.save(path, "me")
    tensors, metadata = load_tensors(path)
    save_tensors(path, tensors, {**metadata, "progress": progress})
    with pytest.raises(ModelError, match="not a state of this run"):
        training.load(path, "me")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_the_training(tmp_path, value):
    training = make()
    training.progress.epoch = 2
    training.progress.batch = 7
    training.loss += value
    for use in (training.record_loss, lambda: training.save(tmp_path / "state", "me")):
        with pytest.raises(
            HanlatticeError,
            match=r"the loss is (nan|inf) by epoch 3, batch 7: training has diverged",
        ):
            use()
    assert not (tmp_path / "state").exists()


def test_losses_are_summed_until_they_are_reset():
    training = make()
    take(training, 2)
    training.record_loss()
    assert training.progress.loss == float(training.loss) > 0
    assert (training.progress.counted, training.progress.characters) == (10, 30)
    training.reset_loss()
    assert (float(training.loss), training.progress.loss, training.progress.counted) == (
        0.0,
        0.0,
        0,
    )
    assert training.progress.mean_loss == 0.0
