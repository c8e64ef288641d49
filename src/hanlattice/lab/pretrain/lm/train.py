"""The training of a language model: chunk, loss, backward, clip, step, score, save."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.checkpoint.language_model import DIRECTIONS, load_language_model, save_direction
from hanlattice.config import TrainConfig
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.events import Listener, Log, ignore
from hanlattice.files import remove
from hanlattice.inference.device import find_device, use_threads
from hanlattice.lab.pretrain.lm.folder import (
    check_folder,
    finished_facts,
    log_file,
    state_file,
    write_card,
    write_curve,
    write_frame,
)
from hanlattice.lab.pretrain.lm.recipe import Recipe
from hanlattice.lab.pretrain.lm.score import SOFTMAX, score
from hanlattice.lab.pretrain.lm.text import (
    LanguageModelText,
    Lines,
    Streams,
    read_source,
    source_facts,
)
from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.training.build import vectors_for
from hanlattice.training.optim import make_optimizer, warmup_linear
from hanlattice.training.step import Progress, Training

BOTH = "both"
# Seconds between two reads of the loss: reading it waits for a GPU.
PAUSE = {"cpu": 0.0, "cuda": 0.25}
# Characters, or words, of held-out text that are scored during training; at the end all of it is.
SCORED = 200_000
# A tagger reads each text from an empty state; training starts from one only once an epoch. So that
# the model learns to, a stream is reset with this probability at the beginning of a chunk.
FORGET = 0.02


def train_language_model(
    recipe: Recipe,
    files: Sequence[str | Path],
    folder: str | Path,
    direction: str = BOTH,
    *,
    resume: bool = False,
    listen: Listener = ignore,
) -> dict[str, dict[str, Any]]:
    """Train one direction, or both one after the other, into a folder; return the facts of each.

    With `resume`, continue where an earlier run in that folder was stopped.
    """
    if direction not in (BOTH, *DIRECTIONS):
        wanted = f"{', '.join(DIRECTIONS)} or {BOTH}"
        raise InputError(f"no direction is called {direction!r}: expected {wanted}")
    folder = Path(folder)
    directions = DIRECTIONS if direction == BOTH else (direction,)
    find_device(recipe.device)
    for name in directions:
        check_folder(folder, name, resume)
    use_threads(recipe.threads)
    source = read_source(recipe, files, directions, listen)
    return {
        name: _train_direction(recipe, source, folder, name, resume, listen) for name in directions
    }


def _train_direction(
    recipe: Recipe,
    source: LanguageModelText,
    folder: Path,
    direction: str,
    resume: bool,
    listen: Listener,
) -> dict[str, Any]:
    identity = source.identity(recipe, direction)
    if resume and (facts := finished_facts(folder, direction, identity)) is not None:
        return facts
    run = None
    try:
        run = _prepare(recipe, source, folder, direction, resume, listen)
        _epochs(run)
        return _finish(run)
    # For the memory of a CPU, torch has no error class of its own.
    except RuntimeError as error:
        words = r"can't allocate memory|not enough memory|ALLOC_FAILED"
        if not isinstance(error, torch.OutOfMemoryError) and not re.search(words, str(error)):
            raise
        state = folder / state_file(direction)
        if run is not None and not run.progress.step:
            # No step was done: the folder is free for a run of other sizes.
            remove(state)
        options = "--batch-size, --length, --hidden, --embedding or --layers"
        advice = f"there is not enough memory: lower {options}"
        if state.exists():
            advice += ", with another --out, or continue with --resume where there is more"
        raise HanlatticeError(advice) from None


@dataclass
class LanguageModelRun:
    """Everything that the loop works with; `scored` is the part of `held_out` it scores."""

    recipe: Recipe
    folder: Path
    direction: str
    facts: dict[str, Any]
    model: CharLanguageModel
    training: Training
    streams: Streams
    held_out: Lines
    scored: Lines
    carried: State
    log: Log

    @property
    def progress(self) -> Progress:
        return self.training.progress

    @property
    def chunks(self) -> int:
        """Return the steps of an epoch, of which the last may be shorter than the others."""
        return -(-self.streams.steps // self.recipe.length)

    def add_gradients(self, chunk: Tensor) -> Tensor:
        """Add the gradients of a chunk, [B, T + 1], and return the sum of its losses, in nats."""
        factors = torch.bfloat16 if chunk.is_cuda else None
        hidden, (h, c) = self.model(chunk[:, :-1], forgetful(self.carried), factors)
        self.carried = (h.detach(), c.detach())
        return add_gradients(self.model, hidden, chunk[:, 1:])

    def save(self) -> None:
        """Write the state from which the run can be resumed."""
        self.progress.log_size = self.log.size
        path = self.folder / state_file(self.direction)
        self.training.save(path, self.facts["identity"], dict(zip("hc", self.carried, strict=True)))

    def rates(self) -> dict[str, Any]:
        """Return the progress, for an event."""
        progress = self.progress
        return {
            "direction": self.direction,
            "epoch": progress.epoch,
            "step": progress.step,
            "characters" if self.held_out.sizes is None else "words": progress.characters,
            "loss": progress.mean_loss,
            "best": progress.best,
            "best_step": progress.best_at,
            "seconds": round(progress.seconds, 2),
        }


def _prepare(
    recipe: Recipe,
    source: LanguageModelText,
    folder: Path,
    direction: str,
    resume: bool,
    listen: Listener,
) -> LanguageModelRun:
    """Make the model and everything around it, or restore a stopped run; write nothing before."""
    device = find_device(recipe.device)
    torch.manual_seed(recipe.seed)
    model = CharLanguageModel(len(source.vocab), **asdict(source.settings))
    if source.start is not None:
        model.load_state_dict(source.start.directions[direction].state_dict())
    # Larger than random embeddings, since they know something (docs/pretraining.md has figures).
    if source.vectors:
        norm = source.settings.embedding**0.5
        model.embedding.data = vectors_for(source.vocab, source.vectors, norm=norm)
    model = model.to(device)
    optimizer = make_optimizer(model, TrainConfig(lr=recipe.lr, weight_decay=recipe.weight_decay))
    training = Training(model, optimizer, recipe.clip)
    train, held_out = source.lines(direction)
    streams = Streams(train, recipe.batch_size, device)
    # At even steps.
    scored = held_out.take(np.arange(0, len(held_out), -(-held_out.symbols // SCORED)))
    cpu = f"CPU, {torch.get_num_threads()} threads"
    facts = source_facts(source, recipe, direction) | {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "torch": torch.__version__,
    }
    if source.start is not None:
        facts["from"]["held_out"] = score(model.eval(), scored).as_dict()
    h = torch.zeros(model.layers, recipe.batch_size, model.hidden, device=device)
    c = torch.zeros_like(h)
    path = folder / state_file(direction)
    resumed = resume and path.exists()
    if resumed:
        training.load(path, facts["identity"], {"h": h, "c": c})
    write_frame(folder, source)
    log = Log(folder / log_file(direction), listen, training.progress.log_size)
    run = LanguageModelRun(
        recipe, folder, direction, facts, model, training, streams, held_out, scored, (h, c), log
    )
    if not resumed:
        # From now to the end there is a state: weights without one are those of a finished run.
        run.save()
    _announce(run)
    return run


def _announce(run: LanguageModelRun) -> None:
    facts = run.facts
    epochs = run.recipe.epochs
    steps = run.chunks * epochs
    if run.progress.step:
        run.log.record("resume", epochs=epochs, steps=steps, **run.rates())
        return
    known = {name: facts[name] for name in ("parameters", "symbols", "data")}
    known["before"] = None if facts["from"] is None else facts["from"]["held_out"]
    known |= {"scored": run.scored.symbols, "device": facts["device"]}
    run.log.record("start", direction=run.direction, epochs=epochs, steps=steps, **known)


def _epochs(run: LanguageModelRun) -> None:
    recipe = run.recipe
    training = run.training
    progress = run.progress
    T, chunks, steps = recipe.length, run.chunks, run.chunks * recipe.epochs
    pause = PAUSE[training.device.type]
    started = time.monotonic() - progress.seconds
    saved = time.monotonic()
    told = float("-inf")
    run.model.train()
    while progress.epoch < recipe.epochs:
        text = run.streams.epoch(recipe.seed, progress.epoch)  # [B, steps + 1]
        if not progress.batch:
            run.carried = (torch.zeros_like(run.carried[0]), torch.zeros_like(run.carried[1]))
        while progress.batch < chunks:
            chunk = text[:, progress.batch * T : (progress.batch + 1) * T + 1]  # [B, T + 1]
            rate = warmup_linear(recipe.lr, recipe.warmup, progress.step, steps)
            training.step(partial(run.add_gradients, chunk), rate)  # loss, backward, clip, step
            progress.advance(chunk[:, 1:].numel(), chunk[:, 1:].numel())
            progress.seconds = time.monotonic() - started
            if time.monotonic() - told >= pause:
                training.record_loss()
                run.log.emit("step", steps=steps, **run.rates())
                told = time.monotonic()
            done, before = (
                count * recipe.evaluate // chunks for count in (progress.batch, progress.batch - 1)
            )
            # At even steps, and always after the last chunk.
            if done > before:
                _evaluate(run, started)
            if time.monotonic() - saved > recipe.checkpoint_minutes * 60:
                run.save()
                saved = time.monotonic()
        progress.epoch = progress.epoch + 1
        progress.batch = 0
        run.save()
        saved = time.monotonic()


def forgetful(carried: State) -> State:
    """Return the state that a chunk begins with: the last one, but empty for a few streams."""
    h, c = carried
    kept = (torch.rand(1, h.shape[1], 1, device=h.device) >= FORGET).to(h.dtype)
    return h * kept, c * kept


def add_gradients(model: CharLanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Add the gradients of the mean loss to the weights; return the sum of the losses, in nats.

    The softmax is wide, so it is done and undone for some rows at a time: memory does not grow with
    the batch. On a GPU its products are in bfloat16 and its losses in float32.
    """
    place = hidden.device.type
    total = hidden.new_zeros((), dtype=torch.float64)
    rows = max(1, SOFTMAX // len(model.embedding))
    # [rows, H] each.
    pieces = torch.split(hidden.flatten(0, 1), rows)
    parts = [part.detach().requires_grad_() for part in pieces]
    for part, wanted in zip(parts, torch.split(targets.flatten().long(), rows), strict=True):
        with torch.autocast(place, torch.bfloat16, enabled=place == "cuda"):
            logits = model.logits(part)  # [rows, V]
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum")
        (loss / targets.numel()).backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    gradients = [part.grad for part in parts if part.grad is not None]
    hidden.backward(torch.cat(gradients).view_as(hidden))  # type: ignore[no-untyped-call]
    return total


def _evaluate(run: LanguageModelRun, started: float) -> None:
    """Score held-out text, and keep the weights if they are the best so far."""
    progress = run.progress
    run.training.record_loss()
    run.model.eval()
    scores = score(run.model, run.scored)
    run.model.train()
    progress.seconds = time.monotonic() - started
    if scores.perplexity < (math.inf if progress.best is None else progress.best):
        progress.best = scores.perplexity
        progress.best_at = progress.step
        epoch = progress.step / run.chunks
        facts = {**run.facts, "step": progress.step, "epoch": epoch, "held_out": scores.as_dict()}
        facts |= {"trained_on": progress.characters, "seconds": round(progress.seconds, 2)}
        save_direction(run.folder, run.direction, run.model.state_dict(), facts)
    names = ("perplexity", "bits", "bits_a_character")
    figures = {name: value for name, value in scores.as_dict().items() if name in names}
    run.log.record("evaluate", **figures, **run.rates())
    run.training.reset_loss()


def _finish(run: LanguageModelRun) -> dict[str, Any]:
    """Score the best weights, read from disk, on all held-out text; write card and curve."""
    folder = run.folder
    direction = run.direction
    loaded = load_language_model(folder, run.recipe.device, (direction,))
    model = loaded.directions[direction]
    facts = {**loaded.facts[direction], "held_out": score(model, run.held_out).as_dict()}
    facts["seconds"] = round(run.progress.seconds, 2)
    save_direction(folder, direction, model.state_dict(), facts)
    write_card(folder)
    picture = write_curve(folder, direction)
    figures = {name: facts[name] for name in ("held_out", "seconds")}
    run.log.record("done", direction=direction, **figures, curve=picture)
    remove(folder / state_file(direction))
    return facts
