"""The training of a language model, one direction at a time: chunk, loss, backward, clip, step, score, save."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanlattice.errors import InputError
from hanlattice.models.device import find_device, use_threads
from hanlattice.models.language_model import DIRECTIONS, load_language_model, save_direction
from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.pretrain.lm_curve import write_curve
from hanlattice.pretrain.lm_folder import (
    check_folder,
    finished_facts,
    is_finished,
    log_file,
    read_log,
    state_file,
    write_card,
    write_frame,
)
from hanlattice.pretrain.lm_recipe import Recipe
from hanlattice.pretrain.lm_score import score
from hanlattice.pretrain.lm_source import Source, facts_of, read_source
from hanlattice.pretrain.lm_state import Position, load_state, save_state
from hanlattice.pretrain.lm_step import add_gradients, forgetful, learning_rate, make_optimizer
from hanlattice.pretrain.lm_streams import Streams
from hanlattice.pretrain.lm_text import Lines
from hanlattice.training.log import Listener, Log, ignore

BOTH = "both"
SCORED = 200_000  # characters of held-out text that are scored while it trains; the end's figure is of all of them
PAUSE = {"cpu": 0.0, "cuda": 0.25}  # seconds between two looks at the loss: a GPU has to be waited for to look at it


def train_language_model(
    recipe: Recipe,
    files: Sequence[str | Path],
    folder: str | Path,
    direction: str = BOTH,
    *,
    resume: bool = False,
    listen: Listener = ignore,
) -> dict[str, dict[str, Any]]:
    """Train one direction, or both one after the other, into a folder; what is known of each comes back.

    With `resume`, go on where an earlier run in that folder was stopped.
    """
    if direction not in (BOTH, *DIRECTIONS):
        raise InputError(f"no direction is called {direction!r}: expected {', '.join(DIRECTIONS)} or {BOTH}")
    folder, directions = Path(folder), DIRECTIONS if direction == BOTH else (direction,)
    find_device(recipe.device)
    for each in directions:
        check_folder(folder, each, resume)
    use_threads(recipe.threads)
    source = read_source(recipe, files, directions, listen)
    write_frame(folder, source)
    return {each: _train_direction(recipe, source, folder, each, resume, listen) for each in directions}


def _train_direction(
    recipe: Recipe, source: Source, folder: Path, direction: str, resume: bool, listen: Listener
) -> dict[str, Any]:
    if resume and is_finished(folder, direction):
        return finished_facts(folder, direction, source.identity(recipe, direction))
    run = prepare(recipe, source, folder, direction, resume, listen)
    _epochs(run)
    return _finish(run)


@dataclass
class Run:
    """Everything that the loop works with."""

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


def prepare(recipe: Recipe, source: Source, folder: Path, direction: str, resume: bool, listen: Listener) -> Run:
    """Make the model and everything around it, or bring a stopped run back."""
    device = find_device(recipe.device)
    torch.manual_seed(recipe.seed)
    model = CharLanguageModel(len(source.vocab), **asdict(source.settings))
    if source.start is not None:
        model.load_state_dict(source.start.directions[direction].state_dict())
    model = model.to(device)
    optimizer = make_optimizer(model, recipe)
    train, held_out = source.lines(direction)
    facts = facts_of(source, recipe, direction) | {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "device": _device_name(device),
        "torch": torch.__version__,
    }
    scored = _some(held_out)
    if source.start is not None:
        facts["from"]["held_out"] = score(model.eval(), scored).as_dict()
    carried = tuple(torch.zeros(model.layers, recipe.batch_size, model.hidden, device=device) for _ in range(2))
    position, path = Position(), folder / state_file(direction)
    going_on = resume and path.exists()
    if going_on:
        position = load_state(path, facts["identity"], model, optimizer, (carried[0], carried[1]))
    run = Run(
        recipe=recipe,
        folder=folder,
        direction=direction,
        facts=facts,
        model=model,
        optimizer=optimizer,
        streams=Streams(train, recipe.batch_size, device),
        held_out=held_out,
        scored=scored,
        carried=(carried[0], carried[1]),
        position=position,
        log=Log(folder / log_file(direction), listen, position.log_size),
        loss=torch.tensor(position.loss, dtype=torch.float64, device=device),
    )
    if not going_on:
        run.save()  # from now to the end there is a state: weights without one are those of a finished run
    _announce(run)
    return run


def _epochs(run: Run) -> None:
    recipe, position, model, optimizer = run.recipe, run.position, run.model, run.optimizer
    weights, T, chunks = list(model.parameters()), recipe.length, run.chunks
    pause = PAUSE[run.loss.device.type]
    factors = torch.bfloat16 if run.loss.is_cuda else None
    started, saved, told = time.monotonic() - position.seconds, time.monotonic(), float("-inf")
    model.train()
    while position.epoch < recipe.epochs:
        text = run.streams.epoch(recipe.seed, position.epoch)  # [B, steps + 1]
        if not position.chunk:
            run.carried = (torch.zeros_like(run.carried[0]), torch.zeros_like(run.carried[1]))
        while position.chunk < chunks:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(recipe, position.step, chunks * recipe.epochs)
            optimizer.zero_grad(set_to_none=True)
            chunk = text[:, position.chunk * T : (position.chunk + 1) * T + 1]  # [B, T + 1]
            hidden, (h, c) = model(chunk[:, :-1], forgetful(run.carried), factors)
            run.carried = (h.detach(), c.detach())
            run.loss += add_gradients(model, hidden, chunk[:, 1:])
            if recipe.clip:
                torch.nn.utils.clip_grad_norm_(weights, recipe.clip)
            optimizer.step()
            position.advance(chunk[:, 1:].numel())
            position.seconds = time.monotonic() - started
            if time.monotonic() - told >= pause:
                position.hear(float(run.loss))
                run.log.tell("step", steps=chunks * recipe.epochs, **_rates(run))
                told = time.monotonic()
            if _is_due(position.chunk, chunks, recipe.evaluate):
                _evaluate(run, started)
            if time.monotonic() - saved > recipe.checkpoint_minutes * 60:
                run.save()
                saved = time.monotonic()
        position.epoch, position.chunk = position.epoch + 1, 0
        run.save()
        saved = time.monotonic()


def _is_due(chunk: int, chunks: int, times: int) -> bool:
    """Whether held-out text is scored after so many chunks: at even steps, and always after the last."""
    return chunk * times // chunks > (chunk - 1) * times // chunks


def _evaluate(run: Run, started: float) -> None:
    """Score held-out text, and keep the weights if none before them did better."""
    position = run.position
    position.hear(float(run.loss))
    run.model.eval()
    found = score(run.model, run.scored)
    run.model.train()
    position.seconds = time.monotonic() - started
    if found.perplexity < position.best:
        position.best, position.best_step = found.perplexity, position.step
        facts = {**run.facts, "step": position.step, "epoch": position.step / run.chunks, "held_out": found.as_dict()}
        facts |= {"trained_on": position.symbols, "seconds": round(position.seconds, 2)}
        save_direction(run.folder, run.direction, run.model.state_dict(), facts)
    run.log.keep("evaluate", perplexity=found.perplexity, bits=found.bits, **_rates(run))
    position.loss, position.heard = 0.0, 0
    run.loss.zero_()


def _rates(run: Run) -> dict[str, Any]:
    position = run.position
    return {
        "direction": run.direction,
        "epoch": position.epoch,
        "step": position.step,
        "characters": position.symbols,
        "loss": position.loss / max(1, position.heard),
        "best": position.best if position.best_step else None,
        "best_step": position.best_step,
        "seconds": round(position.seconds, 2),
    }


def _announce(run: Run) -> None:
    facts, epochs = run.facts, run.recipe.epochs
    if run.position.step:
        run.log.keep("resume", epochs=epochs, steps=run.chunks * epochs, **_rates(run))
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


def _finish(run: Run) -> dict[str, Any]:
    """Score the best weights, as they are on disk, on all held-out text; clear away what only a stopped run needs."""
    folder, direction = run.folder, run.direction
    loaded = load_language_model(folder, run.recipe.device, (direction,))
    model = loaded.directions[direction]
    facts = {**loaded.facts[direction], "held_out": score(model, run.held_out).as_dict()}
    facts["seconds"] = round(run.position.seconds, 2)
    save_direction(folder, direction, model.state_dict(), facts)
    write_card(folder)
    picture = write_curve(folder, direction, read_log(folder, direction))
    run.log.keep("done", direction=direction, held_out=facts["held_out"], seconds=facts["seconds"], curve=picture)
    (folder / state_file(direction)).unlink(missing_ok=True)
    return facts


def _some(lines: Lines) -> Lines:
    """As many lines, at even steps, as have about so many characters."""
    return lines.take(np.arange(0, len(lines), -(-lines.symbols // SCORED)))


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
