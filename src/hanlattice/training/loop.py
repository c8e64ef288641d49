"""The training loop of a tagger: make batches, take steps, evaluate, save.

`train_step` shows one step: forward, loss, backward, clip, optimizer step, average.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

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
from hanlattice.training.processes import ProcessGroup, join, shard_loss
from hanlattice.training.step import Progress, Training
from hanlattice.training.warm_start import check_start, start_facts

STATE = "state.safetensors"
LOG = "log.jsonl"
# A state that takes more seconds than this to write, such as a transformer's, is not written after
# each short epoch.
SLOW_SAVE_SECONDS = 1.0
# How many batches are made while the device computes, and the seconds between two reads of the
# loss. A read waits for a GPU; a CPU that computes has no time to spare for batches.
PREFETCH = {"cpu": (0, 0.0), "cuda": (3, 0.25)}


@dataclass(frozen=True)
class Result:
    """A finished training: the model's folder and its scores."""

    folder: Path
    scores: dict[str, Any]


def train(
    config: Config, folder: str | Path, *, resume: bool = False, listen: Listener = ignore
) -> Result:
    """Train a model and write it into a folder, with `resume` from where an earlier run stopped.

    If torchrun started several processes, the first one writes the folder, calls `listen` with the
    events of the log, and returns the scores.
    """
    folder = Path(folder)
    # Refuse what cannot be trained before any work.
    if problems := validate(config):
        raise ConfigError(problems)
    find_device(config.train.device)
    if config.start.model:
        check_start(config)
    if config.reads_segments:
        check_segmenter(config.segment.by, config.train.device)
    _check_folder(folder, resume)
    with (
        join(config.train.device) as team,
        lock_folder(folder, "train") if team.writes else nullcontext(),
    ):
        if team.writes:
            # Check again: with the lock held, nobody else can begin a run in the folder.
            _check_folder(folder, resume)
            for part in _half_written(folder):
                remove(part)
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
    # A digest of everything that decides the result: only a run with the same one may resume.
    identity: str
    tagger: TorchTagger
    # The tagger, or DDP around it where several processes share each batch.
    model: nn.Module
    indexer: Indexer
    training: Training
    log: Log
    team: ProcessGroup
    examples: Examples
    dev: Sequence[Sentence]
    # The share of dev that this process decodes.
    dev_examples: Examples
    decode: str = "path"

    def make_batch(self, places: Ints) -> list[Batch]:
        """Return the sentences of a step, in `accumulate` parts that are computed in turn."""
        batches = []
        for part in np.array_split(places, min(self.config.accumulate, len(places))):
            # The seed depends on the sentences, so that a resumed run leaves out the same words.
            seed = (self.config.seed, self.training.progress.epoch, *part[:8])
            rows = self.team.rows(self.examples.lengths[part])
            batch = self.examples.batch(part, self.config.word_dropout, seed, rows)
            # The device is named, since a thread may have another current device.
            batches.append(self.tagger.prepare(to_device(batch, self.training.device)))
        return batches

    def dev_scores(self) -> dict[str, Any]:
        """Return the scores on dev, with the threshold if spans are decoded; {} without dev."""
        if not self.dev:
            return {}
        parts = (self.tagger, self.indexer, self.dev, self.dev_examples, self.team)
        report = evaluate(*parts)
        if self.decode != "spans":
            return {"dev": report.as_dict()}
        # A span must be at least half as probable as the best tagging is right on dev.
        threshold = threshold_for(report.overall.f1)
        return {"dev": evaluate(*parts, threshold).as_dict(), "threshold": threshold}

    def save(self) -> float:
        """Write the state from which the run can resume, and return how many seconds that took."""
        if not self.team.writes:
            return 0.0
        started = time.monotonic()
        self.training.progress.log_size = self.log.size
        self.training.save(self.folder / STATE, self.identity)
        return time.monotonic() - started


def train_step(
    training: Training,
    model: nn.Module,
    parts: Sequence[Batch],
    group: ProcessGroup,
    rates: Sequence[float] | None = None,
) -> None:
    """Take one step: forward, loss, backward, clip, optimizer step, average.

    Args:
        training: the weights, the optimizer and the sum of losses, which change.
        model: the tagger, or DDP around it where several processes share each batch.
        parts: the batch, in parts whose gradients add up; of several processes, each has its share.
        group: the processes that share the batch.
        rates: the learning rate of each group of the optimizer; without them, the rates stay.
    """
    if rates is not None:
        training.set_rates(rates)
    training.optimizer.zero_grad(set_to_none=True)
    sentences = sum(len(part) if part.share is None else part.share.sentences for part in parts)
    total = torch.zeros((), device=training.device)
    for number, part in enumerate(parts, start=1):
        # Processes exchange their gradients once a step, with the last part.
        with group.exchange(model, now=number == len(parts)):
            loss = shard_loss(model, part)
            # The mean over the sentences of the batch. DDP divides by the number of processes, so
            # multiply by it.
            (loss * (group.size / sentences)).backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    if training.clip:
        nn.utils.clip_grad_norm_(training.average.weights, training.clip)
    training.optimizer.step()
    training.average.update(training.progress.step)
    training.loss += group.add_up(total)


def prepare(
    config: Config,
    folder: Path,
    corpora: Corpora,
    resume: bool,
    listen: Listener,
    team: ProcessGroup | None = None,
) -> TrainingRun:
    """Build the model and everything around it, or restore a stopped run.

    Without `team` this process is alone.
    """
    team = team or ProcessGroup(config.train.device)
    check_gold_words(config, corpora)
    built = build(config, corpora.trained_on, (*corpora.dev, *corpora.test))
    if built.indexer.cuts:
        check_segmented(config, corpora)
    # There is nothing to learn from white space.
    sentences = [sentence for sentence in corpora.trained_on if not sentence.text.isspace()]
    tagger = built.tagger.to(team.device)
    optimizer = make_optimizer(tagger, config.train, config.transformer, config.rates)
    training = Training(tagger, optimizer, config.train.clip, config.train.average)
    identity = _identity(config, corpora)
    resumed = resume and (folder / STATE).exists()
    if resumed:
        training.load(folder / STATE, identity)
    # This also makes every process wait: nothing is written before all have looked.
    if len(set(team.gather([resumed]))) > 1:
        raise ModelError(
            f"{folder}: not every process finds its state there; "
            "--out must be on a disk that all share"
        )
    if team.writes:
        facts = corpora.facts(config) | (start_facts(config) if config.start.model else {})
        save_frame(folder, config, built.indexer, facts)
        log = Log(folder / LOG, listen, training.progress.log_size)
    else:
        log = Log(None, ignore)
    run = TrainingRun(
        config=config.train,
        folder=folder,
        identity=identity,
        tagger=tagger,
        model=team.parallel(tagger),
        indexer=built.indexer,
        training=training,
        log=log,
        team=team,
        examples=_examples(config, built, sentences),
        dev=corpora.dev,
        dev_examples=_examples(config, built, corpora.dev[team.rank :: team.size]),
        decode=config.model.decode,
    )
    if not resumed:
        # From now to the end there is a state: weights without one are those of a finished run.
        run.save()
    # A run that was stopped before its first step starts again, since nothing is done yet.
    if training.progress.step:
        log.record("resume", epochs=config.train.epochs, **_rates(training.progress))
        return run
    log.record(
        "start",
        train=len(corpora.trained_on),
        dev=len(corpora.dev),
        test=len(corpora.test),
        characters=len(run.examples.chars),
        parameters=sum(weight.numel() for weight in training.average.weights),
        epochs=config.train.epochs,
        notices=[*corpora.notices, *built.notices],
    )
    return run


def _examples(config: Config, built: Built, sentences: Sequence[Sentence]) -> Examples:
    """A corpus as numbers, with the language model's states if they are cached."""
    examples = built.indexer.examples(sentences)
    lm = built.tagger.lm
    if lm is None or not config.lm.cache:
        return examples
    return with_states(examples, lm, language_model_digest(config.lm.model))


def _epochs(run: TrainingRun) -> None:
    """Train until the last epoch, or until `patience` epochs have brought no better score."""
    config, training, progress = run.config, run.training, run.training.progress
    depth, pause = PREFETCH[training.device.type]
    patience = config.patience or float("inf")
    started = time.monotonic() - progress.seconds
    saved = time.monotonic()
    told = float("-inf")
    took = 0.0
    while progress.epoch < config.epochs and progress.epoch - progress.best_at < patience:
        lengths = run.examples.lengths
        order = training_batches(lengths, config.batch_size, config.seed, progress.epoch)
        run.tagger.train()
        with closing(prefetch(run.make_batch, order[progress.batch :], depth)) as batches:
            for parts in batches:
                rates = learning_rates(config, training.optimizer, progress.step, len(order))
                train_step(training, run.model, parts, run.team, rates)
                places = order[progress.batch]
                progress.advance(len(places), int(lengths[places].sum()))
                progress.seconds = time.monotonic() - started
                if run.team.writes and time.monotonic() - told >= pause:
                    training.record_loss()
                    run.log.emit("step", batches=len(order), **_rates(progress))
                    told = time.monotonic()
                if time.monotonic() - saved > config.checkpoint_minutes * 60:
                    took = run.save()
                    saved = time.monotonic()
        # A loss that diverged unseen must end the run before weights are kept.
        training.record_loss()
        progress.epoch += 1
        progress.batch = 0
        with training.average.in_place():
            scores = run.dev_scores()
            f1 = scores["dev"]["overall"]["f1"] if scores else 0.0
            is_best = progress.best is None or f1 > progress.best or not scores
            if is_best:
                progress.best = f1
                progress.best_at = progress.epoch
            if run.team.writes and (is_best or config.keep == "last"):
                facts = {"epoch": progress.epoch, **scores}
                save_weights(run.folder, run.tagger.state_dict(), facts)
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
    """Score the exact spans of all sentences, and leave the model in evaluation mode.

    `examples` are the sentences that this process decodes.
    """
    tagger.eval()
    found = team.gather(decode(tagger, indexer, examples, threshold=threshold))
    return score([sentence.spans or () for sentence in sentences], found)


def complete_scores(model: Model, corpora: Corpora) -> dict[str, Any]:
    """Return the model's scores, with the missing ones computed.

    Training scores dev alone. What is missing is test and, for a segmenter, the scores of words.
    """
    scores = dict(model.scores)
    # Sentences that were held out are not in train, so their words are not known ones.
    known = words_in(corpora.train) if model.indexer.cuts else None
    for part, sentences in (("dev", corpora.dev), ("test", corpora.test)):
        existing = scores.get(part, {})
        complete = bool(existing) if known is None else "segmentation" in existing
        if sentences and not complete:
            scores[part] = {**part_scores(model, sentences, known), **existing}
    return scores


def part_scores(
    model: Model, sentences: Sequence[Sentence], known: Collection[str] | None
) -> dict[str, Any]:
    """Score a model on sentences: exact spans and, for a segmenter, words.

    `known` are the words of a segmenter's training text, which tell OOV from IV words.
    """
    examples = model.indexer.examples(sentences)
    found = decode(model.tagger, model.indexer, examples, threshold=model.threshold())
    gold = [sentence.spans or () for sentence in sentences]
    report = score(gold, found).as_dict()
    if model.indexer.cuts:
        texts = [sentence.text for sentence in sentences]
        report["segmentation"] = score_segmentation(texts, gold, found, known).as_dict(words=0)
    return report


def _rates(progress: Progress) -> dict[str, Any]:
    """The progress, for an event of the log."""
    return {
        "epoch": progress.epoch,
        "batch": progress.batch,
        "loss": progress.mean_loss,
        "best": progress.best or 0.0,
        "best_epoch": progress.best_at,
        "characters": progress.characters,
        "seconds": round(progress.seconds, 2),
    }


def _check_folder(folder: Path, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
    files = set(folder.glob("*"))
    if not {file.name for file in files} & {STATE, WEIGHTS}:
        names = {file.name for file in files.difference(_half_written(folder))}
        for name in sorted(names - {*STATIC_FILES, LOG, LOCK}):
            raise OutputError(
                f"{folder} holds {name}, which is not part of a run: "
                "choose a new or empty folder for --out"
            )
    elif not resume:
        raise OutputError(
            f"{folder} holds a run already: continue it with --resume, or choose another --out"
        )


def _half_written(folder: Path) -> list[Path]:
    """The files that a killed run left half written."""
    # Their names are those of `files.atomic_write`.
    name = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part")
    parts = [file for file in folder.glob("*") if name.fullmatch(file.name)]
    return parts + [part for inner in (LM, TRANSFORMER) for part in folder.glob(f"{inner}/.*.part")]


def _identity(config: Config, corpora: Corpora) -> str:
    """A digest of the settings, the data and the vectors, all of which decide the result."""
    digests = [sha256(resolve(name)) for name in config.vector_files]
    if config.lm.model:
        digests.append(language_model_digest(config.lm.model))
    if config.transformer.model:
        digests.append(transformer_digest(find_transformer(config.transformer.model)))
    if config.segments_by_model:
        digests.append(segmenter_version(config.segment.by) or "")
    if config.start.model:
        digests.append(model_version(config.start.model) or "")
    facts = json.dumps([_settings(config), corpora.digests, digests], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()


def _settings(config: Config) -> dict[str, Any]:
    """The settings that decide the result."""
    settings = config.as_dict()
    settings.pop("compare")
    settings["train"].pop("checkpoint_minutes")
    settings["lm"].pop("cache")
    return settings


def _finished(folder: Path, config: Config, corpora: Corpora) -> Result:
    """The scores of a finished run, if its settings and data are the same."""
    model = load_model(folder)
    if "packed" in model.data:
        raise ModelError(
            f"{folder} holds a packed model, which cannot be trained further; choose another --out"
        )
    digests = {name: model.data[name]["sha256"] for name in corpora.digests if name in model.data}
    if _settings(model.config) != _settings(config) or digests != corpora.digests:
        raise ModelError(
            f"{folder} holds a finished run with another configuration or other data; "
            "choose another --out"
        )
    return Result(folder, dict(model.scores))


def _finish(folder: Path, corpora: Corpora, log: Log, device: str) -> Result:
    """Score the kept weights on test, once, write the scores and the card, remove the state."""
    model = load_model(folder, device)
    scores = complete_scores(model, corpora)
    if scores != model.scores:
        save_scores(folder, scores)
    write_card(folder, model, scores)
    log.record("done", scores=scores)
    remove(folder / STATE)
    return Result(folder, scores)
