"""The training of a language model, one direction at a time: chunk, loss, backward, clip, step,
score, save.
"""

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
PAUSE = {
    "cpu": 0.0,
    "cuda": 0.25,
}  # seconds between two reads of the loss: reading it waits for a GPU
# Characters, or words, of held-out text that are scored during training; at the end all of it is.
SCORED = 200_000
# A tagger reads each text from an empty state; training starts from one only once an epoch. So that
# the model learns
# to, a stream is reset with this probability at the beginning of a chunk.
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
    """Train one direction, or both one after the other, into a folder, and return the facts of
    each.

    With `resume`, continue where an earlier run in that folder was stopped.
    """
    if direction not in (BOTH, *DIRECTIONS):
        raise InputError(
            f"no direction is called {direction!r}: expected {', '.join(DIRECTIONS)} or {BOTH}"
        )
    folder = Path(folder)
    directions = DIRECTIONS if direction == BOTH else (direction,)
    find_device(recipe.device)
    for each in directions:
        check_folder(folder, each, resume)
    use_threads(recipe.threads)
    source = read_source(recipe, files, directions, listen)
    return {
        each: _train_direction(recipe, source, folder, each, resume, listen) for each in directions
    }


def _train_direction(
    recipe: Recipe,
    source: LanguageModelText,
    folder: Path,
    direction: str,
    resume: bool,
    listen: Listener,
) -> dict[str, Any]:
    if (
        resume
        and (facts := finished_facts(folder, direction, source.identity(recipe, direction)))
        is not None
    ):
        return facts
    run = None
    try:
        run = _prepare(recipe, source, folder, direction, resume, listen)
        _epochs(run)
        return _finish(run)
    except RuntimeError as error:  # for the memory of a CPU, torch has no error class of its own
        words = r"can't allocate memory|not enough memory|ALLOC_FAILED"
        if not isinstance(error, torch.OutOfMemoryError) and not re.search(words, str(error)):
            raise
        state = folder / state_file(direction)
        if run is not None and not run.progress.step:
            remove(state)  # no step was done: the folder is free for a run of other sizes
        advice = "there is not enough memory: lower --batch-size, --length, --hidden, --embedding or --layers"
        if state.exists():
            advice += ", with another --out, or continue with --resume where there is more"
        raise HanlatticeError(advice) from None


@dataclass
class LanguageModelRun:
    """Everything that the loop works with."""

    recipe: Recipe
    folder: Path
    direction: str
    facts: dict[str, Any]
    model: CharLanguageModel
    training: Training
    streams: Streams
    held_out: Lines
    scored: Lines  # the part of it that is scored during training
    carried: State
    log: Log

    @property
    def progress(self) -> Progress:
        return self.training.progress

    @property
    def chunks(self) -> int:
        """Steps of an epoch. The last chunk may be shorter than the others."""
        return -(-self.streams.steps // self.recipe.length)

    def add_gradients(self, chunk: Tensor) -> Tensor:
        """Read a chunk, [B, T + 1], add the gradients of its mean loss, and give the sum of its
        losses, in nats.
        """
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
        """The progress, for an event."""
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
    """Make the model and everything around it, or restore a stopped run. Nothing is written before
    all is made.
    """
    device = find_device(recipe.device)
    torch.manual_seed(recipe.seed)
    model = CharLanguageModel(len(source.vocab), **asdict(source.settings))
    if source.start is not None:
        model.load_state_dict(source.start.directions[direction].state_dict())
    # Larger than random embeddings are: they know something already (docs/pretraining.md has
    # figures).
    if source.vectors:
        model.embedding.data = vectors_for(
            source.vocab, source.vectors, norm=source.settings.embedding**0.5
        )
    model = model.to(device)
    optimizer = make_optimizer(model, TrainConfig(lr=recipe.lr, weight_decay=recipe.weight_decay))
    training = Training(model, optimizer, recipe.clip)
    train, held_out = source.lines(direction)
    streams = Streams(train, recipe.batch_size, device)
    scored = held_out.take(
        np.arange(0, len(held_out), -(-held_out.symbols // SCORED))
    )  # at even steps
    facts = _facts(recipe, source, direction, model, scored)
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


def _facts(
    recipe: Recipe,
    source: LanguageModelText,
    direction: str,
    model: CharLanguageModel,
    scored: Lines,
) -> dict[str, Any]:
    device = model.embedding.device
    cpu = f"CPU, {torch.get_num_threads()} threads"
    facts = source_facts(source, recipe, direction) | {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "torch": torch.__version__,
    }
    if source.start is not None:
        facts["from"]["held_out"] = score(model.eval(), scored).as_dict()
    return facts


def _announce(run: LanguageModelRun) -> None:
    facts = run.facts
    epochs = run.recipe.epochs
    if run.progress.step:
        run.log.record("resume", epochs=epochs, steps=run.chunks * epochs, **run.rates())
        return
    run.log.record(
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
            if done > before:  # at even steps, and always after the last chunk
                _evaluate(run, started)
            if time.monotonic() - saved > recipe.checkpoint_minutes * 60:
                run.save()
                saved = time.monotonic()
        progress.epoch = progress.epoch + 1
        progress.batch = 0
        run.save()
        saved = time.monotonic()


def forgetful(carried: State) -> State:
    """The state that a chunk begins with: that of the chunk before, but for a few streams an empty
    one.
    """
    h, c = carried
    kept = (torch.rand(1, h.shape[1], 1, device=h.device) >= FORGET).to(h.dtype)
    return h * kept, c * kept


def add_gradients(model: CharLanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Add the gradients of the mean loss to the weights', and give the sum of the losses, in nats.

    The softmax is wide, so it is done and undone for some rows at a time: memory does not grow with
    the batch. On a GPU its products are in bfloat16 and its losses in float32.
    """
    place = hidden.device.type
    total = hidden.new_zeros((), dtype=torch.float64)
    rows = max(1, SOFTMAX // len(model.embedding))
    parts = [
        part.detach().requires_grad_() for part in torch.split(hidden.flatten(0, 1), rows)
    ]  # [rows, H] each
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
    found = score(run.model, run.scored)
    run.model.train()
    progress.seconds = time.monotonic() - started
    if found.perplexity < (math.inf if progress.best is None else progress.best):
        progress.best = found.perplexity
        progress.best_at = progress.step
        facts = {
            **run.facts,
            "step": progress.step,
            "epoch": progress.step / run.chunks,
            "held_out": found.as_dict(),
        }
        facts |= {"trained_on": progress.characters, "seconds": round(progress.seconds, 2)}
        save_direction(run.folder, run.direction, run.model.state_dict(), facts)
    figures = {
        key: value
        for key, value in found.as_dict().items()
        if key in ("perplexity", "bits", "bits_a_character")
    }
    run.log.record("evaluate", **figures, **run.rates())
    run.training.reset_loss()


def _finish(run: LanguageModelRun) -> dict[str, Any]:
    """Score the best weights, as they are on disk, on all held-out text; write card and curve;
    remove the state.
    """
    folder = run.folder
    direction = run.direction
    loaded = load_language_model(folder, run.recipe.device, (direction,))
    model = loaded.directions[direction]
    facts = {**loaded.facts[direction], "held_out": score(model, run.held_out).as_dict()}
    facts["seconds"] = round(run.progress.seconds, 2)
    save_direction(folder, direction, model.state_dict(), facts)
    write_card(folder)
    picture = write_curve(folder, direction)
    run.log.record(
        "done",
        direction=direction,
        held_out=facts["held_out"],
        seconds=facts["seconds"],
        curve=picture,
    )
    remove(folder / state_file(direction))
    return facts
