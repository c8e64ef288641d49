"""What a process of the comparison does: train and count one run, or measure one row's rates, and
leave a record.

A record is a JSON file that says what it belongs to. Records are enough for the table, so a folder
of them can go to another machine without its models.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanlattice.checkpoint.folder import CONFIG
from hanlattice.checkpoint.language_model import language_model_digest
from hanlattice.checkpoint.load import load_model
from hanlattice.checkpoint.segmenter import model_version, segmenter_version
from hanlattice.config import Config
from hanlattice.data.download import resolve
from hanlattice.errors import HanlatticeError, InputError, ModelError
from hanlattice.evaluation.ner import LONG, Score
from hanlattice.evaluation.significance import Counts, sentence_counts
from hanlattice.events import Listener, ignore
from hanlattice.features.buckets import training_batches
from hanlattice.features.prefetch import prefetch
from hanlattice.files import atomic_write, opening, sha256
from hanlattice.inference.decode import decode
from hanlattice.inference.device import find_device, use_threads
from hanlattice.lab.bench.timing import call_times, machine, medians, versions
from hanlattice.lab.compare.matrix import MatrixRow, flat_settings
from hanlattice.text.lattice import Ints
from hanlattice.text.sentence import Sentence
from hanlattice.training.corpora import read_corpora
from hanlattice.training.loop import LOG, PREFETCH, TrainingRun, prepare, train

FORMAT = 1
# Settings that do not change the result, or not more than another device does.
FREE = ("train.device", "train.checkpoint_minutes", "lm.cache", "compare.row", "compare.paper")
FILES = (
    "train",
    "dev",
    "test",
    "more",
    "vectors",
    "lexicon",
    "model",
)  # keys of settings that name a file or folder
# training steps that do not count, and that count at least
WARM = 20
FEW = 5

Record = dict[str, Any]
Rate = dict[str, float]


def train_run(
    device: str,
    listen: Listener,
    row: MatrixRow,
    seed: int,
    folder: Path,
    path: Path,
    identity: Record,
) -> Record:
    """Train, or resume, or find it finished; then count sentence by sentence. The record goes to
    `path`.
    """
    begun = begun_on(folder)
    if begun and begun != device:
        raise ModelError(
            f"{folder}: it was begun on {begun}, not on {device}: give that device, or remove the folder"
        )
    result = train(row.with_seed(seed, device), folder, resume=True, listen=listen)
    model = load_model(folder, device)
    sentences = _compared_sentences(row)
    found = decode(
        model.tagger, model.indexer, model.indexer.examples(sentences), threshold=model.threshold()
    )
    counts = sentence_counts([sentence.spans or () for sentence in sentences], found)  # [S, 3]
    start, last = _first_and_last(folder)
    record = {
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
        "short": short_score(sentences, counts),
    }
    write_record(path, record)
    return record


def short_score(sentences: Sequence[Sentence], counts: Counts) -> Record | None:
    """The score without sentences of LONG characters or more, which the papers leave out; None if
    there are none.
    """
    short = np.fromiter(map(len, sentences), dtype=np.int64) < LONG
    if short.all():
        return None
    return {"left_out": int((~short).sum()), **Score(*counts[short].sum(0).tolist()).as_dict()}


def begun_on(folder: Path) -> str:
    """The device on which a run was begun, where alone it can be resumed; "" if it was not begun."""
    try:
        return str(
            json.loads((folder / CONFIG).read_text(encoding="utf-8"))["config"]["train"]["device"]
        )
    except (OSError, ValueError, KeyError, TypeError):  # `train` looks at it more closely
        return ""


def recount(record: Record) -> str:
    """In words, how the counts differ from the recorded score; "" if they add up to it."""
    gold, predicted, correct = (
        np.array(record["counts"], dtype=np.int64).reshape(-1, 3).sum(0).tolist()
    )
    score = Score(gold, predicted, correct)
    recorded = record["scores"][record["part"]]["overall"]
    if (gold, predicted, correct) == (recorded["gold"], recorded["predicted"], recorded["correct"]):
        return ""
    return (
        f"decoded again, its F1 is {100 * score.f1:.2f} and not {100 * recorded['f1']:.2f}: "
        "the device rounds differently in batches of another shape"
    )


def measure_rates(
    device: str,
    listen: Listener,
    row: MatrixRow,
    seed: int,
    folder: Path,
    path: Path,
    identity: Record,
    seconds: float,
) -> Record:
    """How fast the row of the finished run in `folder` trains and decodes. The record goes to
    `path`.
    """
    use_threads(row.config.train.threads)
    decoding = _decoding_rate(row, folder, device, seconds)
    scratch = path.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed process
    try:
        config = row.with_seed(seed, device)
        training = _training_rate(
            prepare(config, scratch, read_corpora(config.data), False, ignore), seconds
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    record = {
        "identity": identity,
        "device": device,
        "machine": machine(torch.device(device)),
        "versions": versions(),
        "train": training,
        "decode": decoding,
    }
    write_record(path, record)
    return record


def _decoding_rate(row: MatrixRow, folder: Path, device: str, seconds: float) -> Rate:
    """From Examples to spans, all compared sentences at once."""
    model = load_model(folder, device)
    sentences = _compared_sentences(row)
    examples = model.indexer.examples(sentences)
    timing = medians(
        {
            "decode": partial(
                decode, model.tagger, model.indexer, examples, threshold=model.threshold()
            )
        },
        seconds,
    )["decode"]
    return _rate(len(sentences), sum(map(len, sentences)), timing.seconds, timing.calls)


def _training_rate(run: TrainingRun, seconds: float) -> Rate:
    """Whole steps on the batches of the training set, in the order of a training."""
    device = find_device(run.config.device)
    lengths = list[Ints]()
    run.tagger.train()
    places = (
        place
        for epoch in count()
        for place in training_batches(
            run.examples.lengths, run.config.batch_size, run.config.seed, epoch
        )
    )
    with closing(prefetch(run.make_batch, places, PREFETCH[device.type][0])) as batches:

        def step() -> None:
            parts = next(batches)
            run.training.step(partial(run.gradients, *parts))
            lengths.extend(part.lattice.lengths for part in parts)

        warm = call_times(step, WARM, device, seconds)
        calls = max(FEW, math.ceil(seconds / max(1e-6, statistics.median(warm[-FEW:]))))
        lengths.clear()
        times = call_times(step, calls, device, 2 * seconds)
    sizes = np.concatenate(lengths)
    return _rate(len(sizes), int(sizes.sum()), sum(times), len(times))


def _rate(sentences: int, characters: int, seconds: float, calls: int) -> Rate:
    return {
        "sentences_per_second": sentences / seconds,
        "characters_per_second": characters / seconds,
        "calls": calls,
    }


def _compared_sentences(row: MatrixRow) -> tuple[Sentence, ...]:
    corpora = read_corpora(row.config.data)
    return corpora.test if row.part == "test" else corpora.dev


def _first_and_last(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The log's start and last epoch, whose `seconds` are those of the run, without the time it was
    stopped.
    """
    with open(folder / LOG, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    start = next((event for event in events if event["event"] == "start"), None)
    last = next((event for event in reversed(events) if event["event"] == "epoch"), None)
    if start is None or last is None:
        raise ModelError(
            f"{folder / LOG}: no start or no epoch in it; remove the folder to train again"
        )
    return start, last


# ---- records


def write_record(path: Path, record: Record) -> None:
    with atomic_write(path) as file:
        json.dump({"format": FORMAT, **record}, file, ensure_ascii=False)
        file.write("\n")


def read_record(
    path: Path, now: Record, use: Callable[[Record], object]
) -> tuple[Record | None, list[str]]:
    """What `write_record` wrote, or None without a file; and how its identity differs from that of
    `now`.

    A record that fails when it is put to `use` is damaged.
    """
    if not path.exists():
        return None, []
    try:
        with opening(path) as file:
            record = json.loads(file.read())
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError(f"not a record of `hanlattice compare`, format {FORMAT}: remove it", path)
    try:
        use(record)
        return record, list(_changes(record["identity"], now))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problem = f"{type(error).__name__}: {error}"
        message = f"a damaged record of `hanlattice compare` ({problem}); remove it, and the run is repeated"
        raise InputError(message, path) from None


def file_digest(name: str) -> str:
    """The checksum of a file, or of a language model's folder; "" if it is missing."""
    try:
        path = resolve(name)
        return language_model_digest(path) if path.is_dir() else sha256(path)
    except HanlatticeError:  # the training that needs it reports what is wrong
        return ""


def identity(config: Config, digest: Callable[[str], str] = file_digest) -> Record:
    """What must be the same for a record to belong to this run: settings, and the content of the
    files they name.
    """
    settings = flat_settings(config)
    files = {
        place: name
        for place, name in settings.items()
        if name and place.rpartition(".")[2] in FILES
    }
    digests = {place: digest(name) for place, name in files.items()}
    digests |= (
        {"segment.by": segmenter_version(config.segment.by) or ""}
        if config.segments_by_model
        else {}
    )
    digests |= (
        {"start.model": model_version(config.start.model) or ""} if config.start.model else {}
    )
    return {
        "settings": {place: value for place, value in settings.items() if place not in FREE},
        "files": digests,
    }


def _changes(then: Record, now: Record) -> Iterator[str]:
    """In words, what differs between two identities. A file that is missing now is not looked at."""
    for place, value in now["settings"].items():
        before = then["settings"][place]
        if before != value:
            yield f"{place} was {before!r} and is {value!r}"
    for place, digest in now["files"].items():
        if digest and then["files"].get(place) not in (digest, None):
            yield f"the file of {place} has another content"
