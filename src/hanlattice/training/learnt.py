"""What finished models were trained on, as far as their configurations still lead to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.errors import InputError
from hanlattice.evaluation.segmentation import words_in
from hanlattice.files import sha256, shown
from hanlattice.models.folder import Model
from hanlattice.text.sentence import Sentence
from hanlattice.training.corpora import hold_out, without_empty

Learnt = tuple[Sentence, ...] | None


def training_files(models: Iterable[Model]) -> list[Path]:
    """Those that are named and can be found."""
    found = []
    for file in (file for model in models for file in (model.config.data.train, model.config.data.more) if file):
        try:
            found.append(resolve(file))
        except InputError:  # a download that is not here
            continue
    return found


def own_training(models: Mapping[str, Model], notes: list[str]) -> tuple[Learnt, str]:
    """The sentences that B, or else A, was trained on, if they can be found, and in words what they are."""
    if _origin(models["A"]) != _origin(models["B"]):
        named = " and ".join(f"{shown(model.config.data.train)} ({name})" for name, model in models.items())
        notes.append(f"A and B were trained on different sentences, of {named}")
    problems = []
    for name in ("B", "A"):
        try:
            learnt = _sentences(models[name], name, notes)
        except InputError as error:
            problems.append(str(error))
            continue
        return learnt, f"{shown(models[name].config.data.train)}, of {name}, {len(learnt):,} sentences"
    notes.append(f"no breakdown by what was seen in training ({problems[0]}); --train names the file")
    return None, ""


def training_words(model: Model, notes: list[str]) -> set[str] | None:
    """The words of the sentences that a segmenter was trained on, if they can be found."""
    try:
        return words_in(_sentences(model, "the model", notes))
    except InputError as error:
        notes.append(f"no OOV and IV recall, since the words of training are not known ({error}); --train names them")
        return None


def _origin(model: Model) -> tuple[object, ...]:
    """What decides on the training sentences: the files, by checksum where that is known, and the part of train."""
    data = model.config.data
    files = (model.data.get(name, {}).get("sha256") or getattr(data, name) for name in ("train", "more"))
    return *files, data.limit, *((0, "") if data.dev else (data.holdout, data.holdout_from))


def _sentences(model: Model, name: str, notes: list[str]) -> tuple[Sentence, ...]:
    """As the training took them: the first `limit`, without those that were held out."""
    data = model.config.data
    if not data.train:
        raise InputError(f"the configuration of {name} names no training file")
    path = resolve(data.train)
    corpus = read_corpus(path, format=data.format, scheme=data.scheme)
    notes += [f"train: {notice}" for notice in corpus.notices]
    digest = model.data.get("train", {}).get("sha256")
    if digest and digest != sha256(path):
        notes.append(f"{shown(data.train)} has changed since {name} was trained on it")
    kept = without_empty(corpus)[: data.limit or None]
    return kept if data.dev else hold_out(kept, data.holdout, data.holdout_from)[0]
