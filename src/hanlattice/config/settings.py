"""Every setting with its default, as dataclasses; the metadata of a field says which values it may have."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

# Those of ops.lattice_lstm, which this floor cannot import; a test holds the two together.
BACKENDS = ("auto", "auto-fp32", "reference", "batched", "native", "fused", "fused-fp32", "fused-tf32", "fused-bf16")
FEATURES = ("none", "lstm", "sentence-lstm", "cnn")  # those of nn.char_features likewise
SEGMENTERS = ("rjieba", "gold")  # and those of text.segmenter
SOURCES = ("words", "subwords", "both")


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
    more: str = ""  # further sentences to train on, such as those of `hanlattice vote`; never dev
    holdout: float = _setting(0.0, "half")  # the share of train that serves as dev when there is no dev file
    holdout_from: str = _setting("all", choices=("all", "end"))  # evenly spread, or the last sentences
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
    called: ClassVar[str] = "words"  # the section

    vectors: str = ""
    lexicon: str = ""  # a dictionary instead, whose words begin with random vectors
    dim: int = _setting(50, "positive")  # of those
    norm: float = _setting(0.0, "count")
    fine_tune: bool = True
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class SubwordsConfig(WordsConfig):
    """The same of subwords, where model.sources has them: pieces of text that BPE found, words or not."""

    called: ClassVar[str] = "subwords"


@dataclass(frozen=True)
class BicharsConfig:
    """Vectors of a character together with the next one, where model.bichar is on."""

    vectors: str = ""
    dim: int = _setting(50, "positive")  # without vectors
    norm: float = _setting(0.0, "count")
    fine_tune: bool = True
    dropout: float = _setting(0.5, "share")


@dataclass(frozen=True)
class SegmentConfig:
    """The words behind softwords and word models."""

    by: str = _setting("rjieba", choices=SEGMENTERS)


@dataclass(frozen=True)
class SoftwordsConfig:
    """Vectors of a character's place in its word, where model.softword is on."""

    dim: int = _setting(25, "positive")
    pos: bool = False  # and of the word's part of speech, equally wide
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
    encoder: str = _setting("lattice", choices=("lattice", "char", "word"))
    sources: str = _setting("words", choices=SOURCES)  # what the lattice holds
    char_features: str = _setting("none", choices=FEATURES)  # what a word model makes of a word's characters
    char_width: int = _setting(50, "even")  # of those features
    bichar: bool = False
    softword: bool = False
    hidden: int = _setting(100, "positive")  # units in each direction
    layers: int = _setting(1, "positive")
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
    missing_words: float = _setting(0.0, "share")  # the share of the lattice's words that a step leaves out at random
    patience: int = _setting(0, "count")  # stop after so many epochs without a better dev F1; 0 never stops
    seed: int = _setting(1, "seed")
    threads: int = _setting(1, "count")  # CPU threads; 0 leaves the choice to torch
    device: str = "cpu"
    backend: str = _setting("auto", choices=BACKENDS)  # how the lattice LSTM is computed while training
    checkpoint_minutes: float = _setting(5.0, "positive")


@dataclass(frozen=True)
class CompareConfig:
    """How `hanlattice compare` shows the run; a training does not look at it."""

    row: str = ""  # the row's name; without one, the file's
    paper: float = _setting(0.0, "percent")  # the published F1, in per cent; 0 is none


@dataclass(frozen=True)
class Config:
    """All settings of a run, by section; docs/configuration.md says what each does."""

    data: DataConfig = field(default_factory=DataConfig)
    chars: CharsConfig = field(default_factory=CharsConfig)
    bichars: BicharsConfig = field(default_factory=BicharsConfig)
    words: WordsConfig = field(default_factory=WordsConfig)
    subwords: SubwordsConfig = field(default_factory=SubwordsConfig)
    segment: SegmentConfig = field(default_factory=SegmentConfig)
    softwords: SoftwordsConfig = field(default_factory=SoftwordsConfig)
    lm: LmConfig = field(default_factory=LmConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    compare: CompareConfig = field(default_factory=CompareConfig)

    @property
    def reads_characters(self) -> bool:
        """Whether characters are an input at all: a word model may see whole words alone."""
        return self.model.encoder != "word" or self.model.char_features != "none"

    @property
    def lattice_sources(self) -> tuple[WordsConfig, ...]:
        """Where the lattice takes its words: [words], [subwords] or both, in this order; without lattice nowhere."""
        if self.model.encoder != "lattice":
            return ()
        sources = {"words": (self.words,), "subwords": (self.subwords,), "both": (self.words, self.subwords)}
        return sources[self.model.sources]

    @property
    def vector_files(self) -> list[str]:
        """The files of vectors and words that a model of this configuration begins with."""
        chars = [self.chars.vectors] if self.reads_characters else []
        bichars = [self.bichars.vectors] if self.model.bichar else []
        sources = (self.words,) if self.model.encoder == "word" else self.lattice_sources
        named = [*chars, *bichars, *(name for source in sources for name in (source.vectors, source.lexicon))]
        return [name for name in named if name]

    @property
    def reads_segments(self) -> bool:
        """Whether the text is to be cut into words."""
        return self.model.softword or self.model.encoder == "word"

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
