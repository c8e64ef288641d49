"""The tasks of a comparison: train and count one run, or measure one row's rates.

Each leaves a record, a JSON file that says what it belongs to. Records are enough for the table, so
a folder of them can go to another machine without its models.
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
from hanlattice.training.loop import LOG, PREFETCH, TrainingRun, prepare, train, train_step

FORMAT = 1
# Settings that do not change the result, or not more than another device does.
FREE = ("train.device", "train.checkpoint_minutes", "lm.cache", "compare.row", "compare.paper")
# Keys of settings that name a file or folder.
FILES = ("train", "dev", "test", "more", "vectors", "lexicon", "model")
# Training steps that warm up, and the fewest that count.
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
    """Train, or resume, or find it finished; count sentence by sentence; write the record."""
    begun = begun_on(folder)
    if begun and begun != device:
        advice = "give that device, or remove the folder"
        raise ModelError(f"{folder}: it was begun on {begun}, not on {device}: {advice}")
    result = train(row.with_seed(seed, device), folder, resume=True, listen=listen)
    model = load_model(folder, device)
    sentences = _compared_sentences(row)
    examples = model.indexer.examples(sentences)
    spans = decode(model.tagger, model.indexer, examples, threshold=model.threshold())
    counts = sentence_counts([sentence.spans or () for sentence in sentences], spans)
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
    """Score without sentences of LONG characters, which the papers skip; None without any."""
    short = np.fromiter(map(len, sentences), dtype=np.int64) < LONG
    if short.all():
        return None
    return {"left_out": int((~short).sum()), **Score(*counts[short].sum(0).tolist()).as_dict()}


def begun_on(folder: Path) -> str:
    """Return the device on which a run was begun and must be resumed; "" if it was not begun."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["config"]
        return str(config["train"]["device"])
    # `train` reports what is wrong with the file.
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def recount(record: Record) -> str:
    """Say how the counts differ from the recorded score; "" if they add up to it."""
    counts = np.array(record["counts"], dtype=np.int64).reshape(-1, 3).sum(0).tolist()
    recorded = record["scores"][record["part"]]["overall"]
    if counts == [recorded["gold"], recorded["predicted"], recorded["correct"]]:
        return ""
    f1 = Score(*counts).f1
    return (
        f"decoded again, its F1 is {100 * f1:.2f} and not {100 * recorded['f1']:.2f}: "
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
    """Measure how fast the row of a finished run trains and decodes; write the record."""
    use_threads(row.config.train.threads)
    # Decoding goes from Examples to spans, all compared sentences at once.
    model = load_model(folder, device)
    sentences = _compared_sentences(row)
    examples = model.indexer.examples(sentences)
    threshold = model.threshold()
    work = partial(decode, model.tagger, model.indexer, examples, threshold=threshold)
    timing = medians({"decode": work}, seconds)["decode"]
    characters = sum(map(len, sentences))
    decoding = _rate(len(sentences), characters, timing.seconds, timing.calls)
    scratch = path.with_suffix(".scratch")
    # A killed process may have left it.
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        config = row.with_seed(seed, device)
        run = prepare(config, scratch, read_corpora(config.data), False, ignore)
        training = _training_rate(run, seconds)
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


def _training_rate(run: TrainingRun, seconds: float) -> Rate:
    """Time whole steps on the batches of the training set, in the order of a training."""
    device = find_device(run.config.device)
    lengths = list[Ints]()
    run.tagger.train()
    options = (run.examples.lengths, run.config.batch_size, run.config.seed)
    places = (place for epoch in count() for place in training_batches(*options, epoch))
    with closing(prefetch(run.make_batch, places, PREFETCH[device.type][0])) as batches:

        def step() -> None:
            parts = next(batches)
            train_step(run.training, run.model, parts, run.team)
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
    """Return the log's start and last epoch, whose `seconds` leave out the time it was stopped."""
    with open(folder / LOG, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    start = next((event for event in events if event["event"] == "start"), None)
    last = next((event for event in reversed(events) if event["event"] == "epoch"), None)
    if start is None or last is None:
        problem = "no start or no epoch in it; remove the folder to train again"
        raise ModelError(f"{folder / LOG}: {problem}")
    return start, last


# ---- records


def write_record(path: Path, record: Record) -> None:
    """Write a record as JSON."""
    with atomic_write(path) as file:
        json.dump({"format": FORMAT, **record}, file, ensure_ascii=False)
        file.write("\n")


def read_record(
    path: Path, now: Record, use: Callable[[Record], object]
) -> tuple[Record | None, list[str]]:
    """Read a record, None without a file, and how its identity differs from `now`.

    A record is damaged if `use` raises for it.
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
        problem = f"a damaged record of `hanlattice compare` ({type(error).__name__}: {error})"
        raise InputError(f"{problem}; remove it, and the run is repeated", path) from None


def file_digest(name: str) -> str:
    """Return the checksum of a file, or of a language model's folder; "" if it is missing."""
    try:
        path = resolve(name)
        return language_model_digest(path) if path.is_dir() else sha256(path)
    # The training that needs it reports what is wrong.
    except HanlatticeError:
        return ""


def identity(config: Config, digest: Callable[[str], str] = file_digest) -> Record:
    """Return what a record of this run must have: settings, and the content of their files."""
    settings = flat_settings(config)
    digests = {
        key: digest(name)
        for key, name in settings.items()
        if name and key.rpartition(".")[2] in FILES
    }
    if config.segments_by_model:
        digests["segment.by"] = segmenter_version(config.segment.by) or ""
    if config.start.model:
        digests["start.model"] = model_version(config.start.model) or ""
    decisive = {key: value for key, value in settings.items() if key not in FREE}
    return {"settings": decisive, "files": digests}


def _changes(then: Record, now: Record) -> Iterator[str]:
    """Say what differs between two identities; a file that is missing now is skipped."""
    for key, value in now["settings"].items():
        before = then["settings"][key]
        if before != value:
            yield f"{key} was {before!r} and is {value!r}"
    for key, digest in now["files"].items():
        if digest and then["files"].get(key) not in (digest, None):
            yield f"the file of {key} has another content"
