"""Read, check and hold out the corpora of a training, and find those of finished models again."""

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
    """The sentences of a training, in parts."""

    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    # Trained on in addition to train.
    more: tuple[Sentence, ...]
    # The SHA-256 of each file, by part.
    digests: dict[str, str]
    notices: tuple[str, ...]

    @property
    def trained_on(self) -> tuple[Sentence, ...]:
        return self.train + self.more

    def facts(self, config: Config) -> dict[str, Any]:
        """Return where corpora and vectors came from, for the model folder."""
        facts: dict[str, Any] = {}
        for name in PARTS:
            if sentences := getattr(self, name):
                file = getattr(config.data, name)
                digest = self.digests.get(name, "")
                facts[name] = {"file": file, "sha256": digest, **counts(sentences)}
        # "" is for vectors that the model does without.
        vectors = {
            "chars": config.chars.vectors if config.reads_characters else "none",
            "bichars": (config.bichars.vectors or "random") if config.model.bichar else "",
            "words": "",
            "subwords": "",
        }
        for source in (config.words,) if config.model.encoder == "word" else config.lattice_sources:
            random = f"random, of {source.lexicon}" if source.lexicon else "random"
            vectors[source.called] = source.vectors or random
        vectors |= {"lm": config.lm.model, "transformer": config.transformer.model}
        return facts | {"vectors": vectors}


def read_corpora(config: DataConfig) -> Corpora:
    """Read train, more, dev and test. Without a dev file, dev may be a share of train."""
    corpora: dict[str, Corpus] = {}
    digests: dict[str, str] = {}
    for name in PARTS:
        if file := getattr(config, name):
            path = resolve(file)
            form = {"format": config.format, "scheme": config.scheme}
            # `more` may come in another format and scheme than the others.
            if name == "more":
                form = {"otherwise": "columns" if config.format == "auto" else config.format}
            corpora[name] = read_corpus(path, learn=config.learn, encoding=config.encoding, **form)
            digests[name] = sha256(path)
    train = without_empty(corpora["train"])[: config.limit or None]
    dev, test, more = (
        without_empty(corpora[name]) if name in corpora else () for name in ("dev", "test", "more")
    )
    if config.holdout and not config.dev:
        train, dev = hold_out(train, config.holdout, config.holdout_from)
        if not dev:
            raise InputError(
                f"data.holdout = {config.holdout} of {len(train)} sentences is not one sentence; "
                "take a larger share, or name a file with data.dev",
                config.train,
            )
    notices = [f"{name}: {notice}" for name, corpus in corpora.items() for notice in corpus.notices]
    notices += [] if dev else [NO_DEV]
    return Corpora(train, dev, test, more, digests, tuple(notices))


def check_gold_words(config: Config, corpora: Corpora) -> None:
    """Raise an InputError for a corpus without the gold words that the configuration asks for."""
    if not config.reads_segments or config.segment.by != "gold":
        return
    for name in PARTS:
        if any(sentence.words is None for sentence in getattr(corpora, name)):
            raise InputError(NO_GOLD, getattr(config.data, name) or config.data.train)


def check_segmented(config: Config, corpora: Corpora) -> None:
    """Raise an InputError if words do not cover every sentence, as a segmenter needs."""
    way = config.model.decode
    if way != "path":
        problem = f"model.decode={way} is not for a segmenter, whose words cover the text"
        raise ConfigError([problem])
    for name in PARTS:
        for number, sentence in enumerate(getattr(corpora, name), start=1):
            try:
                cut(sentence.text, sentence.spans or ())
            except InputError as error:
                raise InputError(
                    f"a segmenter learns from words, and sentence {number} of {name} "
                    f"is not cut into words: {error}",
                    getattr(config.data, name) or config.data.train,
                ) from None


def without_empty(corpus: Corpus) -> tuple[Sentence, ...]:
    """Return the sentences that have a character."""
    return tuple(sentence for sentence in corpus.sentences if len(sentence))


def counts(sentences: Sequence[Sentence]) -> dict[str, int]:
    """Count sentences, characters and spans, for a record."""
    return {
        "sentences": len(sentences),
        "characters": sum(map(len, sentences)),
        "spans": sum(len(sentence.spans or ()) for sentence in sentences),
    }


# ---- of finished models


def read_for(
    models: Iterable[Model], file: str, format: str = "auto", scheme: str = "auto"
) -> Corpus:
    """Read a labelled file for models, as their training files were read where they agree.

    That decides the format, if neither `format` nor the suffix tells it, and what to learn.
    """
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
    """Return the training files of the models that are present on this machine."""
    paths = []
    for model in models:
        for file in filter(None, (model.config.data.train, model.config.data.more)):
            try:
                paths.append(resolve(file))
            except InputError:
                # A corpus to download that was not downloaded here.
                continue
    return paths


def own_training(
    models: Mapping[str, Model], notes: list[str]
) -> tuple[tuple[Sentence, ...] | None, str]:
    """Return the training sentences of model "B", or else of "A", and a description of them."""
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
        file = printable_path(models[name].config.data.train)
        return sentences, f"{file}, of {name}, {len(sentences):,} sentences"
    notes.append(
        f"no breakdown by what was seen in training ({problems[0]}); --train names the file"
    )
    return None, ""


def training_words(model: Model, notes: list[str]) -> set[str] | None:
    """Return the words that a segmenter was trained on, if its training file is present."""
    try:
        return words_in(_training_sentences(model, "the model", notes))
    except InputError as error:
        notes.append(
            f"no OOV and IV recall, since the words of training are not known ({error}); "
            "--train names them"
        )
        return None


def _training_origin(model: Model) -> tuple[object, ...]:
    """What decides the training sentences: the files, and the part of train that is used."""
    data = model.config.data
    names = ("train", "more")
    files = [model.data.get(name, {}).get("sha256") or getattr(data, name) for name in names]
    # Nothing is held out where there is a dev file.
    return *files, data.limit, *((0, "") if data.dev else (data.holdout, data.holdout_from))


def _training_sentences(model: Model, name: str, notes: list[str]) -> tuple[Sentence, ...]:
    """The sentences that a model was trained on: the first `limit`, without the held out ones."""
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
