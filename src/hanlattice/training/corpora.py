"""The corpora of a training: read, checked and held out; and those of finished models, found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanlattice.checkpoint.folder import Model
from hanlattice.config import Config, DataConfig
from hanlattice.data.corpus import Corpus, hold_out, read_corpus
from hanlattice.data.download import resolve
from hanlattice.errors import ConfigError, InputError
from hanlattice.evaluation.segmentation import cut, words_in
from hanlattice.files import printable_path, sha256
from hanlattice.text.segment import NO_GOLD
from hanlattice.text.sentence import Sentence

PARTS = ("train", "more", "dev", "test")
NO_DEV = "there is no dev (data.dev, data.holdout): the weights of the last epoch are kept"


@dataclass(frozen=True)
class Corpora:
    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    more: tuple[Sentence, ...]  # trained on in addition to train
    digests: dict[str, str]  # sha256 of each file
    notices: tuple[str, ...]

    @property
    def trained_on(self) -> tuple[Sentence, ...]:
        return self.train + self.more

    def facts(self, config: Config) -> dict[str, Any]:
        """Where corpora and vectors came from, for the model folder."""
        facts: dict[str, Any] = {
            name: {
                "file": getattr(config.data, name),
                "sha256": self.digests.get(name, ""),
                **counts(sentences),
            }
            for name in PARTS
            if (sentences := getattr(self, name))
        }
        facts["vectors"] = {
            "chars": config.chars.vectors if config.reads_characters else "none",
            "bichars": (config.bichars.vectors or "random") if config.model.bichar else "",
            "words": "",  # "" for those that the model does without
            "subwords": "",
        }
        for source in (config.words,) if config.model.encoder == "word" else config.lattice_sources:
            random = f"random, of {source.lexicon}" if source.lexicon else "random"
            facts["vectors"][source.called] = source.vectors or random
        facts["vectors"] |= {"lm": config.lm.model, "transformer": config.transformer.model}
        return facts


def read_corpora(config: DataConfig) -> Corpora:
    """Train, more, dev and test. Without a dev file a share of train becomes dev, if one is to be
    held out.
    """
    corpora: dict[str, Corpus] = {}
    digests: dict[str, str] = {}
    for name in PARTS:
        if file := getattr(config, name):
            path = resolve(file)
            if name == "more":  # which may come in another format and scheme than the others
                otherwise = "columns" if config.format == "auto" else config.format
                form = {"otherwise": otherwise}
            else:
                form = {"format": config.format, "scheme": config.scheme}
            corpora[name] = read_corpus(path, learn=config.learn, encoding=config.encoding, **form)
            digests[name] = sha256(path)
    train = without_empty(corpora["train"])[: config.limit or None]
    dev, test, more = (
        without_empty(corpora[name]) if name in corpora else () for name in ("dev", "test", "more")
    )
    if config.holdout and not config.dev:
        train, dev = hold_out(train, config.holdout, config.holdout_from)
        if not dev:
            message = (
                f"data.holdout = {config.holdout} of {len(train)} sentences is not one sentence; "
            )
            raise InputError(
                message + "take a larger share, or name a file with data.dev", config.train
            )
    notices = [f"{name}: {notice}" for name, corpus in corpora.items() for notice in corpus.notices]
    notices += [] if dev else [NO_DEV]
    return Corpora(train, dev, test, more, digests, tuple(notices))


def check_gold_words(config: Config, corpora: Corpora) -> None:
    """Refuse a corpus without the gold words that the configuration asks for, naming its file."""
    if not config.reads_segments or config.segment.by != "gold":
        return
    for name in PARTS:
        if any(sentence.words is None for sentence in getattr(corpora, name)):
            raise InputError(NO_GOLD, getattr(config.data, name) or config.data.train)


def check_segmented(config: Config, corpora: Corpora) -> None:
    """Refuse a corpus for a segmenter that is not cut into words, naming its file and sentence."""
    if config.model.decode != "path":
        raise ConfigError(
            [
                f"model.decode={config.model.decode} is not for a segmenter, whose words cover the text"
            ]
        )
    for name in PARTS:
        for at, sentence in enumerate(getattr(corpora, name), start=1):
            try:
                cut(sentence.text, sentence.spans or ())
            except InputError as error:
                message = f"a segmenter learns from words, and sentence {at} of {name} is not cut into words: {error}"
                raise InputError(message, getattr(config.data, name) or config.data.train) from None


def without_empty(corpus: Corpus) -> tuple[Sentence, ...]:
    return tuple(sentence for sentence in corpus.sentences if len(sentence))


def counts(sentences: Sequence[Sentence]) -> dict[str, int]:
    return {
        "sentences": len(sentences),
        "characters": sum(map(len, sentences)),
        "spans": sum(len(sentence.spans or ()) for sentence in sentences),
    }


# ---- of finished models


def read_for(
    models: Iterable[Model], file: str, format: str = "auto", scheme: str = "auto"
) -> Corpus:
    """A labelled file. If neither suffix nor `format` tells its format, it is that of the models'
    training files, provided that the models agree; and so is whether its words are what counts."""
    usual = set()
    learn = set()
    for model in models:
        data = model.config.data
        by_tags = "segmented" if model.indexer.cuts and data.learn != "words" else "columns"
        usual.add(by_tags if data.format == "auto" else data.format)
        learn.add(data.learn)
    otherwise = usual.pop() if len(usual) == 1 else "columns"
    what = learn.pop() if len(learn) == 1 else "spans"
    return read_corpus(resolve(file), format=format, scheme=scheme, otherwise=otherwise, learn=what)


def training_files(models: Iterable[Model]) -> list[Path]:
    """The training files that the models' configurations name and that are here."""
    found = []
    for file in (
        file
        for model in models
        for file in (model.config.data.train, model.config.data.more)
        if file
    ):
        try:
            found.append(resolve(file))
        except InputError:  # a download that is not here
            continue
    return found


def own_training(
    models: Mapping[str, Model], notes: list[str]
) -> tuple[tuple[Sentence, ...] | None, str]:
    """The sentences that B, or else A, was trained on, if they can be found, and a description of
    them.
    """
    if _training_origin(models["A"]) != _training_origin(models["B"]):
        named = " and ".join(
            f"{printable_path(model.config.data.train)} ({name})" for name, model in models.items()
        )
        notes.append(f"A and B were trained on different sentences, of {named}")
    problems = []
    for name in ("B", "A"):
        try:
            sentences = _training_sentences(models[name], name, notes)
        except InputError as error:
            problems.append(str(error))
            continue
        return (
            sentences,
            f"{printable_path(models[name].config.data.train)}, of {name}, {len(sentences):,} sentences",
        )
    notes.append(
        f"no breakdown by what was seen in training ({problems[0]}); --train names the file"
    )
    return None, ""


def training_words(model: Model, notes: list[str]) -> set[str] | None:
    """The words of the sentences that a segmenter was trained on, if they can be found."""
    try:
        return words_in(_training_sentences(model, "the model", notes))
    except InputError as error:
        notes.append(
            f"no OOV and IV recall, since the words of training are not known ({error}); --train names them"
        )
        return None


def _training_origin(model: Model) -> tuple[object, ...]:
    """What decides the training sentences: the files, by checksum if it is known, and the part of
    train.
    """
    data = model.config.data
    files = (
        model.data.get(name, {}).get("sha256") or getattr(data, name) for name in ("train", "more")
    )
    return *files, data.limit, *((0, "") if data.dev else (data.holdout, data.holdout_from))


def _training_sentences(model: Model, name: str, notes: list[str]) -> tuple[Sentence, ...]:
    """The sentences of train as training took them: the first `limit`, without those that were held
    out.
    """
    data = model.config.data
    if not data.train:
        raise InputError(f"the configuration of {name} names no training file")
    path = resolve(data.train)
    corpus = read_corpus(
        path, format=data.format, scheme=data.scheme, learn=data.learn, encoding=data.encoding
    )
    notes += [f"train: {notice}" for notice in corpus.notices]
    digest = model.data.get("train", {}).get("sha256")
    if digest and digest != sha256(path):
        notes.append(f"{printable_path(data.train)} has changed since {name} was trained on it")
    kept = without_empty(corpus)[: data.limit or None]
    return kept if data.dev else hold_out(kept, data.holdout, data.holdout_from)[0]
