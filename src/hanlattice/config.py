"""The configuration of a run: dataclasses filled from TOML, every mistake reported at once."""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from hanlattice.errors import ConfigError
from hanlattice.files import read_lines

# Those of ops.lattice_lstm, which this floor cannot import; a test holds the two together.
BACKENDS = ("auto", "reference", "batched", "native", "fused", "fused-fp32", "fused-tf32", "fused-bf16")
NO_WORDS = (
    "words.vectors must name a vector file, or words.lexicon a dictionary: the lattice model takes its words there"
)


def _setting(default: Any, check: str = "", choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"check": check, "choices": choices})


@dataclass(frozen=True)
class DataConfig:
    """Files are paths, or `@name/file` for what `hanlattice data get name` brought."""

    train: str = ""
    dev: str = ""
    test: str = ""
    format: str = _setting("auto", choices=("auto", "columns", "segmented", "jsonl"))
    scheme: str = _setting("auto", choices=("auto", "BIO", "IOB1", "BMES", "BIOES"))
    holdout: float = _setting(0.0, "half")  # the share of train that serves as dev when there is no dev file
    limit: int = _setting(0, "count")  # use only the first sentences of train; 0 is all


@dataclass(frozen=True)
class CharsConfig:
    vectors: str = ""
    dim: int = _setting(50, "positive")  # without vectors
    norm: float = _setting(0.0, "count")  # scale the vectors to this mean norm; 0 keeps their own
    fine_tune: bool = True
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class WordsConfig:
    vectors: str = ""
    lexicon: str = ""  # a dictionary instead, whose words begin with random vectors
    dim: int = _setting(50, "positive")  # of those
    norm: float = _setting(0.0, "count")
    fine_tune: bool = True
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class LmConfig:
    """A language model whose states stand beside the character embedding."""

    model: str = ""  # a folder that `hanlattice pretrain lm` made
    dim: int = _setting(100, "positive")  # its states are projected to this width
    norm: float = _setting(4.0, "positive")  # how long the projected states are at first
    dropout: float = _setting(0.8, "share")  # on the states
    cache: bool = True  # compute the states of train and dev once and keep them on disk; else in every step


@dataclass(frozen=True)
class ModelConfig:
    encoder: str = _setting("lattice", choices=("lattice", "char"))
    hidden: int = _setting(100, "positive")  # units in each direction
    coupled: bool = True
    scheme: str = _setting("BMES", choices=("BIO", "BMES", "BIOES"))
    dropout: float = _setting(0.5, "share")  # on the encoder's output
    paper_vocab: bool = False  # take characters of dev and test into the vocabulary, as the original code does


@dataclass(frozen=True)
class TrainConfig:
    epochs: int = _setting(50, "positive")
    batch_size: int = _setting(8, "positive")
    optimizer: str = _setting("adamw", choices=("adamw", "sgd"))
    lr: float = _setting(1.5e-3, "positive")
    schedule: str = _setting("linear", choices=("constant", "inverse", "linear"))
    decay: float = _setting(0.05, "count")  # inverse: lr / (1 + decay · epoch)
    warmup: float = _setting(0.0, "share")  # the share of all steps in which lr rises from 0
    momentum: float = _setting(0.0, "share")
    weight_decay: float = _setting(0.0, "count")
    clip: float = _setting(5.0, "count")  # the largest gradient norm; 0 does not clip
    average: float = _setting(0.0, "share")  # evaluate an exponential average of the weights with this memory; 0 is off
    patience: int = _setting(0, "count")  # stop after so many epochs without a better dev F1; 0 never stops
    seed: int = _setting(1, "seed")
    threads: int = _setting(1, "count")  # CPU threads; 0 leaves the choice to torch
    device: str = "cpu"
    backend: str = _setting("auto", choices=BACKENDS)  # how the lattice LSTM is computed while training
    checkpoint_minutes: float = _setting(5.0, "positive")


@dataclass(frozen=True)
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    chars: CharsConfig = field(default_factory=CharsConfig)
    words: WordsConfig = field(default_factory=WordsConfig)
    lm: LmConfig = field(default_factory=LmConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


_IDLE: tuple[tuple[str, Callable[[Config], bool], str], ...] = (
    (
        "train.momentum",
        lambda config: config.train.optimizer != "sgd",
        "with train.optimizer=adamw: remove it, or choose sgd",
    ),
    (
        "train.decay",
        lambda config: config.train.schedule != "inverse",
        "unless train.schedule=inverse: remove it, or choose inverse",
    ),
    (
        "chars.dim",
        lambda config: bool(config.chars.vectors),
        "with chars.vectors, which have a width of their own: remove one of the two",
    ),
    (
        "chars.norm",
        lambda config: not config.chars.vectors,
        "without chars.vectors, which it scales: remove it, or name a vector file",
    ),
    (
        "words.dim",
        lambda config: bool(config.words.vectors),
        "with words.vectors, which have a width of their own: remove one of the two",
    ),
    (
        "words.norm",
        lambda config: not config.words.vectors,
        "without words.vectors, which it scales: remove it, or name a vector file",
    ),
    *(
        (
            f"lm.{key}",
            lambda config: not config.lm.model,
            "without lm.model: remove it, or name the folder of a language model",
        )
        for key in ("dim", "norm", "dropout", "cache")
    ),
    (
        "train.backend",
        lambda config: config.model.encoder == "char",
        "with model.encoder=char, which has one way only: remove it, or choose lattice",
    ),
    (
        "model.coupled",
        lambda config: config.model.encoder == "char",
        "with model.encoder=char: remove it, or choose lattice",
    ),
)  # [words] may stay beside model.encoder=char, so that --set can compare the two encoders


def read_config(path: str | Path, changes: Iterable[str] = (), *, complete: bool = False) -> Config:
    """The configuration of a TOML file, changed by `section.key=value` words; if `complete`, fit to train by."""
    tree = _read_toml(path)
    problems: list[str] = []
    for change in changes:
        _apply(tree, change, problems)
    config = _fill(tree, problems)
    told = {problem.split()[0] for problem in problems}
    more = [*_idle(tree, config), *(lacking(config) if complete else ())]
    problems += [problem for problem in more if told.isdisjoint(_settings_in(problem))]
    if problems:
        raise ConfigError(problems, str(path))
    return config


def make_config(tree: Mapping[str, Any], source: str = "") -> Config:
    """A configuration from plain dicts; a ConfigError lists everything that is wrong with it."""
    problems: list[str] = []
    config = _fill(tree, problems)
    if problems:
        raise ConfigError(problems, source)
    return config


def lacking(config: Config) -> list[str]:
    """What a configuration must still say before a model can be trained by it."""
    problems = [] if config.data.train else ["data.train must name the training corpus"]
    if not config.data.dev and not config.data.holdout:
        problems.append("data.dev must name a file, or data.holdout a share of train that serves as dev")
    if config.data.dev and config.data.holdout:
        problems.append("data.holdout and data.dev both say what serves as dev: give one of them")
    if config.model.encoder == "lattice" and not (config.words.vectors or config.words.lexicon):
        problems.append(NO_WORDS)
    if config.words.vectors and config.words.lexicon:
        problems.append("words.vectors and words.lexicon both say which words there are: give one of them")
    return problems


def _idle(tree: Mapping[str, Any], config: Config) -> Iterator[str]:
    """The settings that were given and change nothing beside the others. A 0, which is off, asks for nothing."""
    for place, is_idle, words in _IDLE:
        section, _, key = place.partition(".")
        given = tree.get(section)
        value = given.get(key) if isinstance(given, Mapping) else None
        if (value or value is False) and is_idle(config):
            yield f"{place} does nothing {words}"


def _settings_in(problem: str) -> set[str]:
    return set(re.findall(r"[a-z]+\.[a-z_]+", problem))


def _read_toml(path: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads("\n".join(line for _, line in read_lines(path)))
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise ConfigError([f"not TOML: {error}"], str(path)) from None


def _fill(tree: Mapping[str, Any], problems: list[str]) -> Config:
    """The configuration that is left when everything wrong is passed over, which goes to `problems`."""
    sections = {section.name: section for section in dataclasses.fields(Config)}
    kinds = typing.get_type_hints(Config)
    made = {}
    for name, value in tree.items():
        if name not in sections:
            problems.append(f"unknown section [{name}]{_nearest(name, sections)}")
        elif not isinstance(value, Mapping):
            problems.append(f"{name} must be a section, [{name}], not {value!r}")
        else:
            made[name] = _make_section(kinds[name], name, value, problems)
    return Config(**made)


def _make_section(kind: type, section: str, values: Mapping[str, Any], problems: list[str]) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    kinds = typing.get_type_hints(kind)
    good = {}
    for name, value in values.items():
        where = f"{section}.{name}"
        if name not in fields:
            problems.append(f"unknown key {where}{_nearest(name, fields)}")
            continue
        if kinds[name] is float and type(value) is int and abs(value) < 1 << 53:
            value = float(value)
        problem = _wrong_type(value, kinds[name]) or _wrong_value(value, fields[name].metadata)
        if problem:
            problems.append(f"{where} {problem}, not {value!r}")
        else:
            good[name] = value
    return kind(**good)


def _wrong_type(value: Any, kind: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
    kinds = get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    return "" if type(value) in kinds else f"must be {' or '.join(names[k] for k in kinds)}"


def _wrong_value(value: Any, rules: Mapping[str, Any]) -> str:
    choices, check = rules.get("choices"), rules.get("check")
    if choices and value not in choices:
        close = difflib.get_close_matches(str(value), choices, 1)
        return f"must be one of {', '.join(choices)}" + (f" (did you mean {close[0]}?)" if close else "")
    good = {
        "positive": lambda v: 0 < v < float("inf"),
        "count": lambda v: 0 <= v < float("inf"),
        "share": lambda v: 0 <= v < 1,
        "half": lambda v: 0 <= v <= 0.5,
        "seed": lambda v: 0 <= v < 1 << 63,
    }
    words = {
        "positive": "above 0",
        "count": "0 or more",
        "share": "at least 0 and below 1",
        "half": "at least 0 and at most 0.5",
        "seed": "from 0 to 2⁶³ − 1",
    }
    return f"must be {words[check]}" if check and not good[check](value) else ""


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f": did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def _apply(tree: dict[str, Any], change: str, problems: list[str]) -> None:
    """Put one `section.key=value` into the tree. The value is TOML; a bare word is a string."""
    place, equals, text = change.partition("=")
    section, dot, key = place.strip().partition(".")
    if not equals or not dot:
        problems.append(f"--set wants section.key=value, such as train.epochs=5, not {change!r}")
        return
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    target = tree.setdefault(section, {})
    if isinstance(target, dict):
        target[key] = value
