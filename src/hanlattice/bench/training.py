"""Whole training steps beside a character LSTM: a new batch, loss with CRF, backward, clipping, AdamW."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import numpy as np
import torch

from hanlattice.batch import Batch, Examples
from hanlattice.batch.prefetch import prefetch
from hanlattice.bench.inputs import CHARACTER, Settings, make_examples, make_tagger
from hanlattice.bench.timing import medians
from hanlattice.config import TrainConfig
from hanlattice.models.tagger import Tagger
from hanlattice.ops.lattice_lstm import runnable
from hanlattice.text.lattice import Ints
from hanlattice.training.loop import PACE
from hanlattice.training.optim import make_optimizer
from hanlattice.training.step import Training, tagger_gradients

SENTENCES = 2048  # that batches are taken from


def measure_training(settings: Settings, device: torch.device, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for each H, B and model; `ratio` is to the time of the character LSTM with the same CRF."""
    rows: list[dict[str, Any]] = []
    for hidden in settings.hidden:
        for batch in settings.batches:
            tell(f"training step, H = {hidden}, B = {batch}")
            rows += [{"hidden": hidden, "batch": batch, **row} for row in _cell(settings, hidden, batch, device)]
    return rows


def _cell(settings: Settings, hidden: int, batch: int, device: torch.device) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        works: dict[str, Callable[[], None]] = {}
        for name in models_here(device):
            examples = make_examples(settings, SENTENCES, words=name != CHARACTER)
            batches = stack.enter_context(closing(new_batches(examples, batch, device)))
            tagger = make_tagger(settings.dim, hidden, name).to(device).train()
            works[name] = partial(step, tagger, ready(tagger), batches)
        times = medians(works, settings.seconds, device)
    for name, timing in times.items():
        ratio = timing.seconds / times[CHARACTER].seconds
        yield {"model": name, **timing._asdict(), "ratio": ratio, "sentences_per_second": batch / timing.seconds}


def models_here(device: torch.device) -> list[str]:
    """The character LSTM, and the lattice model with its own choice of backend and, if that is another, `batched`."""
    names = runnable(torch.empty(0, device=device))
    return [CHARACTER, *(name for name in ("auto", "batched") if name in names)]


def new_batches(examples: Examples, batch: int, device: torch.device) -> Generator[Batch]:
    """Batches without end, made as the training loop makes them: on a GPU, ahead of their turn."""

    def make(places: Ints) -> Batch:
        return examples.batch(places).to(device)

    return prefetch(make, _places(len(examples), batch), PACE[device.type][0])


def _places(sentences: int, batch: int) -> Iterator[Ints]:
    rng = np.random.default_rng(0)
    while True:
        yield rng.integers(0, sentences, size=batch)


def ready(tagger: Tagger) -> Training:
    return Training(tagger, make_optimizer(tagger, TrainConfig()), TrainConfig().clip)


def step(tagger: Tagger, training: Training, batches: Iterator[Batch]) -> None:
    training.step(partial(tagger_gradients, tagger, next(batches)))
