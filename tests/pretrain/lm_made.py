"""Small language models on made text, and a way to kill a training at a chosen moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanlattice.models.language_model import LanguageModel, Settings, make_vocab
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.pretrain import lm_curve
from hanlattice.pretrain.lm_recipe import Recipe
from hanlattice.pretrain.lm_text import Lines, make_lines
from hanlattice.pretrain.lm_train import train_language_model
from hanlattice.text.normal import code_points
from tests.made import sentences

TINY: dict[str, Any] = {
    "embedding": 6, "hidden": 8, "batch_size": 4, "length": 9, "epochs": 2, "lr": 0.02, "min_count": 2,
    "held_out": 0.1, "threads": 1,
}  # fmt: skip

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["hanlattice.pretrain.lm_train", "torch._dynamo"])


def tiny(**changes: Any) -> Recipe:
    return Recipe(**{**TINY, **changes})


def write_text(path: Path, count: int = 60) -> Path:
    """Lines of text, five to twenty characters each."""
    path.write_text("".join(f"{sentence.text}\n" for sentence in sentences(count, 3)), "utf-8")
    return path


def lines_of(*texts: str) -> Lines:
    """Texts as code points."""
    return make_lines(code_points("".join(f"{text}\n" for text in texts)))


def random_model(characters: str, hidden: int = 5, layers: int = 1, seed: int = 0) -> LanguageModel:
    """Both directions with random weights, large enough to tell symbols apart."""
    torch.manual_seed(seed)
    vocab, settings = make_vocab(characters), Settings(4, hidden, layers)
    modules = {}
    for direction in ("forward", "backward"):
        module = CharLanguageModel(len(vocab), 4, hidden, layers)
        for weight in module.parameters():
            torch.nn.init.normal_(weight, std=0.7)
        modules[direction] = module.requires_grad_(False).eval()
    return LanguageModel(vocab, settings, modules)


def text_of(lines: Lines, at: int) -> list[int]:
    """The ids of one line, found by a plain slice."""
    start, length = int(lines.starts[at]), int(lines.lengths[at])
    return np.asarray(lines.ids)[start : start + length].tolist()


def killed_at_step(recipe: Recipe, text: Path, folder: Path, step: int, resume: bool = False) -> bool:
    """Train forward, killed with SIGKILL after so many steps. False when the training ended before."""
    return _run(_until_step, recipe, text, folder, step, resume)


def killed_at_write(recipe: Recipe, text: Path, folder: Path, moment: int) -> bool:
    """Train forward, killed before the n-th time that something is put on disk. It draws no curve, to be quick."""
    return _run(_until_write, recipe, text, folder, moment)


def _run(target: Callable[..., None], *arguments: Any) -> bool:
    process = _server.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), f"the training ended with {process.exitcode}"
    return process.exitcode == -signal.SIGKILL


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _until_step(recipe: Recipe, text: Path, folder: Path, step: int, resume: bool) -> None:
    left = step

    def listen(event: dict[str, Any]) -> None:
        nonlocal left
        left -= event["event"] == "step"
        if left < 0:
            _die()

    train_language_model(recipe, [text], folder, "forward", resume=resume, listen=listen)


def _until_write(recipe: Recipe, text: Path, folder: Path, moment: int) -> None:
    """Moments are just before each fsync, rename and removal; after one is before the next."""
    left = moment
    lm_curve.find_spec = lambda name: None  # type: ignore[attr-defined]

    def watched(do: Callable[..., Any]) -> Callable[..., Any]:
        def watch(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                _die()
            return do(*arguments, **named)

        return watch

    os.fsync = watched(os.fsync)
    Path.replace = watched(Path.replace)  # type: ignore[method-assign]
    Path.unlink = watched(Path.unlink)  # type: ignore[method-assign]
    train_language_model(recipe, [text], folder, "forward")
