"""The training of a language model, one direction at a time: chunk, loss, backward, clip, step, score, save."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.events import Listener, ignore
from hanlattice.models.device import find_device, use_threads
from hanlattice.models.language_model import DIRECTIONS, load_language_model, save_direction
from hanlattice.pretrain.lm.curve import write_curve
from hanlattice.pretrain.lm.folder import check_folder, finished_facts, is_finished, read_log, state_file, write_card
from hanlattice.pretrain.lm.recipe import Recipe
from hanlattice.pretrain.lm.run import Run, prepare
from hanlattice.pretrain.lm.score import score
from hanlattice.pretrain.lm.source import Source, read_source
from hanlattice.pretrain.lm.step import add_gradients, forgetful
from hanlattice.training.optim import warmup_linear

BOTH = "both"
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
    return {each: _train_direction(recipe, source, folder, each, resume, listen) for each in directions}


def _train_direction(
    recipe: Recipe, source: Source, folder: Path, direction: str, resume: bool, listen: Listener
) -> dict[str, Any]:
    if resume and is_finished(folder, direction):
        return finished_facts(folder, direction, source.identity(recipe, direction))
    run = None
    try:
        run = prepare(recipe, source, folder, direction, resume, listen)
        _epochs(run)
        return _finish(run)
    except RuntimeError as error:
        if not _is_shortage(error):
            raise
        state = folder / state_file(direction)
        if run is not None and not run.position.step:
            state.unlink(missing_ok=True)  # there was no step: the folder is free for a run of other sizes
        raise HanlatticeError(_shortage(state.exists())) from None


def _is_shortage(error: RuntimeError) -> bool:
    """Whether memory ran out. Of a CPU's, torch says so in words only."""
    words = r"can't allocate memory|not enough memory|ALLOC_FAILED"
    return isinstance(error, torch.OutOfMemoryError) or re.search(words, str(error)) is not None


def _shortage(stopped: bool) -> str:
    """What to do about it."""
    advice = "there is not enough memory: lower --batch-size, --length, --hidden, --embedding or --layers"
    return f"{advice}, with another --out, or go on by --resume where there is more" if stopped else advice


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
                group["lr"] = warmup_linear(recipe.lr, recipe.warmup, position.step, chunks * recipe.epochs)
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
                run.log.tell("step", steps=chunks * recipe.epochs, **run.rates())
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
    run.log.keep("evaluate", perplexity=found.perplexity, bits=found.bits, **run.rates())
    position.loss, position.heard = 0.0, 0
    run.loss.zero_()


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
