"""The configuration of a run: dataclasses filled from TOML, with all problems reported together."""

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

# The choices of ops.lattice_lstm, nn.char_features and text.segmenter, which this module cannot
# import; a test compares
# them.
BACKENDS = (
    "auto",
    "auto-fp32",
    "reference",
    "batched",
    "native",
    "fused",
    "fused-fp32",
    "fused-tf32",
    "fused-bf16",
)
FEATURES = ("none", "lstm", "sentence-lstm", "cnn")
SEGMENTERS = ("rjieba", "gold")
SOURCES = ("words", "subwords", "both")

EMBEDDINGS = ("chars", "bichars", "words", "subwords")  # the sections that are alike
GROUPS = ("embeddings", "encoder", "output")  # of weights, each with a rate of its own
# a key and a section of files; a Config has neither
BASE = "base"
VARIANTS = "variants"

Tree = dict[str, Any]
InheritedSettings = tuple[
    Mapping[str, Any], Mapping[str, Any]
]  # settings that a model fixes, and those that it has by default


class ConfigProblem(NamedTuple):
    """What is wrong with a setting. A problem that follows from other settings is dropped if one of
    those is wrong.
    """

    setting: str
    message: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message


def _setting(default: Any, check: str = "", choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"check": check, "choices": choices})


@dataclass(frozen=True)
class DataConfig:
    """Files are paths, or `@name/file` for what `hanlattice data get name` downloaded."""

    train: str = ""
    dev: str = ""
    test: str = ""
    format: str = _setting(
        "auto", choices=("auto", "columns", "segmented", "jsonl", "conllu", "label-studio", "spacy")
    )
    scheme: str = _setting("auto", choices=("auto", "BIO", "IOB1", "BMES", "BIOES"))
    learn: str = _setting(
        "spans", choices=("spans", "words")
    )  # words: a segmenter whose words have the corpus's labels
    encoding: str = _setting(
        "auto", "encoding"
    )  # of these files; auto finds UTF-8, UTF-16, GB18030 and Big5
    more: str = (
        ""  # further sentences to train on, such as those of `hanlattice distil`; never used as dev
    )
    holdout: float = _setting(
        0.0, "half"
    )  # the share of train that serves as dev when there is no dev file
    holdout_from: str = _setting(
        "all", choices=("all", "end")
    )  # evenly spread, or the last sentences
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
    """Vectors of words; or, in a lattice, the words of a dictionary, which begin with random
    vectors.
    """

    called: ClassVar[str] = "words"  # the section
    lexicon: str = ""


@dataclass(frozen=True)
class SubwordsConfig(WordsConfig):
    """The same for subwords, which byte-pair encoding found, where model.sources has them."""

    called: ClassVar[str] = "subwords"


@dataclass(frozen=True)
class SegmentConfig:
    """The words behind softwords and word models."""

    by: str = _setting(
        "rjieba", "segmenter"
    )  # one of SEGMENTERS, a bundled model, or a segmentation model's folder


@dataclass(frozen=True)
class SoftwordsConfig:
    """Vectors of a character's place in its word, where model.softword is on."""

    dim: int = _setting(25, "size")
    pos: bool = False  # and of the word's part of speech, equally wide
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class PoolsConfig:
    """The vectors of the words that begin at a character, go on over it and end at it, where
    model.pools is on.
    """

    dim: int = _setting(50, "size")  # they are mapped to this width
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class LmConfig:
    """A language model whose states are concatenated to the character embedding."""

    model: str = ""  # a folder that `hanlattice pretrain lm` made
    dim: int = _setting(100, "size")  # its states are projected to this width
    norm: float = _setting(4.0, "positive")  # the norm of the projected states at first
    dropout: float = _setting(0.8, "share")  # on the states
    cache: bool = (
        True  # compute the states of train and dev once and keep them on disk; else in every step
    )


@dataclass(frozen=True)
class TransformerConfig:
    """A pre-trained transformer whose states stand beside the character embedding, or alone before
    the CRF.
    """

    model: str = ""  # a folder in Hugging Face's layout, or a name on its hub
    frozen: bool = False  # do not train it: a mixture of its layers is learnt instead
    lr: float = _setting(4e-5, "positive")  # its own learning rate, of its top layer
    warmup: float = _setting(0.1, "share")
    layer_decay: float = _setting(
        1.0, "factor"
    )  # each layer's rate, as a share of the rate of the layer above it
    window: int = _setting(
        0, "count"
    )  # characters that it reads at once; 0: as many as it has positions for
    overlap: int = _setting(
        128, "count"
    )  # characters that two windows of a longer text share, at least
    dropout: float = _setting(0.1, "share")  # on its states
    bf16: bool = True  # train it with rounded factors on a GPU


@dataclass(frozen=True)
class ModelConfig:
    """The architecture."""

    encoder: str = _setting("lattice", choices=("lattice", "char", "word", "none"))
    sources: str = _setting("words", choices=SOURCES)  # what the lattice holds
    char_features: str = _setting(
        "none", choices=FEATURES
    )  # what a word model makes of a word's characters
    char_width: int = _setting(50, "even")  # of those features
    bichar: bool = False
    softword: bool = False
    pools: bool = False  # beside each character, the words over it
    hidden: int = _setting(100, "size")  # units in each direction
    layers: int = _setting(1, "layers")
    first_layer: str = _setting("lattice", choices=("lattice", "char"))  # of a lattice with several
    # Above the first layer, a word's cell sees what the layer below says of its characters.
    whole_words: bool = False
    cell: str = _setting("lstm", choices=("lstm", "tanh"))  # of a character model
    coupled: bool = _setting(None)  # whether f = 1 − i; without a value only in a lattice
    scheme: str = _setting("BMES", choices=("BIO", "BMES", "BIOES"))
    dropout: float = _setting(0.5, "share")  # on the encoder's output
    decode: str = _setting(
        "path", choices=("path", "spans")
    )  # the best tagging, or the best set of spans
    paper_vocab: bool = (
        False  # take characters of dev and test into the vocabulary, as the original code does
    )

    def __post_init__(self) -> None:
        if self.coupled is None:
            object.__setattr__(self, "coupled", self.encoder == "lattice")


@dataclass(frozen=True)
class StartConfig:
    """The model that a training begins with. Its architecture, weights, vocabularies and lexicon
    are carried over.
    """

    model: str = ""  # a bundled model or a folder; without it, a training begins anew
    # label of the corpus → the model's as which it begins
    labels: dict[str, str] = field(default_factory=dict, hash=False, metadata={"check": "names"})


@dataclass(frozen=True)
class RatesConfig:
    """How fast each group of weights learns, as a multiple of train.lr; 0 freezes the group."""

    embeddings: float = _setting(1.0, "count")  # vectors of characters, bigrams, words, …
    encoder: float = _setting(1.0, "count")
    output: float = _setting(1.0, "count")  # the scores of tags, and of neighbouring tags


@dataclass(frozen=True)
class TrainConfig:
    """The optimisation, and where it runs."""

    epochs: int = _setting(50, "positive")
    batch_size: int = _setting(8, "positive")
    accumulate: int = _setting(
        1, "positive"
    )  # parts of a batch that are computed one after the other, to save memory
    optimizer: str = _setting("adamw", choices=("adamw", "sgd"))
    lr: float = _setting(1.5e-3, "positive")
    schedule: str = _setting("linear", choices=("constant", "inverse", "linear"))
    decay: float = _setting(0.05, "count")  # inverse: lr / (1 + decay · epoch)
    warmup: float = _setting(0.0, "share")  # the share of all steps in which lr rises from 0
    momentum: float = _setting(0.0, "share")
    weight_decay: float = _setting(0.0, "count")
    clip: float = _setting(5.0, "count")  # the largest gradient norm; 0 does not clip
    average: float = _setting(
        0.0, "share"
    )  # evaluate an exponential average of the weights with this memory; 0 is off
    word_dropout: float = _setting(
        0.0, "share"
    )  # the share of the lattice's words that a step leaves out at random
    keep: str = _setting(
        "best", choices=("best", "last")
    )  # the weights of the best epoch on dev, or of the last
    patience: int = _setting(
        0, "count"
    )  # stop after so many epochs without a better dev F1; 0 never stops
    seed: int = _setting(1, "seed")
    threads: int = _setting(1, "count")  # CPU threads; 0 leaves the choice to torch
    device: str = "cpu"
    backend: str = _setting(
        "auto", choices=BACKENDS
    )  # how the lattice LSTM is computed while training
    checkpoint_minutes: float = _setting(5.0, "positive")


@dataclass(frozen=True)
class CompareConfig:
    """How `hanlattice compare` shows the run; training ignores it."""

    row: str = ""  # the row's name; without one, the file's
    paper: float = _setting(0.0, "percent")  # the published F1, in per cent; 0 is none


@dataclass(frozen=True)
class Config:
    """All settings of a run, by section; docs/configuration.md says what each does."""

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
        """Whether characters have vectors: a word model may see whole words alone, without encoder
        none are needed.
        """
        without = {"none": True, "word": self.model.char_features == "none"}
        return not without.get(self.model.encoder, False)

    @property
    def lattice_sources(self) -> tuple[WordsConfig, ...]:
        """Where the lattice takes its words: [words], [subwords] or both, in this order; without
        lattice nowhere.
        """
        if self.model.encoder != "lattice":
            return ()
        sources = {
            "words": (self.words,),
            "subwords": (self.subwords,),
            "both": (self.words, self.subwords),
        }
        return sources[self.model.sources]

    @property
    def vector_files(self) -> list[str]:
        """The files of vectors and words that a model of this configuration begins with."""
        if self.start.model:
            return []
        chars = [self.chars.vectors] if self.reads_characters else []
        bichars = [self.bichars.vectors] if self.model.bichar else []
        sources = (self.words,) if self.model.encoder == "word" else self.lattice_sources
        named = [
            *chars,
            *bichars,
            *(name for source in sources for name in (source.vectors, source.lexicon)),
        ]
        return [name for name in named if name]

    @property
    def runs_lattice(self) -> bool:
        """Whether the lattice LSTM computes it; a coupled character LSTM is one without words."""
        return self.model.encoder == "lattice" or (
            self.model.encoder == "char" and self.model.coupled
        )

    @property
    def reads_segments(self) -> bool:
        """Whether the text is to be cut into words."""
        return self.model.softword or self.model.encoder == "word"

    @property
    def segments_by_model(self) -> bool:
        """Whether a segmentation model of our own does that."""
        return self.reads_segments and self.segment.by not in SEGMENTERS

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts, which `make_config` reads."""
        return dataclasses.asdict(self)


def read_config(
    path: str | Path,
    changes: Iterable[str] = (),
    *,
    variant: str = "",
    complete: bool = False,
    carried: Callable[[str], InheritedSettings] | None = None,
) -> Config:
    """The configuration of a TOML file or a bundled one's name, with a variant of it and
    `section.key=value` changes.

    If `complete`, what training needs must be there. `carried` gives the settings of the model that
    start.model names; without it, they must be in the file.
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
    name = start.get("model") if isinstance(start, Mapping) else ""
    if carried is not None and name and isinstance(name, str):
        fixed, usual = carried(name)
        problems += contradictions(tree, fixed, name)
        tree = _merged(_merged(usual, tree), fixed)
    config = fill(tree, problems)
    wrong = {problem.setting for problem in problems}
    found = validate(config, own, complete=complete)
    problems += [
        problem for problem in found if wrong.isdisjoint((problem.setting, *problem.others))
    ]
    if problems:
        raise ConfigError(problems, f"{path}, variant {variant}," if variant else str(path))
    return config


def contradictions(
    tree: Mapping[str, Any], fixed: Mapping[str, Any], name: str
) -> Iterator[ConfigProblem]:
    """Settings that are other than those which the model `name`, which a training begins with,
    fixes.
    """
    for section, keys in fixed.items():
        given = tree.get(section)
        for key, value in keys.items():
            if isinstance(given, Mapping) and given.get(key, value) != value:
                setting = f"{section}.{key}"
                shown = str(value).lower() if isinstance(value, bool) else value
                message = f"{setting} is {given[key]!r}, and {shown!r} in {name}, which fixes it as start.model: "
                yield ConfigProblem(
                    setting, f"{message}remove it, or add --set {setting}={shown}", ("start.model",)
                )


def variant_names(path: str | Path) -> tuple[str, ...]:
    """The variants of a configuration file, in their order; none for a file without a [variants]
    section.
    """
    path = find_config(path)
    return _read_variants(path, _read_toml(path).get(VARIANTS, {})).names


def make_config(tree: Mapping[str, Any], source: str = "") -> Config:
    """A configuration from plain dicts; a ConfigError lists everything that is wrong with it."""
    problems: list[ConfigProblem] = []
    config = fill(tree, problems)
    if problems:
        raise ConfigError(problems, source)
    return config


def fill(tree: Mapping[str, Any], problems: list[ConfigProblem]) -> Config:
    """The configuration without what is wrong in `tree`, which is added to `problems`."""
    kinds = hints_of(Config)  # in the order of the sections
    made = {}
    for name, value in tree.items():
        if name in kinds and isinstance(value, Mapping):
            made[name] = _fill_section(kinds[name], name, value, problems)
        elif name in kinds:
            problems.append(
                ConfigProblem(name, f"{name} must be a section, [{name}], not {value!r}")
            )
        elif isinstance(value, Mapping):
            problems.append(ConfigProblem(name, f"unknown section [{name}]{_nearest(name, kinds)}"))
        else:
            problems.append(
                ConfigProblem(
                    name, f"unknown key {name}: outside of the sections there is only {BASE}"
                )
            )
    return Config(**made)


def _fill_section(
    kind: type, section: str, values: Mapping[str, Any], problems: list[ConfigProblem]
) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    kinds = hints_of(kind)
    good = {}
    for name, value in values.items():
        setting = f"{section}.{name}"
        if name not in fields:
            problems.append(
                ConfigProblem(setting, f"unknown key {setting}{_nearest(name, fields)}")
            )
            continue
        try:
            check_value(value, kinds[name], setting, fields[name].metadata)
        except ValueError as error:
            problems.append(ConfigProblem(setting, str(error)))
        else:
            good[name] = float(value) if kinds[name] is float else value
    return kind(**good)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f": did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


# Settings that are used only where another one has one of these values or, with none listed, any
# value but "" and 0.
# [chars], [bichars], [words], [subwords], [segment], [softwords] and [pools] may stay beside a
# model that does not use
# them, so that --set alone can change the model.
USED_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "data.holdout_from": ("data.holdout", ()),
    **{f"{section}.norm": (f"{section}.vectors", ()) for section in EMBEDDINGS},
    **{f"lm.{key}": ("lm.model", ()) for key in ("dim", "norm", "dropout", "cache")},
    **{
        f"transformer.{f.name}": ("transformer.model", ())
        for f in dataclasses.fields(TransformerConfig)[1:]
    },
    **{
        f"model.{key}": ("model.encoder", ("lattice", "char", "word"))
        for key in ("hidden", "layers")
    },
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
    """Settings that contradict each other or have no effect and, if `complete`, those that training
    still needs.

    A switch without effect is reported wherever it comes from; any other setting only if it is in
    `given`, since what a file takes from its base cannot be removed from it.
    """
    missing = _missing_settings(config) if complete else ()
    return [*_unused_settings(config, given or {}), *missing, *_unused_switches(config)]


def _unused_settings(config: Config, given: Mapping[str, Any]) -> Iterator[ConfigProblem]:
    tables = {section: values for section, values in given.items() if isinstance(values, Mapping)}
    keys = {
        f"{section}.{key}": value
        for section, values in tables.items()
        for key, value in values.items()
    }
    asked = {
        setting for setting, value in keys.items() if value is False or value
    }  # a 0 is off and asks for nothing
    for setting, (other, choices) in USED_WITH.items():
        value = attrgetter(other)(config)
        used = value in choices if choices else value
        if setting in asked and not (used or (setting == "train.backend" and config.runs_lattice)):
            needed = other + (f"={' or '.join(choices)}" if choices else "")
            yield ConfigProblem(
                setting,
                f"{setting} is unused without {needed}: remove it, or set {other}",
                (other,),
            )
    for key in ("lr", "warmup", "layer_decay"):
        if f"transformer.{key}" in asked and config.transformer.frozen:
            message = f"transformer.{key} is unused with transformer.frozen, which is not trained: remove it"
            yield ConfigProblem(f"transformer.{key}", message, ("transformer.frozen",))
    for section in EMBEDDINGS:
        if f"{section}.dim" in asked and getattr(config, section).vectors:
            message = f"{section}.dim is unused with {section}.vectors, which have their own width: remove one of them"
            yield ConfigProblem(f"{section}.dim", message, (f"{section}.vectors",))


def _unused_switches(config: Config) -> Iterator[ConfigProblem]:
    model, is_word_model = config.model, config.model.encoder == "word"
    bare = model.encoder == "none"
    blind = not config.reads_characters
    alone = "with model.encoder=word alone, which reads no characters: switch it off, or set model.char_features"
    if bare:
        alone = "with model.encoder=none, which reads the transformer alone: switch it off, or choose char or lattice"
    segmented = "with model.encoder=word, whose words are the segmentation: switch it off, or choose char or lattice"
    characters = model.char_features != "none" and not is_word_model
    parts = config.softwords.pos and not model.softword
    no_lattice = model.encoder != "lattice"
    flat = model.encoder == "lattice" and model.layers == 1
    lattice = "without model.encoder=lattice: switch it off, or choose lattice"
    above = "without a second model.layers"
    nameless = (
        f"with segment.by={config.segment.by}, whose words have no parts of speech: switch it off"
    )
    gateless = model.encoder == "char" and model.cell == "tanh"
    for setting, is_unused, why in (
        ("model.bichar", model.bichar and blind, alone),
        ("model.paper_vocab", model.paper_vocab and blind, alone),
        ("lm.model", config.lm.model and blind, alone),
        ("transformer.model", config.transformer.model and blind and not bare, alone),
        ("model.softword", model.softword and bare, alone),
        ("model.softword", model.softword and is_word_model, segmented),
        (
            "model.char_features",
            characters,
            "without model.encoder=word: set it to none, or choose word",
        ),
        ("model.pools", model.pools and no_lattice, lattice),
        ("model.whole_words", model.whole_words and no_lattice, lattice),
        ("model.whole_words", model.whole_words and flat, above),
        ("model.first_layer", model.first_layer == "char" and flat, above),
        (
            "softwords.pos",
            parts,
            "without model.softword: switch it off, or switch model.softword on",
        ),
        (
            "softwords.pos",
            config.softwords.pos and model.softword and config.segments_by_model,
            nameless,
        ),
        (
            "model.coupled",
            model.coupled and gateless,
            "with model.cell=tanh, which has no gates: switch it off",
        ),
    ):
        if is_unused:
            keys = ("encoder", "char_features", "softword", "layers", "cell")
            others = ("segment.by", *(f"model.{key}" for key in keys))
            yield ConfigProblem(setting, f"{setting} is unused {why}", others)


def _missing_settings(config: Config) -> Iterator[ConfigProblem]:
    data = config.data
    if not data.train:
        yield ConfigProblem("data.train", "data.train must name the training corpus")
    if config.train.patience and not data.dev and not data.holdout:
        message = "train.patience waits for a better F1 on dev: name data.dev or data.holdout, or set it to 0"
        yield ConfigProblem("train.patience", message, ("data.dev", "data.holdout"))
    if config.train.patience and config.train.keep == "last":
        message = 'train.patience ends with epochs that are no better, and train.keep = "last" would keep the last one'
        yield ConfigProblem("train.patience", message, ("train.keep",))
    if data.dev and data.holdout:
        message = "data.holdout and data.dev both say what serves as dev: give one of them"
        yield ConfigProblem("data.holdout", message, ("data.dev",))
    if 0 < config.transformer.window <= config.transformer.overlap:
        message = "transformer.overlap must be smaller than transformer.window, else windows do not get on in a text"
        yield ConfigProblem("transformer.overlap", message, ("transformer.window",))
    if config.model.encoder == "none" and not config.transformer.model:
        message = "transformer.model must name a transformer, since with model.encoder=none there is no other input"
        yield ConfigProblem("transformer.model", message, ("model.encoder",))
    if not any(getattr(config.rates, group) for group in GROUPS):
        yield ConfigProblem(
            "rates.output",
            "the [rates] are all 0, which freezes everything: at least one must be above 0",
        )
    if config.start.model:  # which has its words
        return
    yield from (
        word_dropout(source)
        for source in config.lattice_sources
        if not (source.vectors or source.lexicon)
    )
    is_word_model = config.model.encoder == "word"
    if is_word_model and config.words.lexicon:
        message = "words.lexicon is for the lattice model: a word model takes words.vectors, or random vectors"
        yield ConfigProblem("words.lexicon", message, ("model.encoder",))
    for section in (config.words, config.subwords):
        if section.vectors and section.lexicon and not (section is config.words and is_word_model):
            name = section.called
            message = f"{name}.vectors and {name}.lexicon both say which {name} there are: give one of them"
            yield ConfigProblem(f"{name}.vectors", message, (f"{name}.lexicon",))


def word_dropout(source: WordsConfig) -> ConfigProblem:
    """The problem of a lattice whose section of words names no file."""
    name = source.called
    message = f"{name}.vectors must name a vector file, or {name}.lexicon a dictionary: the lattice takes its {name}"
    return ConfigProblem(
        f"{name}.vectors", f"{message} there", (f"{name}.lexicon", "model.encoder", "model.sources")
    )


class Variants(NamedTuple):
    """The variants of a corpus file: their names in order, the one that the file itself stands for,
    their settings.
    """

    path: Path
    names: tuple[str, ...]
    default: str
    table: Mapping[str, Any]

    def settings(self, name: str) -> Tree:
        """What a variant, or the default one, lays over its corpus."""
        if name and name not in self.names:
            near = _nearest(name, self.names).partition(";")[0]
            known = (
                f"{near} The variants are {', '.join(self.names)}"
                if self.names
                else ": this file has no variants"
            )
            raise ConfigError([f"unknown variant {name!r}{known}"], str(self.path))
        return self._resolved(name or self.default, self.table) if name or self.default else {}

    def _resolved(self, name: str, table: Mapping[str, Any]) -> Tree:
        """A variant over the one that its `base` names, which cannot be one that stands on it."""
        own = dict(table[name])
        base = own.pop(BASE, "")
        others = {key: value for key, value in table.items() if key != name}
        if not base:
            return own
        if base not in [*others]:
            message = f"base = {base!r} of the variant {name} must name another variant, which does not stand on it"
            raise ConfigError([message], str(self.path))
        below = self._resolved(base, others)
        below.pop("compare", None)
        return _merged(below, own)


def _read_variants(path: Path, section: Any) -> Variants:
    """Those that [variants] of a corpus file lists: of variants.toml beside it, with the corpus's
    own settings over.
    """
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
    """A file's path or, where there is no such file, the bundled configuration of this name:
    `weibo`, `weibo.toml`.
    """
    path = Path(path)
    is_bare = path.parent == Path() and path.suffix in ("", ".toml")
    if os.path.exists(path) or not is_bare:  # noqa: PTH110 (Path.exists raises for a name that is too long)
        return path
    beside = Path(__file__).with_name("configs")
    repository = Path(__file__).parents[2] / "configs"
    folder = beside if beside.is_dir() else repository  # an editable install has no copy of them
    bundled = {file.stem: file for file in sorted(folder.glob("*.toml")) if file.stem != VARIANTS}
    if path.stem in bundled:
        return bundled[path.stem]
    message = f"there is no such file, and no bundled configuration of this name; these are {', '.join(bundled)}"
    raise InputError(message, path)


def _read_tree(path: Path, above: tuple[str, ...] = ()) -> tuple[Tree, Tree]:
    """(the settings of the file that `base` names, if there is one; the settings of this file
    itself).
    """
    own = _read_toml(path)
    if BASE not in own:
        return {}, own
    base = own.pop(BASE)
    if not isinstance(base, str) or not base or "\0" in base:
        raise ConfigError(
            [f"base must name another file of settings, from this one's folder, not {base!r}"],
            str(path),
        )
    below = path.parent / base
    above = (*above, os.path.realpath(path))
    if os.path.realpath(below) in above:
        raise ConfigError(
            [f"base = {base!r} leads back to a file that stands on this one"], str(path)
        )
    tree = _merged(*_read_tree(below, above))
    tree.pop(VARIANTS, None)
    make_config(tree, str(below))  # its problems are reported under its own name
    tree.pop("compare", None)  # the row of one run is not another's
    return tree, own


def _merged(below: Mapping[str, Any], own: Mapping[str, Any]) -> Tree:
    """Settings over others, table by table."""
    merged = dict(below)
    for name, section in own.items():
        old = below.get(name)
        merged[name] = (
            _merged(old, section)
            if isinstance(old, Mapping) and isinstance(section, Mapping)
            else section
        )
    return merged


def _read_toml(path: Path) -> Tree:
    try:
        return tomllib.loads("\n".join(line for _, line in read_lines(path, "utf-8")))
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a plain ValueError
        raise ConfigError([f"not TOML: {error}"], str(path)) from None


def _apply(tree: Tree, change: str, problems: list[ConfigProblem]) -> None:
    """Put one `section.key=value` into the tree. The value is TOML; a bare word is a string."""
    setting, equals, text = change.partition("=")
    section, dot, key = setting.strip().partition(".")
    if not equals or not dot:
        problems.append(
            ConfigProblem(
                "--set", f"--set wants section.key=value, such as train.epochs=5, not {change!r}"
            )
        )
        return
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    target = tree.setdefault(section, {})
    if isinstance(target, dict):
        target[key] = value
