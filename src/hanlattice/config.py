"""Read the configuration of a run from TOML into dataclasses, and report all problems at once."""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hanlattice.checks import check_value, hints_of
from hanlattice.errors import ConfigError, InputError
from hanlattice.files import read_lines

# These repeat the choices of ops.lattice_lstm, nn and text.segment, which this module cannot
# import. A test compares them.
_FUSED = ("fused", "fused-fp32", "fused-tf32", "fused-bf16")
BACKENDS = ("auto", "auto-fp32", "reference", "batched", "native", *_FUSED)
FEATURES = ("none", "lstm", "sentence-lstm", "cnn")
SEGMENTERS = ("rjieba", "gold")
SOURCES = ("words", "subwords", "both")

# The sections that are an EmbeddingConfig.
EMBEDDINGS = ("chars", "bichars", "words", "subwords")
# The groups of weights, each of which has a learning rate in [rates].
GROUPS = ("embeddings", "encoder", "output")
# A key and a section that only files have; a Config has neither.
BASE = "base"
VARIANTS = "variants"

Tree = dict[str, Any]
# The settings that a model fixes, and those that it only suggests.
InheritedSettings = tuple[Mapping[str, Any], Mapping[str, Any]]


class ConfigProblem(NamedTuple):
    """A problem with a setting, which is dropped if a setting in `others` has a problem itself."""

    setting: str
    message: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message


def _setting(default: Any, check: str = "", choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"check": check, "choices": choices})


@dataclass(frozen=True)
class DataConfig:
    """The corpora. A file is a path, or `@name/file` after `hanlattice data get name`."""

    train: str = ""
    dev: str = ""
    test: str = ""
    format: str = _setting(
        "auto", choices=("auto", "columns", "segmented", "jsonl", "conllu", "label-studio", "spacy")
    )
    scheme: str = _setting("auto", choices=("auto", "BIO", "IOB1", "BMES", "BIOES"))
    # `words` trains a segmenter whose words have the labels of the corpus.
    learn: str = _setting("spans", choices=("spans", "words"))
    encoding: str = _setting("auto", "encoding")
    # Further sentences to train on, such as those of `hanlattice distil`; never used as dev.
    more: str = ""
    # The share of train that serves as dev if there is no dev file: evenly spread, or from the end.
    holdout: float = _setting(0.0, "half")
    holdout_from: str = _setting("all", choices=("all", "end"))
    limit: int = _setting(0, "count")  # use only the first sentences of train; 0 is all


@dataclass(frozen=True)
class EmbeddingConfig:
    """Vectors of one kind of symbol: characters, bigrams of characters, words or subwords."""

    vectors: str = ""
    dim: int = _setting(50, "size")  # without vectors
    norm: float = _setting(0.0, "count")  # scale the vectors to this mean norm; 0 keeps their own
    fine_tune: bool = True
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class WordsConfig(EmbeddingConfig):
    """Vectors of words; in a lattice also a dictionary, whose words begin with random vectors."""

    called: ClassVar[str] = "words"  # the name of the section
    lexicon: str = ""


@dataclass(frozen=True)
class SubwordsConfig(WordsConfig):
    """Vectors of subwords, found by byte-pair encoding, if model.sources includes them."""

    called: ClassVar[str] = "subwords"


@dataclass(frozen=True)
class SegmentConfig:
    """The segmenter that cuts text for softwords and word models."""

    # One of SEGMENTERS, a bundled model, or the folder of a segmentation model.
    by: str = _setting("rjieba", "segmenter")


@dataclass(frozen=True)
class SoftwordsConfig:
    """Vectors of the position of a character in its word, if model.softword is on."""

    dim: int = _setting(25, "size")
    pos: bool = False  # add vectors of the part of speech, equally wide
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class PoolsConfig:
    """Pooled vectors of the words that begin, continue and end at a character, for model.pools."""

    dim: int = _setting(50, "size")  # the width to which they are projected
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class LmConfig:
    """A language model whose states are concatenated to the character embedding."""

    model: str = ""  # a folder that `hanlattice pretrain lm` made
    dim: int = _setting(100, "size")  # its states are projected to this width
    norm: float = _setting(4.0, "positive")  # the norm of the projected states at first
    dropout: float = _setting(0.8, "share")  # on the states
    # Compute the states of train and dev once and keep them on disk, not in every step.
    cache: bool = True


@dataclass(frozen=True)
class TransformerConfig:
    """A transformer whose states are concatenated to the character embedding, or go to the CRF."""

    model: str = ""  # a folder in Hugging Face's layout, or a name on its hub
    frozen: bool = False  # train a mixture of its layers, but not the layers
    lr: float = _setting(4e-5, "positive")  # the learning rate of its top layer
    warmup: float = _setting(0.1, "share")
    # The learning rate of each layer, as a multiple of the rate of the layer above.
    layer_decay: float = _setting(1.0, "factor")
    # Characters that it reads at once; 0: as many as it has positions for.
    window: int = _setting(0, "count")
    # Characters that two neighbouring windows of a longer text share, at least.
    overlap: int = _setting(128, "count")
    dropout: float = _setting(0.1, "share")  # on its states
    bf16: bool = True  # train it with rounded factors on a GPU


@dataclass(frozen=True)
class ModelConfig:
    """The architecture of the model."""

    encoder: str = _setting("lattice", choices=("lattice", "char", "word", "none"))
    sources: str = _setting("words", choices=SOURCES)  # what the lattice holds
    # How a word model encodes the characters of a word, and the width of the result.
    char_features: str = _setting("none", choices=FEATURES)
    char_width: int = _setting(50, "even")
    bichar: bool = False
    softword: bool = False
    pools: bool = False  # add pooled vectors of the words over each character
    hidden: int = _setting(100, "size")  # units in each direction
    layers: int = _setting(1, "layers")
    first_layer: str = _setting("lattice", choices=("lattice", "char"))  # of a lattice with several
    # Above the first layer, the cell of a word also reads the states of its characters below.
    whole_words: bool = False
    cell: str = _setting("lstm", choices=("lstm", "tanh"))  # of a character model
    # Whether the forget gate is 1 − the input gate. None becomes True in a lattice only.
    coupled: bool = _setting(None)
    scheme: str = _setting("BMES", choices=("BIO", "BMES", "BIOES"))
    dropout: float = _setting(0.5, "share")  # on the encoder's output
    # The most probable tagging, or the best set of spans.
    decode: str = _setting("path", choices=("path", "spans"))
    # Add the characters of dev and test to the vocabulary, as the code of the paper does.
    paper_vocab: bool = False

    def __post_init__(self) -> None:
        if self.coupled is None:
            # The usual way to set a field of a frozen dataclass.
            object.__setattr__(self, "coupled", self.encoder == "lattice")


@dataclass(frozen=True)
class StartConfig:
    """The model that training starts from, with its architecture, weights, symbols and lexicon."""

    model: str = ""  # a bundled model or a folder; "" starts from random weights
    # A label of the corpus → the label of the model whose weights it starts from.
    labels: dict[str, str] = field(default_factory=dict, hash=False, metadata={"check": "names"})


@dataclass(frozen=True)
class RatesConfig:
    """The learning rate of each group of weights, as a multiple of train.lr; 0 freezes it."""

    embeddings: float = _setting(1.0, "count")  # vectors of characters, bigrams, words, …
    encoder: float = _setting(1.0, "count")
    output: float = _setting(1.0, "count")  # the tag layer and the transitions of the CRF


@dataclass(frozen=True)
class TrainConfig:
    """The optimisation, and the device it runs on."""

    epochs: int = _setting(50, "positive")
    batch_size: int = _setting(8, "positive")
    # Parts of a batch that are computed one after the other, to save memory.
    accumulate: int = _setting(1, "positive")
    optimizer: str = _setting("adamw", choices=("adamw", "sgd"))
    lr: float = _setting(1.5e-3, "positive")
    schedule: str = _setting("linear", choices=("constant", "inverse", "linear"))
    decay: float = _setting(0.05, "count")  # inverse: lr / (1 + decay · epoch)
    warmup: float = _setting(0.0, "share")  # the share of all steps in which lr rises from 0
    momentum: float = _setting(0.0, "share")
    weight_decay: float = _setting(0.0, "count")
    clip: float = _setting(5.0, "count")  # the largest gradient norm; 0 does not clip
    # The decay of an exponential average of the weights, which is evaluated and saved; 0 is off.
    average: float = _setting(0.0, "share")
    # The share of the lattice's words that each step hides at random.
    word_dropout: float = _setting(0.0, "share")
    # Save the weights of the best epoch on dev, or of the last epoch.
    keep: str = _setting("best", choices=("best", "last"))
    # Stop after this number of epochs without a better F1 on dev; 0 never stops.
    patience: int = _setting(0, "count")
    seed: int = _setting(1, "seed")
    threads: int = _setting(1, "count")  # CPU threads; 0 leaves the choice to torch
    device: str = "cpu"
    # The implementation of the lattice LSTM that training uses.
    backend: str = _setting("auto", choices=BACKENDS)
    checkpoint_minutes: float = _setting(5.0, "positive")


@dataclass(frozen=True)
class CompareConfig:
    """How `hanlattice compare` shows the run; training ignores it."""

    row: str = ""  # the row's name; without one, the file's
    paper: float = _setting(0.0, "percent")  # the published F1, in per cent; 0 is none


@dataclass(frozen=True)
class Config:
    """All settings of a run, by section; docs/configuration.md explains each."""

    data: DataConfig = field(default_factory=DataConfig)
    chars: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    bichars: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    words: WordsConfig = field(default_factory=WordsConfig)
    subwords: SubwordsConfig = field(default_factory=SubwordsConfig)
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    softwords: SoftwordsConfig = field(default_factory=SoftwordsConfig)
    pools: PoolsConfig = field(default_factory=PoolsConfig)
    lm: LmConfig = field(default_factory=LmConfig)
    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    start: StartConfig = field(default_factory=StartConfig)
    rates: RatesConfig = field(default_factory=RatesConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    compare: CompareConfig = field(default_factory=CompareConfig)

    @property
    def reads_characters(self) -> bool:
        """Whether the model has vectors of characters."""
        if self.model.encoder == "word":
            return self.model.char_features != "none"
        return self.model.encoder != "none"

    @property
    def lattice_sources(self) -> tuple[WordsConfig, ...]:
        """The sections from which the lattice takes its words; () for a model without lattice."""
        sources: tuple[WordsConfig, ...] = (self.words, self.subwords)
        if self.model.encoder != "lattice":
            return ()
        return tuple(s for s in sources if self.model.sources in (s.called, "both"))

    @property
    def vector_files(self) -> list[str]:
        """The files of vectors and dictionaries that a new model of this configuration reads."""
        if self.start.model:
            return []
        chars = self.chars.vectors if self.reads_characters else ""
        bichars = self.bichars.vectors if self.model.bichar else ""
        sources = (self.words,) if self.model.encoder == "word" else self.lattice_sources
        words = [name for source in sources for name in (source.vectors, source.lexicon)]
        return [name for name in (chars, bichars, *words) if name]

    @property
    def runs_lattice(self) -> bool:
        """Whether the lattice LSTM runs, in a coupled character LSTM without words."""
        encoder = self.model.encoder
        return encoder == "lattice" or (encoder == "char" and self.model.coupled)

    @property
    def reads_segments(self) -> bool:
        """Whether a segmenter cuts the text into words first."""
        return self.model.softword or self.model.encoder == "word"

    @property
    def segments_by_model(self) -> bool:
        """Whether this segmenter is a model of hanlattice."""
        return self.reads_segments and self.segment.by not in SEGMENTERS

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as dicts, which `make_config` reads."""
        return dataclasses.asdict(self)


def read_config(
    path: str | Path,
    changes: Iterable[str] = (),
    *,
    variant: str = "",
    complete: bool = False,
    carried: Callable[[str], InheritedSettings] | None = None,
) -> Config:
    """Read a configuration; a ConfigError lists all problems.

    Args:
        path: A TOML file, or the name of a bundled configuration.
        changes: Settings to change, as `section.key=value`.
        variant: A variant in [variants]; without it, the default variant of the file.
        complete: Whether all settings that training needs must be set.
        carried: Returns the settings of the model that start.model names. Without it, these must be
            in the file.
    """
    path = find_config(path)
    below, own = _read_tree(path)
    variants = _read_variants(path, own.pop(VARIANTS, {}))
    if variant:
        below = _merged(below, own)
        own = {}
        below.pop("compare", None)
    own = _merged(own, variants.settings(variant))
    problems: list[ConfigProblem] = []
    for change in changes:
        _apply(own, change, problems)
    tree = _merged(below, own)
    start = tree.get("start")
    # The types are unchecked until `fill`.
    name = start.get("model") if isinstance(start, Mapping) else ""
    if carried is not None and name and isinstance(name, str):
        fixed, usual = carried(name)
        problems += contradictions(tree, fixed, name)
        tree = _merged(_merged(usual, tree), fixed)
    config = fill(tree, problems)
    wrong = {problem.setting for problem in problems}
    for problem in validate(config, own, complete=complete):
        if wrong.isdisjoint((problem.setting, *problem.others)):
            problems.append(problem)
    if problems:
        raise ConfigError(problems, f"{path}, variant {variant}," if variant else str(path))
    return config


def contradictions(
    tree: Mapping[str, Any], fixed: Mapping[str, Any], name: str
) -> Iterator[ConfigProblem]:
    """Yield a problem for each setting of `tree` that differs from what the model `name` fixes."""
    for section, keys in fixed.items():
        given = tree.get(section)
        for key, value in keys.items():
            if isinstance(given, Mapping) and given.get(key, value) != value:
                setting = f"{section}.{key}"
                shown = str(value).lower() if isinstance(value, bool) else value
                message = f"{setting} is {given[key]!r}, and {shown!r} in {name}, which fixes it "
                message += f"as start.model: remove it, or add --set {setting}={shown}"
                yield ConfigProblem(setting, message, ("start.model",))


def variant_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of the variants in a configuration file; () if it has no [variants]."""
    path = find_config(path)
    return _read_variants(path, _read_toml(path).get(VARIANTS, {})).names


def make_config(tree: Mapping[str, Any], source: str = "") -> Config:
    """Return the configuration of dicts; a ConfigError lists all problems."""
    problems: list[ConfigProblem] = []
    config = fill(tree, problems)
    if problems:
        raise ConfigError(problems, source)
    return config


def fill(tree: Mapping[str, Any], problems: list[ConfigProblem]) -> Config:
    """Return the configuration of the settings that are right, and append problems for others."""
    # `hints_of` keeps the order of the sections, in which a message lists them.
    kinds = hints_of(Config)
    sections = {}
    for name, value in tree.items():
        if name in kinds and isinstance(value, Mapping):
            sections[name] = _fill_section(kinds[name], name, value, problems)
            continue
        if name in kinds:
            message = f"{name} must be a section, [{name}], not {value!r}"
        elif isinstance(value, Mapping):
            message = f"unknown section [{name}]{_nearest(name, kinds)}"
        else:
            message = f"unknown key {name}: outside of the sections there is only {BASE}"
        problems.append(ConfigProblem(name, message))
    return Config(**sections)


def _fill_section(
    kind: type, section: str, values: Mapping[str, Any], problems: list[ConfigProblem]
) -> Any:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    kinds = hints_of(kind)
    good = {}
    for name, value in values.items():
        setting = f"{section}.{name}"
        try:
            if name not in fields:
                raise ValueError(f"unknown key {setting}{_nearest(name, fields)}")
            check_value(value, kinds[name], setting, fields[name].metadata)
            # TOML has whole numbers where a float is meant: lr = 1.
            good[name] = float(value) if kinds[name] is float else value
        except ValueError as error:
            problems.append(ConfigProblem(setting, str(error)))
    return kind(**good)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f": did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


# Settings that have an effect only if another setting has one of these values or, with none listed,
# any value but "" and 0. Not here: [chars], [bichars], [words], [subwords], [segment], [softwords]
# and [pools], which may stay beside a model that ignores them, so that --set can change the model.
USED_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "data.holdout_from": ("data.holdout", ()),
    **{f"{section}.norm": (f"{section}.vectors", ()) for section in EMBEDDINGS},
    **{f"lm.{key}": ("lm.model", ()) for key in ("dim", "norm", "dropout", "cache")},
    # All of [transformer] but its first field, which is the model.
    **{
        f"transformer.{field.name}": ("transformer.model", ())
        for field in dataclasses.fields(TransformerConfig)[1:]
    },
    "model.hidden": ("model.encoder", ("lattice", "char", "word")),
    "model.layers": ("model.encoder", ("lattice", "char", "word")),
    "model.sources": ("model.encoder", ("lattice",)),
    "model.first_layer": ("model.encoder", ("lattice",)),
    "model.char_width": ("model.char_features", FEATURES[1:]),
    "model.cell": ("model.encoder", ("char",)),
    "model.coupled": ("model.encoder", ("lattice", "char")),
    "train.decay": ("train.schedule", ("inverse",)),
    "train.momentum": ("train.optimizer", ("sgd",)),
    "start.labels": ("start.model", ()),
    "train.word_dropout": ("model.encoder", ("lattice",)),
    "train.backend": ("model.encoder", ("lattice",)),
}


def validate(
    config: Config, given: Mapping[str, Any] | None = None, *, complete: bool = True
) -> list[ConfigProblem]:
    """Return a problem for each setting that contradicts others or has no effect.

    Args:
        given: The settings of the file itself. Others come from its base and cannot be removed, so
            they are reported only if they are switches.
        complete: Whether to report also missing settings that training needs.
    """
    missing = _missing_settings(config) if complete else ()
    return [*_unused_settings(config, given or {}), *missing, *_unused_switches(config)]


def _unused_settings(config: Config, given: Mapping[str, Any]) -> Iterator[ConfigProblem]:
    """Yield a problem for each given setting that has no effect. A 0 or "" asks for nothing."""
    asked = {
        f"{section}.{key}"
        for section, values in given.items()
        if isinstance(values, Mapping)
        for key, value in values.items()
        if value is False or value
    }
    for setting, (other, choices) in USED_WITH.items():
        value = attrgetter(other)(config)
        used = value in choices if choices else value
        if setting in asked and not (used or (setting == "train.backend" and config.runs_lattice)):
            needed = other + (f"={' or '.join(choices)}" if choices else "")
            message = f"{setting} is unused without {needed}: remove it, or set {other}"
            yield ConfigProblem(setting, message, (other,))
    for key in ("lr", "warmup", "layer_decay"):
        setting = f"transformer.{key}"
        if setting in asked and config.transformer.frozen:
            why = "with transformer.frozen, which is not trained: remove it"
            yield ConfigProblem(setting, f"{setting} is unused {why}", ("transformer.frozen",))
    for section in EMBEDDINGS:
        setting = f"{section}.dim"
        other = f"{section}.vectors"
        if setting in asked and getattr(config, section).vectors:
            why = f"with {other}, which have their own width: remove one of them"
            yield ConfigProblem(setting, f"{setting} is unused {why}", (other,))


def _unused_switches(config: Config) -> Iterator[ConfigProblem]:
    """Yield a problem for each part of the model that is on and has no effect."""
    model = config.model
    bare = model.encoder == "none"
    blind = not config.reads_characters
    word = model.encoder == "word"
    flat = model.encoder == "lattice" and model.layers == 1
    no_lattice = model.encoder != "lattice"
    off = "switch it off, or"
    alone = "with model.encoder=word alone, which reads no characters: "
    alone += f"{off} set model.char_features"
    if bare:
        alone = "with model.encoder=none, which reads the transformer alone: "
        alone += f"{off} choose char or lattice"
    cut = "with model.encoder=word, whose words are the segmentation: "
    cut += f"{off} choose char or lattice"
    lattice = f"without model.encoder=lattice: {off} choose lattice"
    above = "without a second model.layers"
    features = "without model.encoder=word: set it to none, or choose word"
    softword = f"without model.softword: {off} switch model.softword on"
    nameless = f"with segment.by={config.segment.by}, whose words have no parts of speech: "
    nameless += "switch it off"
    gateless = "with model.cell=tanh, which has no gates: switch it off"
    tanh = model.encoder == "char" and model.cell == "tanh"
    pos = config.softwords.pos
    for setting, is_unused, why in (
        ("model.bichar", model.bichar and blind, alone),
        ("model.paper_vocab", model.paper_vocab and blind, alone),
        ("lm.model", config.lm.model and blind, alone),
        ("transformer.model", config.transformer.model and blind and not bare, alone),
        ("model.softword", model.softword and bare, alone),
        ("model.softword", model.softword and word, cut),
        ("model.char_features", model.char_features != "none" and not word, features),
        ("model.pools", model.pools and no_lattice, lattice),
        ("model.whole_words", model.whole_words and no_lattice, lattice),
        ("model.whole_words", model.whole_words and flat, above),
        ("model.first_layer", model.first_layer == "char" and flat, above),
        ("softwords.pos", pos and not model.softword, softword),
        ("softwords.pos", pos and model.softword and config.segments_by_model, nameless),
        ("model.coupled", model.coupled and tanh, gateless),
    ):
        if is_unused:
            keys = ("encoder", "char_features", "softword", "layers", "cell")
            others = ("segment.by", *(f"model.{key}" for key in keys))
            yield ConfigProblem(setting, f"{setting} is unused {why}", others)


def _missing_settings(config: Config) -> Iterator[ConfigProblem]:
    """Yield a problem for each setting that training lacks, or that contradicts another."""
    data = config.data
    if not data.train:
        yield ConfigProblem("data.train", "data.train must name the training corpus")
    if config.train.patience and not data.dev and not data.holdout:
        message = "train.patience waits for a better F1 on dev: "
        message += "name data.dev or data.holdout, or set it to 0"
        yield ConfigProblem("train.patience", message, ("data.dev", "data.holdout"))
    if config.train.patience and config.train.keep == "last":
        message = "train.patience ends with epochs that are no better, "
        message += 'and train.keep = "last" would keep the last one'
        yield ConfigProblem("train.patience", message, ("train.keep",))
    if data.dev and data.holdout:
        message = "data.holdout and data.dev both say what serves as dev: give one of them"
        yield ConfigProblem("data.holdout", message, ("data.dev",))
    if 0 < config.transformer.window <= config.transformer.overlap:
        message = "transformer.overlap must be smaller than transformer.window, "
        message += "else windows do not get on in a text"
        yield ConfigProblem("transformer.overlap", message, ("transformer.window",))
    if config.model.encoder == "none" and not config.transformer.model:
        message = "transformer.model must name a transformer, "
        message += "since with model.encoder=none there is no other input"
        yield ConfigProblem("transformer.model", message, ("model.encoder",))
    if not any(getattr(config.rates, group) for group in GROUPS):
        message = "the [rates] are all 0, which freezes everything: at least one must be above 0"
        yield ConfigProblem("rates.output", message)
    # A model that training starts from brings its own words.
    if config.start.model:
        return
    for source in config.lattice_sources:
        if not (source.vectors or source.lexicon):
            yield no_word_file(source)
    is_word_model = config.model.encoder == "word"
    if is_word_model and config.words.lexicon:
        message = "words.lexicon is for the lattice model: "
        message += "a word model takes words.vectors, or random vectors"
        yield ConfigProblem("words.lexicon", message, ("model.encoder",))
    for section in (config.words, config.subwords):
        if section.vectors and section.lexicon and not (section is config.words and is_word_model):
            name = section.called
            message = f"{name}.vectors and {name}.lexicon both say which {name} there are"
            others = (f"{name}.lexicon",)
            yield ConfigProblem(f"{name}.vectors", f"{message}: give one of them", others)


def no_word_file(source: WordsConfig) -> ConfigProblem:
    """Return the problem of a lattice whose section of words names no file."""
    name = source.called
    message = f"{name}.vectors must name a vector file, or {name}.lexicon a dictionary: "
    message += f"the lattice takes its {name} there"
    others = (f"{name}.lexicon", "model.encoder", "model.sources")
    return ConfigProblem(f"{name}.vectors", message, others)


class Variants(NamedTuple):
    """The variants of a configuration file: names in order, the default, and settings by name."""

    path: Path
    names: tuple[str, ...]
    default: str
    table: Mapping[str, Any]

    def settings(self, name: str) -> Tree:
        """Return the settings of a variant, or of the default one for ""."""
        if name and name not in self.names:
            near = _nearest(name, self.names).partition(";")[0]
            known = f"{near} The variants are {', '.join(self.names)}"
            problem = f"unknown variant {name!r}"
            problem += known if self.names else ": this file has no variants"
            raise ConfigError([problem], str(self.path))
        return self._resolved(name or self.default, self.table) if name or self.default else {}

    def _resolved(self, name: str, table: Mapping[str, Any]) -> Tree:
        """Merge a variant over its base; bases are taken from `table` until it has none left."""
        own = dict(table[name])
        base = own.pop(BASE, "")
        others = {key: value for key, value in table.items() if key != name}
        if not base:
            return own
        # A list, because a base of a wrong type may have no hash.
        if base not in [*others]:
            message = f"base = {base!r} of the variant {name} must name another variant, "
            message += "which does not stand on it"
            raise ConfigError([message], str(self.path))
        below = self._resolved(base, others)
        below.pop("compare", None)
        return _merged(below, own)


def _read_variants(path: Path, section: Any) -> Variants:
    """Return the variants that a file lists, of variants.toml beside it or of its own."""
    if not isinstance(section, Mapping):
        raise ConfigError([f"{VARIANTS} must be a section, not {section!r}"], str(path))
    if not section:
        return Variants(path, (), "", {})
    own = {name: value for name, value in section.items() if name not in ("names", "default")}
    file = path.with_name(f"{VARIANTS}.toml")
    shared = _read_toml(file) if file.exists() else {}
    names = section.get("names", [*own])
    default = section.get("default", "")
    table = _merged(shared, own)
    odd = (name for name, value in table.items() if not isinstance(value, Mapping))
    problems = [f"the variant {name} must be a table of settings" for name in odd]
    if not isinstance(names, list) or not all(name in [*table] for name in names):
        problems.append(f"{VARIANTS}.names must list variants of this file or {file.name}")
    elif default and default not in names:
        problems.append(f"{VARIANTS}.default must be one of {VARIANTS}.names")
    else:
        unlisted = [name for name in own if name not in names and name not in shared]
        problems += [f"unknown variant {name}{_nearest(name, names)}" for name in unlisted]
    if problems:
        raise ConfigError(problems, str(path))
    return Variants(path, tuple(names), default, table)


def find_config(path: str | Path) -> Path:
    """Return the path of a file, else of the bundled configuration of this name (`weibo`)."""
    path = Path(path)
    is_bare = path.parent == Path() and path.suffix in ("", ".toml")
    # Path.exists raises for a name that is too long.
    if os.path.exists(path) or not is_bare:  # noqa: PTH110
        return path
    # An editable install reads the files of the repository.
    folder = Path(__file__).with_name("configs")
    if not folder.is_dir():
        folder = Path(__file__).parents[2] / "configs"
    bundled = {file.stem: file for file in sorted(folder.glob("*.toml")) if file.stem != VARIANTS}
    if path.stem in bundled:
        return bundled[path.stem]
    message = "there is no such file, and no bundled configuration of this name; these are "
    raise InputError(message + ", ".join(bundled), path)


def _read_tree(path: Path, above: tuple[str, ...] = ()) -> tuple[Tree, Tree]:
    """Return (the settings of the file that `base` names, or none; the settings of this file)."""
    own = _read_toml(path)
    if BASE not in own:
        return {}, own
    base = own.pop(BASE)
    if not isinstance(base, str) or not base or "\0" in base:
        message = f"base must name another file of settings, from this one's folder, not {base!r}"
        raise ConfigError([message], str(path))
    below = path.parent / base
    above = (*above, os.path.realpath(path))
    if os.path.realpath(below) in above:
        message = f"base = {base!r} leads back to a file that stands on this one"
        raise ConfigError([message], str(path))
    tree = _merged(*_read_tree(below, above))
    tree.pop(VARIANTS, None)
    # Only to report its problems under its own name.
    make_config(tree, str(below))
    # [compare] describes the row of one run.
    tree.pop("compare", None)
    return tree, own


def _merged(below: Mapping[str, Any], own: Mapping[str, Any]) -> Tree:
    """Return the settings of `below`, replaced by those of `own` table by table."""
    merged = dict(below)
    for name, section in own.items():
        old = below.get(name)
        if isinstance(old, Mapping) and isinstance(section, Mapping):
            merged[name] = _merged(old, section)
        else:
            merged[name] = section
    return merged


def _read_toml(path: Path) -> Tree:
    try:
        return tomllib.loads("\n".join(line for _, line in read_lines(path, "utf-8")))
    # A number of 5,000 digits is a plain ValueError, not a TOMLDecodeError.
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"not TOML: {error}"], str(path)) from None


def _apply(tree: Tree, change: str, problems: list[ConfigProblem]) -> None:
    """Set `section.key=value` in the tree. The value is TOML; a bare word is a string."""
    setting, equals, text = change.partition("=")
    section, dot, key = setting.strip().partition(".")
    if not equals or not dot:
        message = f"--set wants section.key=value, such as train.epochs=5, not {change!r}"
        problems.append(ConfigProblem("--set", message))
        return
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    target = tree.setdefault(section, {})
    if isinstance(target, dict):
        target[key] = value
