"""The corpora of a run: read, cut and held out as the configuration says, with the facts that a model card states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hanlattice.config import Config, DataConfig
from hanlattice.data.corpus import Corpus, read_corpus
from hanlattice.data.download import resolve
from hanlattice.errors import InputError
from hanlattice.files import sha256
from hanlattice.text.segmenter import NO_GOLD
from hanlattice.text.sentence import Sentence

PARTS = ("train", "more", "dev", "test")


@dataclass(frozen=True)
class Corpora:
    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    more: tuple[Sentence, ...]  # what is trained on beside train
    digests: dict[str, str]  # sha256 of each file
    notices: tuple[str, ...]

    @property
    def learnt(self) -> tuple[Sentence, ...]:
        """Everything that is trained on."""
        return self.train + self.more

    def facts(self, config: Config) -> dict[str, Any]:
        """Where everything came from, for the model folder."""
        named = {name: getattr(self, name) for name in PARTS}
        facts: dict[str, Any] = {
            name: {"file": getattr(config.data, name), "sha256": self.digests.get(name, ""), **counts(sentences)}
            for name, sentences in named.items()
            if sentences
        }
        chars = config.chars.vectors if config.reads_characters else "none"
        bichars = config.model.bichar and (config.bichars.vectors or "random")
        facts["vectors"] = {"chars": chars, "bichars": bichars or "", **_of_words(config), "lm": config.lm.model}
        return facts


def read_corpora(config: DataConfig) -> Corpora:
    """Train, dev and test, and what there is beside train. Without a dev file a share of train becomes dev."""
    corpora: dict[str, Corpus] = {}
    digests: dict[str, str] = {}
    for name in PARTS:
        if file := getattr(config, name):
            corpora[name] = read_part(config, name)
            digests[name] = sha256(resolve(file))
    train = without_empty(corpora["train"])[: config.limit or None]
    dev, test, more = (without_empty(corpora[name]) if name in corpora else () for name in ("dev", "test", "more"))
    if not config.dev:
        train, dev = hold_out(train, config.holdout, config.holdout_from)
        if not dev:
            message = f"data.holdout = {config.holdout} of {len(train)} sentences is not one sentence; "
            raise InputError(message + "take a larger share, or name a file with data.dev", config.train)
    notices = tuple(f"{name}: {notice}" for name, corpus in corpora.items() for notice in corpus.notices)
    return Corpora(train, dev, test, more, digests, notices)


def read_part(config: DataConfig, name: str) -> Corpus:
    """Train, more, dev or test. Only `more` may come in another format and scheme than the others."""
    path = resolve(getattr(config, name))
    if name == "more":
        return read_corpus(path, otherwise="columns" if config.format == "auto" else config.format)
    return read_corpus(path, format=config.format, scheme=config.scheme)


def check_words(config: Config, corpora: Corpora) -> None:
    """Gold words that are wanted and not there are told of the file that lacks them, and of test not at the end."""
    if not config.reads_segments or config.segment.by != "gold":
        return
    for name in PARTS:
        if any(sentence.words is None for sentence in getattr(corpora, name)):
            raise InputError(NO_GOLD, getattr(config.data, name) or config.data.train)


def hold_out(
    sentences: Sequence[Sentence], share: float, where: str = "all"
) -> tuple[tuple[Sentence, ...], tuple[Sentence, ...]]:
    """(what stays, what is held out): exactly this share, rounded down, the same every time.

    It is taken at even steps, or from the "end", where neighbours are of one document: the two then share fewer names.
    """
    taken = even_steps(len(sentences), share)
    if where == "end":
        taken.sort()
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


def counts(sentences: Sequence[Sentence]) -> dict[str, int]:
    return {
        "sentences": len(sentences),
        "characters": sum(map(len, sentences)),
        "spans": sum(len(sentence.spans or ()) for sentence in sentences),
    }
