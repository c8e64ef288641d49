"""The corpora of a run: read, cut and held out as the configuration says, with the facts that a model card states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hanlattice.config import Config, DataConfig
from hanlattice.data.corpora import resolve
from hanlattice.data.corpus import Corpus, read_corpus
from hanlattice.errors import InputError
from hanlattice.files import sha256
from hanlattice.text.segmenter import NO_GOLD
from hanlattice.text.sentence import Sentence


@dataclass(frozen=True)
class Corpora:
    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    digests: dict[str, str]  # sha256 of each file
    notices: tuple[str, ...]

    def facts(self, config: Config) -> dict[str, Any]:
        """Where everything came from, for the model folder."""
        named = {"train": self.train, "dev": self.dev, "test": self.test}
        facts: dict[str, Any] = {
            name: {"file": getattr(config.data, name), "sha256": self.digests.get(name, ""), **_counts(sentences)}
            for name, sentences in named.items()
            if sentences
        }
        chars = config.chars.vectors if config.reads_characters else "none"
        bichars = config.model.bichar and (config.bichars.vectors or "random")
        facts["vectors"] = {"chars": chars, "bichars": bichars or "", **_of_words(config), "lm": config.lm.model}
        return facts


def read_corpora(config: DataConfig) -> Corpora:
    """Train, dev and test. Without a dev file the share `holdout` of train, evenly spread, becomes dev."""
    corpora: dict[str, Corpus] = {}
    digests: dict[str, str] = {}
    for name in ("train", "dev", "test"):
        if file := getattr(config, name):
            path = resolve(file)
            corpora[name] = read_corpus(path, format=config.format, scheme=config.scheme)
            digests[name] = sha256(path)
    train = without_empty(corpora["train"])[: config.limit or None]
    dev = without_empty(corpora["dev"]) if "dev" in corpora else ()
    if not config.dev:
        train, dev = hold_out(train, config.holdout)
        if not dev:
            message = f"data.holdout = {config.holdout} of {len(train)} sentences is not one sentence; "
            raise InputError(message + "take a larger share, or name a file with data.dev", config.train)
    test = without_empty(corpora["test"]) if "test" in corpora else ()
    notices = tuple(f"{name}: {notice}" for name, corpus in corpora.items() for notice in corpus.notices)
    return Corpora(train, dev, test, digests, notices)


def check_words(config: Config, corpora: Corpora) -> None:
    """Gold words that are wanted and not there are told of the file that lacks them, and of test not at the end."""
    if not config.reads_segments or config.segment.by != "gold":
        return
    for name in ("train", "dev", "test"):
        if any(sentence.words is None for sentence in getattr(corpora, name)):
            raise InputError(NO_GOLD, getattr(config.data, name) or config.data.train)


def hold_out(sentences: Sequence[Sentence], share: float) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """(what stays, what is held out): exactly this share, rounded down, at even steps and the same every time."""
    taken = even_steps(len(sentences), share)
    stay = tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if not out)
    return stay, tuple(sentence for sentence, out in zip(sentences, taken, strict=True) if out)


def even_steps(count: int, share: float) -> list[bool]:
    """Which of so many are held out: this share, rounded down, at even steps."""
    up, down = Fraction(str(share)).as_integer_ratio()  # whole numbers: 0.29 × 100 would be 28.99… as a float
    return [(at + 1) * up // down > at * up // down for at in range(count)]


def without_empty(corpus: Corpus) -> tuple[Sentence, ...]:
    return tuple(sentence for sentence in corpus.sentences if len(sentence))


def _of_words(config: Config) -> dict[str, str]:
    """Where the vectors of words and subwords came from; "" for what the model has not."""
    sources = (config.words,) if config.model.encoder == "word" else config.lattice_sources
    origins = {
        source.called: source.vectors or (source.lexicon and f"random, of {source.lexicon}") or "random"
        for source in sources
    }
    return {"words": "", "subwords": "", **origins}


def _counts(sentences: Sequence[Sentence]) -> dict[str, int]:
    return {
        "sentences": len(sentences),
        "characters": sum(map(len, sentences)),
        "spans": sum(len(sentence.spans or ()) for sentence in sentences),
    }
