"""The training loop: batch, loss, backward, clip, step, evaluate, save."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hanlattice.batch import Batch, Examples, Indexer
from hanlattice.batch.buckets import training_batches
from hanlattice.batch.prefetch import prefetch
from hanlattice.config import Config, TrainConfig, lacking
from hanlattice.data.download import resolve
from hanlattice.errors import ConfigError, ModelError, OutputError
from hanlattice.evaluation.ner import Report, score
from hanlattice.events import Listener, Log, ignore
from hanlattice.files import sha256
from hanlattice.models.build import Built, build
from hanlattice.models.decode import decode
from hanlattice.models.device import find_device, use_threads
from hanlattice.models.folder import FRAME, LM, WEIGHTS, load_model, save_frame, save_weights
from hanlattice.models.language_model import language_model_digest
from hanlattice.models.tagger import Tagger
from hanlattice.text.lattice import Ints
from hanlattice.text.sentence import Sentence
from hanlattice.training.card import write_card
from hanlattice.training.corpora import Corpora, check_words, read_corpora
from hanlattice.training.optim import Average, learning_rate, make_optimizer
from hanlattice.training.scored import check_cut, complete_scores
from hanlattice.training.state import STATE, Progress, load_state, save_state
from hanlattice.training.states import with_states

LOG = "log.jsonl"
# Batches that are made and sent while the device computes, and seconds between two looks at the loss. A GPU has to be
# waited for to look at it; a CPU that computes has no time to spare for batches.
PACE = {"cpu": (0, 0.0), "cuda": (3, 0.25)}


@dataclass(frozen=True)
class Result:
    folder: Path
    scores: dict[str, Any]


def train(config: Config, folder: str | Path, *, resume: bool = False, listen: Listener = ignore) -> Result:
    """Train a model into a folder. With `resume`, go on where an earlier run in that folder was stopped."""
    folder = Path(folder)
    _check(config, folder, resume)
    use_threads(config.train.threads)
    corpora = read_corpora(config.data)
    if resume and _is_finished(folder):
        return _finished(folder, config, corpora)
    run = prepare(config, folder, corpora, resume, listen)
    _epochs(run)
    return _finish(folder, corpora, run.log, config.train.device)


@dataclass
class Run:
    """Everything that the loop works with."""

    config: TrainConfig
    folder: Path
    identity: str
    tagger: Tagger
    indexer: Indexer
    optimizer: torch.optim.Optimizer
    average: Average
    progress: Progress
    log: Log
    examples: Examples
    dev: Sequence[Sentence]
    dev_examples: Examples
    loss: Tensor  # [], float64: the sum of this epoch's losses. It stays on the device, since to read it is to wait

    def make_batch(self, places: Ints) -> Batch:
        seed = (self.config.seed, self.progress.epoch, *places[:8])  # a resumed run leaves out the same words
        batch = self.examples.batch(places, self.config.missing_words, seed)
        return batch.to(self.loss.device)  # a thread may have another current device

    def save(self) -> None:
        """Write the state from which the run can go on."""
        self.progress.hear(float(self.loss))
        self.progress.log_size = self.log.size
        save_state(self.folder, self.identity, self.tagger, self.optimizer, self.average, self.progress)


def prepare(config: Config, folder: Path, corpora: Corpora, resume: bool, listen: Listener) -> Run:
    """Build the model and everything around it, or bring a stopped run back."""
    check_words(config, corpora)
    learnt = corpora.learnt
    built = build(config, learnt, (*corpora.dev, *corpora.test))
    if built.indexer.cuts:
        check_cut(config, corpora)
    learnt = tuple(sentence for sentence in learnt if not sentence.text.isspace())  # there is nothing to learn
    tagger = built.tagger.to(config.train.device)
    optimizer, average = make_optimizer(tagger, config.train), Average(tagger, config.train.average)
    identity, progress = _identity(config, corpora), Progress()
    going_on = resume and (folder / STATE).exists()
    if going_on:
        progress = load_state(folder, identity, tagger, optimizer, average)
    save_frame(folder, config, built.indexer, corpora.facts(config))
    log = Log(folder / LOG, listen, progress.log_size)
    run = Run(
        config=config.train,
        folder=folder,
        identity=identity,
        tagger=tagger,
        indexer=built.indexer,
        optimizer=optimizer,
        average=average,
        progress=progress,
        log=log,
        examples=_examples(config, built, learnt),
        dev=corpora.dev,
        dev_examples=_examples(config, built, corpora.dev),
        loss=torch.tensor(progress.loss, dtype=torch.float64, device=config.train.device),
    )
    if not going_on:
        run.save()  # from now to the end there is a state: weights without one are those of a finished run
    _announce(run, corpora, built)
    return run


def _examples(config: Config, built: Built, sentences: Sequence[Sentence]) -> Examples:
    """A corpus as numbers, and with the language model's states if they are to be kept."""
    examples, lm = built.indexer.examples(sentences), built.tagger.lm
    if lm is None or not config.lm.cache:
        return examples
    return with_states(examples, lm, language_model_digest(config.lm.model))


def _epochs(run: Run) -> None:
    config, progress, tagger, optimizer = run.config, run.progress, run.tagger, run.optimizer
    depth, pause = PACE[run.loss.device.type]
    started, saved, told = time.monotonic() - progress.seconds, time.monotonic(), float("-inf")
    while progress.epoch < config.epochs and not _out_of_patience(progress, config.patience):
        order = training_batches(run.examples.lengths, config.batch_size, config.seed, progress.epoch)
        tagger.train()
        with closing(prefetch(run.make_batch, order[progress.batch :], depth)) as batches:
            for batch in batches:
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(config, progress.step, len(order))
                optimizer.zero_grad(set_to_none=True)
                losses = tagger.loss(batch)
                losses.mean().backward()  # type: ignore[no-untyped-call]
                if config.clip:
                    torch.nn.utils.clip_grad_norm_(run.average.weights, config.clip)
                optimizer.step()
                run.average.update(progress.step)
                run.loss += losses.detach().sum()
                progress.advance(len(batch), int(batch.lattice.lengths.sum()))
                progress.seconds = time.monotonic() - started
                if time.monotonic() - told >= pause:
                    progress.hear(float(run.loss))
                    run.log.tell("step", batches=len(order), **_rates(progress))
                    told = time.monotonic()
                if time.monotonic() - saved > config.checkpoint_minutes * 60:
                    run.save()
                    saved = time.monotonic()
        progress.hear(float(run.loss))
        progress.epoch, progress.batch = progress.epoch + 1, 0
        with run.average.in_place():
            report = evaluate(tagger, run.indexer, run.dev, run.dev_examples)
            if report.overall.f1 > progress.best:
                progress.best, progress.best_epoch = report.overall.f1, progress.epoch
                save_weights(run.folder, tagger.state_dict(), {"epoch": progress.epoch, "dev": report.as_dict()})
        progress.seconds = time.monotonic() - started
        run.log.keep("epoch", dev=report.as_dict()["overall"], **_rates(progress))
        progress.loss, progress.sentences, progress.characters = 0.0, 0, 0
        run.loss.zero_()
        run.save()
        saved = time.monotonic()


def evaluate(
    tagger: Tagger, indexer: Indexer, sentences: Sequence[Sentence], examples: Examples | None = None
) -> Report:
    """Exact spans against gold. Leaves the model in evaluation mode."""
    tagger.eval()
    predicted = decode(tagger, indexer, indexer.examples(sentences) if examples is None else examples)
    return score([sentence.spans or () for sentence in sentences], predicted)


def _rates(progress: Progress) -> dict[str, Any]:
    return {
        "epoch": progress.epoch,
        "batch": progress.batch,
        "loss": progress.loss / max(1, progress.sentences),
        "best": max(0.0, progress.best),
        "best_epoch": progress.best_epoch,
        "characters": progress.characters,
        "seconds": round(progress.seconds, 2),
    }


def _out_of_patience(progress: Progress, patience: int) -> bool:
    return bool(patience) and progress.epoch - progress.best_epoch >= patience


def _check(config: Config, folder: Path, resume: bool) -> None:
    """Refuse at once what cannot end well."""
    if problems := lacking(config):
        raise ConfigError(problems)
    find_device(config.train.device)
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; --out must name a folder, old or new")
    names = {file.name for file in folder.glob("*")}
    half = {name for name in names if re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.part", name)}
    if not names & {STATE, WEIGHTS}:
        for other in sorted(names - half - {*FRAME, LOG}):
            raise OutputError(f"{folder} holds {other}, which is not of a run: choose a new or empty folder for --out")
    elif not resume:
        raise OutputError(f"{folder} holds a run already: go on with it by --resume, or choose another --out")
    for name in half:  # what a killed run was writing
        (folder / name).unlink()
    for part in folder.glob(f"{LM}/.*.part"):
        part.unlink()


def _identity(config: Config, corpora: Corpora) -> str:
    """What must be the same for a stopped run to go on: settings and the content of data and vectors."""
    others = [sha256(resolve(name)) for name in config.vector_files]
    others += [language_model_digest(config.lm.model)] if config.lm.model else []
    return hashlib.sha256(json.dumps([_settings(config), corpora.digests, others], sort_keys=True).encode()).hexdigest()


def _settings(config: Config) -> dict[str, Any]:
    """The settings that decide what comes out."""
    settings = config.as_dict()
    settings.pop("compare")
    settings["train"].pop("checkpoint_minutes")
    settings["lm"].pop("cache")
    return settings


def _announce(run: Run, corpora: Corpora, built: Built) -> None:
    if run.progress.step:
        run.log.keep("resume", epochs=run.config.epochs, **_rates(run.progress))
        return
    run.log.keep(
        "start",
        train=len(corpora.learnt),
        dev=len(corpora.dev),
        test=len(corpora.test),
        characters=len(run.examples.chars),
        parameters=sum(weight.numel() for weight in run.average.weights),
        epochs=run.config.epochs,
        notices=[*corpora.notices, *built.notices],
    )


def _is_finished(folder: Path) -> bool:
    return (folder / WEIGHTS).exists() and not (folder / STATE).exists()


def _finished(folder: Path, config: Config, corpora: Corpora) -> Result:
    """The scores of a run that has ended, if it is the one that was asked for."""
    model = load_model(folder)
    if "packed" in model.data:
        raise ModelError(f"{folder}: it holds a packed model, which is not trained on; choose another --out")
    digests = {name: model.data[name]["sha256"] for name in corpora.digests if name in model.data}
    if _settings(model.config) != _settings(config) or digests != corpora.digests:
        raise ModelError(
            f"{folder}: it holds a finished run with another configuration or other data; choose another --out"
        )
    return Result(folder, dict(model.scores))


def _finish(folder: Path, corpora: Corpora, log: Log, device: str) -> Result:
    """Score the best weights on test, once; write that into the model; clear away what only a stopped run needs."""
    model = load_model(folder, device)
    scores = complete_scores(model, corpora)
    if scores != model.scores:
        save_weights(folder, model.tagger.state_dict(), scores)
    write_card(folder, model, scores)
    log.keep("done", scores=scores)
    (folder / STATE).unlink(missing_ok=True)
    return Result(folder, scores)
