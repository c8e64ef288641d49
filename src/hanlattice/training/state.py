"""The state of a training, in one file, so that a run stopped at any moment goes on as if it had not been."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hanlattice.errors import HanlatticeError, ModelError
from hanlattice.models.checksums import load_tensors, save_tensors
from hanlattice.training.optim import Average

STATE = "state.safetensors"


@dataclass
class Progress:
    """Where a training stands. `epoch` and `batch` are the next ones to do, from 0."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = 0.0  # summed over this epoch's sentences
    sentences: int = 0
    characters: int = 0
    best: float = -1.0
    best_epoch: int = 0
    seconds: float = 0.0
    log_size: int = 0

    def advance(self, sentences: int, characters: int) -> None:
        """Count one more batch."""
        self.batch += 1
        self.step += 1
        self.sentences += sentences
        self.characters += characters

    def hear(self, loss: float) -> None:
        """Take over the sum of this epoch's losses."""
        place = f"epoch {self.epoch + 1}, batch {self.batch}"
        self.loss = finite_loss(loss, place, "lower train.lr or set train.clip")


def finite_loss(loss: float, place: str, advice: str) -> float:
    """The loss. One that is no number ends the training, which cannot go on from where it stands."""
    if not loss < float("inf"):
        raise HanlatticeError(
            f"the loss is {loss} by {place}: training has diverged; {advice}, and begin again with another --out"
        )
    return loss


def save_state(
    folder: Path,
    identity: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average,
    progress: Progress,
) -> None:
    """`identity` says which configuration and data the state belongs to."""
    tensors: dict[str, Tensor] = {f"model.{name}": p for name, p in model.named_parameters() if p.requires_grad}
    tensors |= {f"average.{at}": mean for at, mean in enumerate(average.mean)}
    tensors |= optimizer_tensors(optimizer)
    metadata = {"identity": identity, "progress": json.dumps(asdict(progress))}
    save_tensors(folder / STATE, tensors, metadata)


def load_state(
    folder: Path, identity: str, model: nn.Module, optimizer: torch.optim.Optimizer, average: Average
) -> Progress:
    """Put everything back and say where the training stood."""
    tensors, metadata = load_tensors(folder / STATE)
    if metadata["identity"] != identity:
        raise ModelError(
            f"{folder}: its stopped run had another configuration or other data; resume with the same ones"
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(tensors[f"model.{name}"])
        for at, mean in enumerate(average.mean):
            mean.copy_(tensors[f"average.{at}"])
    load_optimizer(tensors, optimizer)
    return Progress(**json.loads(metadata["progress"]))


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What decides the next steps and is no part of the model: the optimiser's memory, and where chance stands."""
    tensors = {"rng.cpu": torch.get_rng_state()}
    device = _device(optimizer)
    if device.type == "cuda":
        tensors["rng.cuda"] = torch.cuda.get_rng_state(device)
    for at, slots in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{at}.{name}": value for name, value in slots.items() if value is not None}
    return tensors


def load_optimizer(tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Put back what `optimizer_tensors` gave."""
    record = optimizer.state_dict()
    record["state"] = _optimizer_slots(tensors)
    optimizer.load_state_dict(record)
    torch.set_rng_state(tensors["rng.cpu"])
    device = _device(optimizer)
    if device.type == "cuda" and "rng.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["rng.cuda"], device)


def _device(optimizer: torch.optim.Optimizer) -> torch.device:
    """Where the trained weights are."""
    device: torch.device = next(weight.device for group in optimizer.param_groups for weight in group["params"])
    return device


def _optimizer_slots(tensors: dict[str, Tensor]) -> dict[int, dict[str, Any]]:
    slots: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, at, slot = name.split(".", 2)
            slots.setdefault(int(at), {})[slot] = tensor
    return slots
