"""Settings that do nothing beside the others. Whoever gave one expects something of it, so it is told.

A switch that is on is told wherever it comes from. Any other setting is told only where it was given: what a file takes
from its base cannot be removed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from hanlattice.config.settings import Config


class Rule(NamedTuple):
    place: str
    is_idle: Callable[[Config], bool]
    words: str  # why, and what to do

    @property
    def problem(self) -> str:
        return f"{self.place} does nothing {self.words}"


def _with_a_width(section: str) -> Rule:
    return Rule(
        f"{section}.dim",
        lambda config: bool(getattr(config, section).vectors),
        f"with {section}.vectors, which have a width of their own: remove one of the two",
    )


def _scales_nothing(section: str) -> Rule:
    return Rule(
        f"{section}.norm",
        lambda config: not getattr(config, section).vectors,
        f"without {section}.vectors, which it scales: remove it, or name a vector file",
    )


def _for_the_lattice(place: str) -> Rule:
    return Rule(
        place,
        lambda config: config.model.encoder != "lattice",
        "without model.encoder=lattice: remove it, or choose lattice",
    )


def _for_characters(place: str) -> Rule:
    section, _, key = place.partition(".")
    return Rule(
        place,
        lambda config: bool(getattr(getattr(config, section), key)) and not config.reads_characters,
        "with model.encoder=word alone, which sees no characters: switch it off, or choose model.char_features",
    )


def _for_the_language_model(key: str) -> Rule:
    return Rule(
        f"lm.{key}",
        lambda config: not config.lm.model,
        "without lm.model: remove it, or name the folder of a language model",
    )


# [chars], [bichars], [words], [subwords], [segment] and [softwords], but for its switch, may stay beside a model that
# does without them: --set can then compare.
SETTINGS = (
    Rule(
        "train.momentum",
        lambda config: config.train.optimizer != "sgd",
        "with train.optimizer=adamw: remove it, or choose sgd",
    ),
    Rule(
        "train.decay",
        lambda config: config.train.schedule != "inverse",
        "unless train.schedule=inverse: remove it, or choose inverse",
    ),
    Rule(
        "data.holdout_from",
        lambda config: not config.data.holdout,
        "without data.holdout: remove it, or say which share of train serves as dev",
    ),
    *map(_with_a_width, ("chars", "bichars", "words", "subwords")),
    *map(_scales_nothing, ("chars", "bichars", "words", "subwords")),
    *map(_for_the_language_model, ("dim", "norm", "dropout", "cache")),
    *map(_for_the_lattice, ("train.backend", "train.missing_words", "model.coupled", "model.sources")),
    Rule(
        "model.char_width",
        lambda config: config.model.char_features == "none",
        "without model.char_features: remove it, or choose lstm, sentence-lstm or cnn",
    ),
)

SWITCHES = (
    *map(_for_characters, ("model.bichar", "model.paper_vocab", "lm.model")),
    Rule(
        "model.softword",
        lambda config: config.model.softword and config.model.encoder == "word",
        "with model.encoder=word, whose words are the segmentation: switch it off, or choose char or lattice",
    ),
    Rule(
        "model.char_features",
        lambda config: config.model.char_features != "none" and config.model.encoder != "word",
        "without model.encoder=word: set it to none, or choose word",
    ),
    Rule(
        "softwords.pos",
        lambda config: config.softwords.pos and not config.model.softword,
        "without model.softword: switch it off, or switch softwords on",
    ),
)


def idle_switches(config: Config) -> Iterator[str]:
    """What is switched on in vain."""
    return (rule.problem for rule in SWITCHES if rule.is_idle(config))


def idle_settings(given: Mapping[str, Any], config: Config) -> Iterator[str]:
    """Of what a file and --set give themselves, that which changes nothing. A 0, which is off, asks for nothing."""
    for rule in SETTINGS:
        section, _, key = rule.place.partition(".")
        values = given.get(section)
        value = values.get(key) if isinstance(values, Mapping) else None
        if (value or value is False) and rule.is_idle(config):
            yield rule.problem
