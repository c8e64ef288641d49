"""Small language models on made text, and a way to kill a training at a chosen moment."""

from __future__ import annotations

import contextlib
import json
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanlattice.checkpoint.checksums import load_tensors
from hanlattice.checkpoint.language_model import (
    Cutter,
    LanguageModel,
    LanguageModelSettings,
    make_vocab,
)
from hanlattice.lab.pretrain.lm.recipe import Recipe
from hanlattice.lab.pretrain.lm.text import Lines, make_lines
from hanlattice.lab.pretrain.lm.train import train_language_model
from hanlattice.nn.language_model import CharLanguageModel
from hanlattice.text.normalize import code_points
from tests.helpers.crash import die_at_step, killed
from tests.helpers.made import sentences

TINY: dict[str, Any] = {
    "embedding": 6, "hidden": 8, "batch_size": 4, "length": 9, "epochs": 2, "lr": 0.02,
    "min_count": 2, "held_out": 0.1, "threads": 1,
}  # fmt: skip


def tiny(**changes: Any) -> Recipe:
    """Return a recipe that trains in a moment."""
    # A model that starts from another one has its characters already.
    own = {"min_count": None} if "start_from" in changes else {}
    return Recipe(**{**TINY, **own, **changes})


def write_text(path: Path, count: int = 60) -> Path:
    """Write lines of text, five to twenty characters each."""
    path.write_text("".join(f"{sentence.text}\n" for sentence in sentences(count, 3)), "utf-8")
    return path


def lines_of(*texts: str) -> Lines:
    """Return texts as code points."""
    # Streams need an array that can be written.
    return make_lines(code_points("".join(f"{text}\n" for text in texts)).copy())


def random_model(
    symbols: Iterable[str],
    hidden: int = 5,
    layers: int = 1,
    seed: int = 0,
    cutter: Cutter | None = None,
) -> LanguageModel:
    """Return a model with random weights, which are large enough to tell symbols apart."""
    torch.manual_seed(seed)
    vocab = make_vocab(symbols)
    settings = LanguageModelSettings(4, hidden, layers)
    modules = {}
    for direction in ("forward", "backward"):
        module = CharLanguageModel(len(vocab), 4, hidden, layers)
        for weight in module.parameters():
            torch.nn.init.normal_(weight, std=0.7)
        modules[direction] = module.requires_grad_(False).eval()
    return LanguageModel(vocab, settings, modules, cutter=cutter)


def text_of(lines: Lines, index: int) -> list[int]:
    """Return the ids of one line, by a plain slice."""
    start = int(lines.starts[index])
    length = int(lines.lengths[index])
    return np.asarray(lines.ids)[start : start + length].tolist()


def weights(folder: Path, direction: str = "forward") -> dict[str, torch.Tensor]:
    """Read the weights of a direction."""
    return load_tensors(folder / f"{direction}.safetensors")[0]


def facts(folder: Path, direction: str = "forward") -> Any:
    """Read the record of a direction, without the time that it took."""
    known = json.loads(load_tensors(folder / f"{direction}.safetensors")[1]["facts"])
    return {name: value for name, value in known.items() if name != "seconds"}


def events(folder: Path, kind: str, direction: str = "forward") -> list[dict[str, Any]]:
    """Read the events of one kind from the log, without their times."""
    log = (folder / f"log-{direction}.jsonl").read_text("utf-8")
    records = [record for line in log.splitlines() if (record := json.loads(line))["event"] == kind]
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def assert_same_weights(mine: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    """Assert that the weights are equal, bit for bit."""
    assert mine.keys() == theirs.keys()
    for name in theirs:
        assert torch.equal(mine[name], theirs[name]), name


def assert_same_run(folder: Path, expected: Path) -> None:
    """Assert that two runs have the same weights, records, logs and files."""
    assert_same_weights(weights(folder), weights(expected))
    assert facts(folder) == facts(expected)
    for kind in ("start", "evaluate", "done"):
        assert events(folder, kind) == events(expected, kind), kind
    # Another process may be writing these, so a run leaves them.
    shared_parts = (".chars.txt.", ".lm.json.", ".README.md.")
    assert {f.name for f in folder.iterdir() if not f.name.startswith(shared_parts)} == {
        f.name for f in expected.iterdir()
    }


@contextlib.contextmanager
def files_of_any_size() -> Iterator[None]:
    """Undo `limit_files` at the end of the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limit_files(size: int, event: str = "step") -> None:
    """Limit the size of files, from the first step of a training on."""
    if event == "step":
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )


def killed_at_step(
    recipe: Recipe, text: Path, folder: Path, step: int, resume: bool = False
) -> bool:
    """Train forward, and kill the process after some steps. Return False if it ended before."""
    return killed(_until_step, recipe, text, folder, step, resume)


def _until_step(recipe: Recipe, text: Path, folder: Path, step: int, resume: bool) -> None:
    train_language_model(recipe, [text], folder, "forward", resume=resume, listen=die_at_step(step))
