"""How fast a row trains and decodes, alone on its device. It happens in a worker."""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import torch

from hanlattice.batch import Batch
from hanlattice.batch.buckets import training_batches
from hanlattice.batch.prefetch import prefetch
from hanlattice.bench.timing import call_times, machine, medians, versions
from hanlattice.compare.matrix import Row
from hanlattice.compare.records import Record, keep
from hanlattice.compare.work import compared_sentences
from hanlattice.events import Listener, ignore
from hanlattice.models.decode import decode
from hanlattice.models.device import find_device, use_threads
from hanlattice.models.folder import load_model
from hanlattice.text.lattice import Ints
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import PACE, Run, prepare
from hanlattice.training.step import tagger_gradients

WARM, FEW = 20, 5  # steps that do not count, and that count at least

Rate = dict[str, float]


def do_rates(
    device: str, tell: Listener, row: Row, seed: int, folder: Path, record: Path, identity: Record, seconds: float
) -> Record:
    """The rates of the finished run in `folder`, kept in `record`."""
    use_threads(row.config.train.threads)
    decoding = decoding_rate(row, folder, device, seconds)
    scratch = record.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)  # a killed one's
    try:
        config = row.with_seed(seed, device)
        run = prepare(config, scratch, read_corpora(config.data), False, ignore)
        training = training_rate(run, seconds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    made: Record = {
        "identity": identity,
        "device": device,
        "machine": machine(torch.device(device)),
        "versions": versions(),
        "train": training,
        "decode": decoding,
    }
    keep(record, made)
    return made


def decoding_rate(row: Row, folder: Path, device: str, seconds: float) -> Rate:
    """From Examples to spans, all sentences that are compared at once."""
    model, sentences = load_model(folder, device), compared_sentences(row)
    examples = model.indexer.examples(sentences)
    timing = medians({"decode": partial(decode, model.tagger, model.indexer, examples)}, seconds)["decode"]
    return _rate(len(sentences), sum(map(len, sentences)), timing.seconds, timing.calls)


def training_rate(run: Run, seconds: float) -> Rate:
    """Whole steps on the batches of the training set, in the order in which a training takes them."""
    device = find_device(run.config.device)
    run.tagger.train()
    with closing(prefetch(partial(_make, run), _places(run), PACE[device.type][0])) as batches:
        steps = Steps(run, batches)
        warm = call_times(steps, WARM, device, seconds)
        calls = max(FEW, math.ceil(seconds / max(1e-6, statistics.median(warm[-FEW:]))))
        steps.sentences = steps.characters = 0
        times = call_times(steps, calls, device, 2 * seconds)
        return _rate(steps.sentences, steps.characters, sum(times), len(times))


class Steps:
    """A call is a training step; it counts what went through."""

    def __init__(self, run: Run, batches: Iterator[tuple[Ints, Batch]]) -> None:
        self.run, self.batches = run, batches
        self.sentences = self.characters = 0

    def __call__(self) -> None:
        run, (places, batch) = self.run, next(self.batches)
        run.training.step(partial(tagger_gradients, run.tagger, batch))
        self.sentences += len(places)
        self.characters += int(run.examples.lengths[places].sum())


def _make(run: Run, places: Ints) -> tuple[Ints, Batch]:
    return places, run.make_batch(places)


def _places(run: Run) -> Iterator[Ints]:
    """Batches without end, epoch after epoch."""
    for epoch in count():
        yield from training_batches(run.examples.lengths, run.config.batch_size, run.config.seed, epoch)


def _rate(sentences: int, characters: int, seconds: float, calls: int) -> Rate:
    return {"sentences_per_second": sentences / seconds, "characters_per_second": characters / seconds, "calls": calls}
