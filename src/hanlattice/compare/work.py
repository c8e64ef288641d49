"""One run of the matrix, from its configuration to its record. It happens in a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanlattice.bench.timing import machine, versions
from hanlattice.compare.matrix import Row
from hanlattice.compare.records import Record, keep
from hanlattice.errors import ModelError
from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.significance import Counts, sentence_counts
from hanlattice.events import Listener
from hanlattice.models.decode import decode
from hanlattice.models.folder import CONFIG, load_model
from hanlattice.text.sentence import Sentence
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import LOG, train


def do_run(device: str, tell: Listener, row: Row, seed: int, folder: Path, record: Path, identity: Record) -> Record:
    """Train, or go on, or find that it is done; then count sentence by sentence, and keep all that in `record`."""
    begun = begun_on(folder)
    if begun and begun != device:
        raise ModelError(f"{folder}: it was begun on {begun}, not on {device}: give that device, or remove the folder")
    result = train(row.with_seed(seed, device), folder, resume=True, listen=tell)
    counts = count(row, folder, device)
    start, last = first_and_last(folder)
    made: Record = {
        "identity": identity,
        "row": row.stem,
        "seed": seed,
        "device": device,
        "machine": machine(torch.device(device)),
        "versions": versions(),
        "scores": result.scores,
        "epoch": result.scores["epoch"],
        "seconds": last["seconds"],
        "parameters": start["parameters"],
        "part": row.part,
        "counts": counts.tolist(),
    }
    keep(record, made)
    return made


def begun_on(folder: Path) -> str:
    """The device on which a run was begun, where alone it can go on; "" if it was not."""
    try:
        return str(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["config"]["train"]["device"])
    except (OSError, ValueError, KeyError, TypeError):  # `train` will look at it more closely
        return ""


def count(row: Row, folder: Path, device: str) -> Counts:
    """[S, 3]: gold, predicted and correct spans of each sentence of the part that is compared."""
    model, sentences = load_model(folder, device), compared_sentences(row)
    found = decode(model.tagger, model.indexer, model.indexer.examples(sentences))
    return sentence_counts([sentence.spans or () for sentence in sentences], found)


def compared_sentences(row: Row) -> tuple[Sentence, ...]:
    corpora = read_corpora(row.config.data)
    return corpora.test if row.part == "test" else corpora.dev


def recount(record: Record) -> str:
    """In words, how the counts differ from the recorded score; "" if they add up to it."""
    gold, predicted, correct = np.array(record["counts"], dtype=np.int64).reshape(-1, 3).sum(0).tolist()
    score, said = Score(gold, predicted, correct), record["scores"][record["part"]]["overall"]
    if (gold, predicted, correct) == (said["gold"], said["predicted"], said["correct"]):
        return ""
    return (
        f"decoded once more, its F1 is {100 * score.f1:.2f} and not {100 * said['f1']:.2f}: the device rounds "
        "otherwise in batches of another shape"
    )


def first_and_last(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the log says at the start and of the last epoch, whose `seconds` are the run's, stops not counted."""
    with open(folder / LOG, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    start = next((event for event in events if event["event"] == "start"), None)
    last = next((event for event in reversed(events) if event["event"] == "epoch"), None)
    if start is None or last is None:
        raise ModelError(f"{folder / LOG}: no start or no epoch in it; remove the folder, and it is trained anew")
    return start, last
