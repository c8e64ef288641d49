"""Where the training of one direction stands, in one file: a run stopped at any moment goes on as if it had not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from hanlattice.errors import ModelError
from hanlattice.models.checksums import load_tensors, save_tensors
from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.training.state import finite_loss, load_optimizer, optimizer_tensors


@dataclass
class Position:
    """`epoch` and `chunk` are the next ones to do, from 0."""

    epoch: int = 0
    chunk: int = 0
    step: int = 0
    symbols: int = 0  # trained on, in all epochs
    loss: float = 0.0  # in nats, summed since held-out text was last scored
    heard: int = 0  # symbols of that sum
    best: float = float("inf")  # the lowest perplexity of held-out text so far
    best_step: int = 0
    seconds: float = 0.0
    log_size: int = 0

    def advance(self, symbols: int) -> None:
        """Count one more chunk."""
        self.chunk += 1
        self.step += 1
        self.symbols += symbols
        self.heard += symbols

    def hear(self, loss: float) -> None:
        """Take over the sum of the losses."""
        self.loss = finite_loss(loss, f"step {self.step}", "lower --lr or set --clip")


def save_state(
    path: Path,
    identity: str,
    model: CharLanguageModel,
    optimizer: torch.optim.Optimizer,
    carried: State,
    position: Position,
) -> None:
    """`identity` says which options and data the state belongs to."""
    tensors: dict[str, Tensor] = {f"model.{name}": weight for name, weight in model.named_parameters()}
    tensors |= {"carried.h": carried[0], "carried.c": carried[1], **optimizer_tensors(optimizer)}
    save_tensors(path, tensors, {"identity": identity, "position": json.dumps(asdict(position))})


def load_state(
    path: Path, identity: str, model: CharLanguageModel, optimizer: torch.optim.Optimizer, carried: State
) -> Position:
    """Put everything back and say where the training stood."""
    tensors, metadata = load_tensors(path)
    if metadata.get("identity") != identity:
        raise ModelError(f"{path.parent}: its stopped run had other options or other text; resume with the same ones")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(tensors[f"model.{name}"])
        for kept, name in zip(carried, "hc", strict=True):
            kept.copy_(tensors[f"carried.{name}"])
    load_optimizer(tensors, optimizer)
    return Position(**json.loads(metadata["position"]))
