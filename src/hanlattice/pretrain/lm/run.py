"""A training of one direction while it is under way: everything that the loop works with, made anew or brought back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanlattice.events import Listener, Log
from hanlattice.models.device import find_device
from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.pretrain.lm.folder import log_file, state_file, write_frame
from hanlattice.pretrain.lm.recipe import Recipe
from hanlattice.pretrain.lm.score import score
from hanlattice.pretrain.lm.source import Source, facts_of
from hanlattice.pretrain.lm.state import Position, load_state, save_state
from hanlattice.pretrain.lm.step import make_optimizer
from hanlattice.pretrain.lm.streams import Streams
from hanlattice.pretrain.lm.text import Lines

SCORED = 200_000  # characters of held-out text that are scored while it trains; the end's figure is of all of them


@dataclass
class Run:
    recipe: Recipe
    folder: Path
    direction: str
    facts: dict[str, Any]
    model: CharLanguageModel
    optimizer: torch.optim.Optimizer
    streams: Streams
    held_out: Lines
    scored: Lines  # of it, while it trains
    carried: State
    position: Position
    log: Log
    loss: Tensor  # [], float64, nats: stays on the device, since to read it is to wait

    @property
    def chunks(self) -> int:
        """Steps of an epoch. The last chunk may be shorter than the others."""
        return -(-self.streams.steps // self.recipe.length)

    def save(self) -> None:
        """Write the state from which the run can go on."""
        self.position.hear(float(self.loss))
        self.position.log_size = self.log.size
        path = self.folder / state_file(self.direction)
        save_state(path, self.facts["identity"], self.model, self.optimizer, self.carried, self.position)

    def rates(self) -> dict[str, Any]:
        """Where it stands, for an event."""
        position = self.position
        return {
            "direction": self.direction,
            "epoch": position.epoch,
            "step": position.step,
            "characters": position.symbols,
            "loss": position.loss / max(1, position.heard),
            "best": position.best if position.best_step else None,
            "best_step": position.best_step,
            "seconds": round(position.seconds, 2),
        }


def prepare(recipe: Recipe, source: Source, folder: Path, direction: str, resume: bool, listen: Listener) -> Run:
    """Make the model and everything around it, or bring a stopped run back. Nothing is written before all is made."""
    device = find_device(recipe.device)
    model = _make_model(recipe, source, direction, device)
    optimizer = make_optimizer(model, recipe)
    train, held_out = source.lines(direction)
    streams, scored = Streams(train, recipe.batch_size, device), _some(held_out)
    facts = _facts(recipe, source, direction, model, scored)
    carried = _nothing(model, recipe.batch_size)
    position, path = Position(), folder / state_file(direction)
    going_on = resume and path.exists()
    if going_on:
        position = load_state(path, facts["identity"], model, optimizer, carried)
    write_frame(folder, source)
    log = Log(folder / log_file(direction), listen, position.log_size)
    loss = torch.tensor(position.loss, dtype=torch.float64, device=device)
    run = Run(
        recipe, folder, direction, facts, model, optimizer, streams, held_out, scored, carried, position, log, loss
    )
    if not going_on:
        run.save()  # from now to the end there is a state: weights without one are those of a finished run
    _announce(run)
    return run


def _make_model(recipe: Recipe, source: Source, direction: str, device: torch.device) -> CharLanguageModel:
    torch.manual_seed(recipe.seed)
    model = CharLanguageModel(len(source.vocab), **asdict(source.settings))
    if source.start is not None:
        model.load_state_dict(source.start.directions[direction].state_dict())
    return model.to(device)


def _nothing(model: CharLanguageModel, batch_size: int) -> State:
    """The state that streams begin with."""
    h = torch.zeros(model.layers, batch_size, model.hidden, device=model.embedding.device)
    return h, torch.zeros_like(h)


def _facts(recipe: Recipe, source: Source, direction: str, model: CharLanguageModel, scored: Lines) -> dict[str, Any]:
    facts = facts_of(source, recipe, direction) | {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "device": _device_name(model.embedding.device),
        "torch": torch.__version__,
    }
    if source.start is not None:
        facts["from"]["held_out"] = score(model.eval(), scored).as_dict()
    return facts


def _announce(run: Run) -> None:
    facts, epochs = run.facts, run.recipe.epochs
    if run.position.step:
        run.log.keep("resume", epochs=epochs, steps=run.chunks * epochs, **run.rates())
        return
    run.log.keep(
        "start",
        direction=run.direction,
        epochs=epochs,
        steps=run.chunks * epochs,
        parameters=facts["parameters"],
        symbols=facts["symbols"],
        data=facts["data"],
        before=None if facts["from"] is None else facts["from"]["held_out"],
        scored=run.scored.symbols,
        device=facts["device"],
    )


def _some(lines: Lines) -> Lines:
    """As many lines, at even steps, as have about so many characters."""
    return lines.take(np.arange(0, len(lines), -(-lines.symbols // SCORED)))


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
