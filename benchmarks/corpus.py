"""Rates on a real corpus: whole training epochs and decoding from raw text, with a fresh model of a
configuration.

    python benchmarks/corpus.py configs/resume.toml --device cuda --batch 128 [--set
    section.key=value …]

An epoch is what training does: batches made and sent ahead, loss, backward, clipping, AdamW; the
host waits once, at its end. Matching is done before, once for the whole run, and its time is told
apart. Decoding goes from raw text to spans with their probabilities. The first round of each warms
up (kernels are compiled) and is not counted; the figure is the median of the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import script
import torch

from hanlattice.checkpoint.folder import Model
from hanlattice.config import read_config
from hanlattice.features import Batch
from hanlattice.features.buckets import training_batches
from hanlattice.features.prefetch import prefetch
from hanlattice.nn.to_device import to_device
from hanlattice.predict import Predictor
from hanlattice.training.build import build
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import PREFETCH, train_step
from hanlattice.training.optim import make_optimizer
from hanlattice.training.processes import ProcessGroup
from hanlattice.training.step import Training


def median_seconds(work: Callable[[int], object], rounds: int, device: torch.device) -> float:
    times = []
    for n in range(rounds + 1):
        begin = time.perf_counter()
        work(n)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def _show(options: argparse.Namespace) -> dict[str, Any]:
    config = read_config(
        options.config, [*options.changes, f"train.batch_size={options.batch}"], complete=True
    )
    device = torch.device(options.device)
    torch.set_num_threads(max(1, config.train.threads))
    corpora = read_corpora(config.data)
    built = build(config, corpora.train)
    begin = time.perf_counter()
    examples = built.indexer.examples(corpora.train)
    matched = time.perf_counter() - begin
    tagger = built.tagger.to(device)
    run = Training(tagger, make_optimizer(tagger, config.train), config.train.clip)

    def make(places: object) -> Batch:
        return to_device(examples.batch(places), device)  # type: ignore[arg-type]

    def epoch(n: int) -> None:
        order = training_batches(examples.lengths, options.batch, 1, n)
        with closing(prefetch(make, order, PREFETCH[device.type][0])) as batches:
            for batch in batches:
                train_step(run, tagger, [batch], ProcessGroup(device.type))

    tagger.train()
    training = median_seconds(epoch, options.rounds, device)
    tagger.eval()
    texts = [sentence.text for sentence in corpora.train]
    predictor = Predictor(Model(tagger, built.indexer, config))
    decoding = median_seconds(lambda _: predictor(texts), options.rounds, device)
    sentences = len(texts)
    characters = sum(map(len, texts))
    record = {
        "config": options.config.name,
        "changes": options.changes,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "batch": options.batch,
        "sentences": sentences,
        "characters": characters,
        "seconds to numbers, once a run": round(matched, 3),
        "seconds an epoch": round(training, 3),
        "training sentences/s": round(sentences / training),
        "decoding sentences/s": round(sentences / decoding),
        "decoding characters/s": round(characters / decoding),
    }
    print(json.dumps(record, ensure_ascii=False, indent=2))
    return record


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__, json="--out")
    parser.add_argument("config", type=Path)
    parser.add_argument(
        "--set", dest="changes", action="append", default=[], metavar="section.key=value"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
