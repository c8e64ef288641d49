"""The training loop: batch, loss, backward, clip, step, evaluate, save."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hanlattice.checkpoint.folder import (
    LM,
    STATIC_FILES,
    TRANSFORMER,
    WEIGHTS,
    Model,
    save_frame,
    save_scores,
    save_weights,
)
from hanlattice.checkpoint.language_model import language_model_digest
from hanlattice.checkpoint.load import check_segmenter, load_model
from hanlattice.checkpoint.segmenter import model_version, segmenter_version
from hanlattice.checkpoint.transformer import find_transformer, transformer_digest
from hanlattice.config import Config, TrainConfig, validate
from hanlattice.data.download import resolve
from hanlattice.errors import ConfigError, ModelError, OutputError
from hanlattice.evaluation.ner import Report, score
from hanlattice.evaluation.segmentation import score_segmentation, words_in
from hanlattice.events import Listener, Log, ignore
from hanlattice.features import Batch, Examples, Indexer
from hanlattice.features.buckets import training_batches
from hanlattice.features.prefetch import prefetch
from hanlattice.files import LOCK, lock_folder, remove, sha256
from hanlattice.inference.decode import decode
from hanlattice.inference.device import find_device, use_threads
from hanlattice.inference.threshold import Threshold, threshold_for
from hanlattice.nn.tagger import TorchTagger
from hanlattice.nn.to_device import to_device
from hanlattice.text.lattice import Ints
from hanlattice.text.sentence import Sentence
from hanlattice.training.build import Built, build
from hanlattice.training.card import write_card
from hanlattice.training.corpora import Corpora, check_gold_words, check_segmented, read_corpora
from hanlattice.training.lm_cache import with_states
from hanlattice.training.optim import learning_rates, make_optimizer
from hanlattice.training.processes import Gradients, ProcessGroup, join
from hanlattice.training.step import Progress, Training
from hanlattice.training.warm_start import check_start, start_facts

STATE = "state.safetensors"
LOG = "log.jsonl"
# Seconds: a state that takes longer to write, such as a transformer's, is not written after each
# short epoch.
SLOW_SAVE_SECONDS = 1.0
# Batches that are made and sent while the device computes, and seconds between two reads of the
# loss. Reading it waits
# for a GPU; a CPU that computes has no time to spare for batches.
PREFETCH = {"cpu": (0, 0.0), "cuda": (3, 0.25)}


@dataclass(frozen=True)
class Result:
    folder: Path
    scores: dict[str, Any]


def train(
    config: Config, folder: str | Path, *, resume: bool = False, listen: Listener = ignore
) -> Result:
    """Train a model into a folder. With `resume`, continue where an earlier run in that folder was
    stopped.

    Of several processes, which torchrun starts, the first writes the folder, listens and has the
    scores.
    """
    folder = Path(folder)
    _check(config, folder, resume)
    with (
        join(config.train.device) as team,
        lock_folder(folder, "train") if team.writes else nullcontext(),
    ):
        if team.writes:
            _check_folder(folder, resume)  # again: now nobody else can begin a run in it
            _remove_half(folder)
        use_threads(config.train.threads)
        corpora = read_corpora(config.data)
        if resume and (folder / WEIGHTS).exists() and not (folder / STATE).exists():
            return _finished(folder, config, corpora)
        run = prepare(config, folder, corpora, resume, listen, team)
        _epochs(run)
        return _finish(folder, corpora, run.log, team.device) if team.writes else Result(folder, {})


@dataclass(frozen=True)
class TrainingRun:
    """Everything that the loop works with."""

    config: TrainConfig
    folder: Path
    identity: str
    tagger: TorchTagger
    indexer: Indexer
    training: Training
    gradients: Gradients
    log: Log
    team: ProcessGroup
    examples: Examples
    dev: Sequence[Sentence]
    dev_examples: Examples
    decode: str = "path"

    def make_batch(self, places: Ints) -> list[Batch]:
        """The sentences of a step, in so many parts as are computed one after the other."""
        parts = np.array_split(places, min(self.config.accumulate, len(places)))
        return [self._part(part) for part in parts]

    def _part(self, places: Ints) -> Batch:
        seed = (
            self.config.seed,
            self.training.progress.epoch,
            *places[:8],
        )  # a resumed run leaves out the same words
        rows = self.team.rows(self.examples.lengths[places])
        batch = self.examples.batch(places, self.config.word_dropout, seed, rows)
        return self.tagger.prepare(
            to_device(batch, self.training.device)
        )  # a thread may have another current device

    def dev_scores(self) -> dict[str, Any]:
        """The scores on dev, with the bar of a model that decodes by spans; none without dev."""
        if not self.dev:
            return {}
        report = evaluate(self.tagger, self.indexer, self.dev, self.dev_examples, self.team)
        more = {}
        if self.decode == "spans":
            more = {"threshold": threshold_for(report.overall.f1)}
            report = evaluate(
                self.tagger, self.indexer, self.dev, self.dev_examples, self.team, **more
            )
        return {"dev": report.as_dict(), **more}

    def save(self) -> float:
        """Write the state from which the run can be resumed, and give the seconds that this took."""
        if not self.team.writes:
            return 0.0
        started = time.monotonic()
        self.training.progress.log_size = self.log.size
        self.training.save(self.folder / STATE, self.identity)
        return time.monotonic() - started


def prepare(
    config: Config,
    folder: Path,
    corpora: Corpora,
    resume: bool,
    listen: Listener,
    team: ProcessGroup | None = None,
) -> TrainingRun:
    """Build the model and everything around it, or restore a stopped run. Without `team` this
    process is alone.
    """
    team = team or ProcessGroup(config.train.device)
    check_gold_words(config, corpora)
    built = build(config, corpora.trained_on, (*corpora.dev, *corpora.test))
    if built.indexer.cuts:
        check_segmented(config, corpora)
    sentences = [
        sentence for sentence in corpora.trained_on if not sentence.text.isspace()
    ]  # nothing to learn there
    tagger = built.tagger.to(team.device)
    optimizer = make_optimizer(tagger, config.train, config.transformer, config.rates)
    training = Training(tagger, optimizer, config.train.clip, config.train.average)
    identity = _identity(config, corpora)
    resumed = resume and (folder / STATE).exists()
    if resumed:
        training.load(folder / STATE, identity)
    if len(set(team.gather([resumed]))) > 1:  # nothing is written before all have looked
        raise ModelError(
            f"{folder}: not every process finds its state there; --out must be on a disk that all share"
        )
    if team.writes:
        facts = corpora.facts(config) | (start_facts(config) if config.start.model else {})
        save_frame(folder, config, built.indexer, facts)
    run = TrainingRun(
        config=config.train,
        folder=folder,
        identity=identity,
        tagger=tagger,
        indexer=built.indexer,
        training=training,
        gradients=team.gradients(tagger),
        log=Log(folder / LOG, listen, training.progress.log_size)
        if team.writes
        else Log(None, ignore),
        team=team,
        examples=_examples(config, built, sentences),
        dev=corpora.dev,
        dev_examples=_examples(config, built, corpora.dev[team.rank :: team.size]),
        decode=config.model.decode,
    )
    if not resumed:
        # From now to the end there is a state: weights without one are those of a finished run.
        run.save()
    _announce(run, corpora, built)
    return run


def _examples(config: Config, built: Built, sentences: Sequence[Sentence]) -> Examples:
    """A corpus as numbers, with the language model's states if they are cached."""
    examples = built.indexer.examples(sentences)
    lm = built.tagger.lm
    if lm is None or not config.lm.cache:
        return examples
    return with_states(examples, lm, language_model_digest(config.lm.model))


def _epochs(run: TrainingRun) -> None:
    config, tagger, training, progress = run.config, run.tagger, run.training, run.training.progress
    depth, pause = PREFETCH[training.device.type]
    started = time.monotonic() - progress.seconds
    saved = time.monotonic()
    told = float("-inf")
    took = 0.0
    while progress.epoch < config.epochs and progress.epoch - progress.best_at < (
        config.patience or float("inf")
    ):
        order = training_batches(
            run.examples.lengths, config.batch_size, config.seed, progress.epoch
        )
        tagger.train()
        with closing(prefetch(run.make_batch, order[progress.batch :], depth)) as batches:
            for parts in batches:
                rates = learning_rates(config, training.optimizer, progress.step, len(order))
                training.step(partial(run.gradients, *parts), rates)  # loss, backward, clip, step
                lengths = run.examples.lengths[order[progress.batch]]
                progress.advance(len(lengths), int(lengths.sum()))
                progress.seconds = time.monotonic() - started
                if run.team.writes and time.monotonic() - told >= pause:
                    training.record_loss()
                    run.log.emit("step", batches=len(order), **_rates(progress))
                    told = time.monotonic()
                if time.monotonic() - saved > config.checkpoint_minutes * 60:
                    took = run.save()
                    saved = time.monotonic()
        training.record_loss()
        progress.epoch = progress.epoch + 1
        progress.batch = 0
        with training.average.in_place():
            scores = run.dev_scores()
            f1 = scores["dev"]["overall"]["f1"] if scores else 0.0
            is_best = progress.best is None or f1 > progress.best or not scores
            if is_best:
                progress.best = f1
                progress.best_at = progress.epoch
            if run.team.writes and (is_best or config.keep == "last"):
                save_weights(run.folder, tagger.state_dict(), {"epoch": progress.epoch, **scores})
        progress.seconds = time.monotonic() - started
        dev = {"dev": scores["dev"]["overall"]} if scores else {}
        run.log.record("epoch", **dev, **_rates(progress))
        training.reset_loss()
        progress.characters = 0
        if took < SLOW_SAVE_SECONDS or time.monotonic() - saved > 10 * took:
            took = run.save()
            saved = time.monotonic()


def evaluate(
    tagger: TorchTagger,
    indexer: Indexer,
    sentences: Sequence[Sentence],
    examples: Examples,
    team: ProcessGroup,
    threshold: Threshold = None,
) -> Report:
    """Exact spans of all sentences; `examples` are this process's. Leaves the model in evaluation
    mode.
    """
    tagger.eval()
    found = team.gather(decode(tagger, indexer, examples, threshold=threshold))
    return score([sentence.spans or () for sentence in sentences], found)


def complete_scores(model: Model, corpora: Corpora) -> dict[str, Any]:
    """The model's scores with those that are missing: test, and for a segmenter the scores that
    count words.
    """
    scores = dict(model.scores)
    known = (
        words_in(corpora.train) if model.indexer.cuts else None
    )  # without the sentences that were held out
    for part, sentences in (("dev", corpora.dev), ("test", corpora.test)):
        there = scores.get(part, {})
        complete = bool(there) if known is None else "segmentation" in there
        if sentences and not complete:
            scores[part] = {**part_scores(model, sentences, known), **there}
    return scores


def part_scores(
    model: Model, sentences: Sequence[Sentence], known: Collection[str] | None
) -> dict[str, Any]:
    """Exact spans; for a segmenter also its words, `known` being those of its training."""
    found = decode(
        model.tagger, model.indexer, model.indexer.examples(sentences), threshold=model.threshold()
    )
    gold = [sentence.spans or () for sentence in sentences]
    report = score(gold, found).as_dict()
    if model.indexer.cuts:
        texts = [sentence.text for sentence in sentences]
        report["segmentation"] = score_segmentation(texts, gold, found, known).as_dict(words=0)
    return report


def _rates(progress: Progress) -> dict[str, Any]:
    return {
        "epoch": progress.epoch,
        "batch": progress.batch,
        "loss": progress.mean_loss,
        "best": progress.best or 0.0,
        "best_epoch": progress.best_at,
        "characters": progress.characters,
        "seconds": round(progress.seconds, 2),
    }


def _check(config: Config, folder: Path, resume: bool) -> None:
    """Refuse what cannot be trained, before any work."""
    if problems := validate(config):
        raise ConfigError(problems)
    find_device(config.train.device)
    if config.start.model:
        check_start(config)
    if config.reads_segments:
        check_segmenter(config.segment.by, config.train.device)
    _check_folder(folder, resume)


def _check_folder(folder: Path, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
    names = {file.name for file in folder.glob("*")}
    if not names & {STATE, WEIGHTS}:
        for other in sorted(names - _half(folder) - {*STATIC_FILES, LOG, LOCK}):
            raise OutputError(
                f"{folder} holds {other}, which is not part of a run: choose a new or empty folder for --out"
            )
    elif not resume:
        raise OutputError(
            f"{folder} holds a run already: continue it with --resume, or choose another --out"
        )


def _half(folder: Path) -> set[str]:
    return {
        file.name
        for file in folder.glob("*")
        if re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.part", file.name)
    }


def _remove_half(folder: Path) -> None:
    """Remove files that a killed run left half written."""
    for name in _half(folder):
        remove(folder / name)
    for name in (LM, TRANSFORMER):
        for part in folder.glob(f"{name}/.*.part"):
            remove(part)


def _identity(config: Config, corpora: Corpora) -> str:
    """What must be the same when a run is resumed: settings and the content of data and vectors."""
    others = [sha256(resolve(name)) for name in config.vector_files]
    others += [language_model_digest(config.lm.model)] if config.lm.model else []
    others += (
        [transformer_digest(find_transformer(config.transformer.model))]
        if config.transformer.model
        else []
    )
    others += [segmenter_version(config.segment.by) or ""] if config.segments_by_model else []
    others += [model_version(config.start.model) or ""] if config.start.model else []
    return hashlib.sha256(
        json.dumps([_settings(config), corpora.digests, others], sort_keys=True).encode()
    ).hexdigest()


def _settings(config: Config) -> dict[str, Any]:
    """The settings that decide the result."""
    settings = config.as_dict()
    settings.pop("compare")
    settings["train"].pop("checkpoint_minutes")
    settings["lm"].pop("cache")
    return settings


def _announce(run: TrainingRun, corpora: Corpora, built: Built) -> None:
    if run.training.progress.step:
        run.log.record("resume", epochs=run.config.epochs, **_rates(run.training.progress))
        return
    run.log.record(
        "start",
        train=len(corpora.trained_on),
        dev=len(corpora.dev),
        test=len(corpora.test),
        characters=len(run.examples.chars),
        parameters=sum(weight.numel() for weight in run.training.average.weights),
        epochs=run.config.epochs,
        notices=[*corpora.notices, *built.notices],
    )


def _finished(folder: Path, config: Config, corpora: Corpora) -> Result:
    """The scores of a finished run, if its settings and data are the same."""
    model = load_model(folder)
    if "packed" in model.data:
        raise ModelError(
            f"{folder}: it holds a packed model, which cannot be trained further; choose another --out"
        )
    digests = {name: model.data[name]["sha256"] for name in corpora.digests if name in model.data}
    if _settings(model.config) != _settings(config) or digests != corpora.digests:
        raise ModelError(
            f"{folder}: it holds a finished run with another configuration or other data; choose another --out"
        )
    return Result(folder, dict(model.scores))


def _finish(folder: Path, corpora: Corpora, log: Log, device: str) -> Result:
    """Score the weights that were kept on test, once, and write that into the model; remove the
    state.
    """
    model = load_model(folder, device)
    scores = complete_scores(model, corpora)
    if scores != model.scores:
        save_scores(folder, scores)
    write_card(folder, model, scores)
    log.record("done", scores=scores)
    remove(folder / STATE)
    return Result(folder, scores)
