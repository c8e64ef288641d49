"""How a language model is trained: every option, its default and its meaning, without torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanlattice.checks import MOST_LAYERS, WIDEST
from hanlattice.errors import InputError
from hanlattice.files import printable_path

# Of a model that starts from nothing.
SIZES = {"embedding": 512, "hidden": 1024, "layers": 1}
# Rarer characters or words are unknown.
MIN_COUNT = 5
# A model of words knows so many.
MOST_WORDS = 50_000
UNITS = ("char", "word")
HELP = {
    "embedding": "width of an embedding, 512 or that of --vectors if not given",
    "hidden": "H, hidden units of a layer, 1024 if not given",
    "layers": "LSTM layers, 1 if not given",
    "dropout": "share of embeddings and of hidden states that is dropped in training",
    "batch_size": "B, streams of text that are read in parallel",
    "length": "T, characters or words over which gradients flow back",
    "epochs": "times that the whole text is read",
    "lr": "the highest learning rate",
    "warmup": "share of the steps in which the learning rate rises; then it falls to 0, linearly",
    "weight_decay": "weight decay of the matrices",
    "clip": "largest norm of a gradient; 0 does not clip",
    "min_count": "how often a character or word must occur to be known, 5 if not given",
    "held_out": "share of the lines, at even steps, that is scored and never trained on",
    "evaluate": "how often held-out text is scored in an epoch",
    "threads": "CPU threads; 0 leaves the choice to torch",
    "checkpoint_minutes": "minutes between two saved states for --resume",
    "start_from": "a language model's folder, to begin with its weights and characters or words",
    "vectors": "a word2vec file, or @name/file, to begin with its vectors as embeddings",
    "unit": "what is read and predicted: char, the default, or word",
    "lexicon": "cut words by this dictionary, of which the folder keeps a copy; "
    "without it and --model, by rjieba",
    "model": "cut words by this segmentation model: a folder, or seg",
    "vocab": "how many words are known at most, the most frequent ones, 50000 if not given",
}
_MANY = (1 << 31) - 1
# The least and the most of whole numbers.
_WHOLE = {"embedding": (1, WIDEST), "hidden": (1, WIDEST), "layers": (1, MOST_LAYERS)}
_WHOLE |= dict.fromkeys(("batch_size", "length", "epochs", "evaluate"), (1, _MANY))
_WHOLE |= {"min_count": (1, _MANY), "seed": (0, (1 << 63) - 1), "threads": (0, 4096)}
_WHOLE |= {"vocab": (1, _MANY)}
# Options that a model to start from decides, and what it has instead.
_OF_THE_MODEL = {"min_count": "symbols", "vocab": "symbols", "unit": "unit"}
_OF_THE_MODEL |= {"lexicon": "way to cut words", "model": "way to cut words"}
_OF_THE_MODEL |= {"vectors": "embeddings"}


@dataclass(frozen=True)
class Recipe:
    """All options of a training; `HELP` explains most, the others are the same in every command."""

    embedding: int | None = None
    hidden: int | None = None
    layers: int | None = None
    dropout: float = 0.2
    batch_size: int = 256
    length: int = 128
    epochs: int = 10
    lr: float = 2e-3
    warmup: float = 0.02
    weight_decay: float = 0.01
    clip: float = 1.0
    min_count: int | None = None
    held_out: float = 0.01
    evaluate: int = 1
    seed: int = 1
    device: str = "cpu"
    threads: int = 0
    checkpoint_minutes: float = 5.0
    start_from: Path | None = None
    vectors: Path | None = None
    unit: str | None = None
    lexicon: Path | None = None
    model: str | None = None
    vocab: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _WHOLE.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                bounds = f"{least} or more, and at most {most}"
                raise InputError(f"{flag(name)} must be {bounds}, not {value}")
        for name in ("weight_decay", "clip", "checkpoint_minutes"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{flag(name)} must be 0 or more, not {getattr(self, name)}")
        if not 0 < self.lr < math.inf:
            raise InputError(f"{flag('lr')} must be more than 0, not {self.lr}")
        for name in ("dropout", "warmup"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise InputError(f"{flag(name)} must be 0 or more and less than 1, not {value}")
        if not 0 < self.held_out < 1:
            bounds = "more than 0 and less than 1"
            raise InputError(f"{flag('held_out')} must be {bounds}, not {self.held_out}")
        if self.unit not in (None, *UNITS):
            raise InputError(f"--unit must be {' or '.join(UNITS)}, not {self.unit!r}")
        if self.lexicon is not None and self.model is not None:
            raise InputError("--lexicon and --model both say how words are cut: give one of them")
        for name, what in _OF_THE_MODEL.items():
            if self.start_from is not None and getattr(self, name) is not None:
                problem = f"does not fit --from, whose model has its own {what}"
                raise InputError(f"{flag(name)} {problem}; leave it out")
        for name in ("lexicon", "model", "vocab"):
            if self.unit != "word" and getattr(self, name) is not None:
                raise InputError(f"{flag(name)} is for --unit word: it has no effect on characters")

    def sizes(self, fixed: Mapping[str, int]) -> dict[str, int]:
        """Return embedding, hidden and layers: fixed by what it starts from, given, or default."""
        given = {name: getattr(self, name) for name in SIZES if getattr(self, name) is not None}
        for name, size in given.items():
            if (width := fixed.get(name, size)) == size:
                continue
            option = flag(name)
            source = f"the model to start from, which has {width}"
            advice = f"leave {option} out"
            if self.vectors is not None:
                source = f"the vectors of {printable_path(self.vectors)}, whose width is {width}"
                advice += f", or train vectors with `pretrain vectors --dim {size}`"
            raise InputError(f"{option} {size} does not fit {source}; {advice}")
        return {**SIZES, **fixed, **given}

    def decisive(self) -> dict[str, Any]:
        """Return the options that decide the result; threads only decide how sums are rounded."""
        chosen = dataclasses.asdict(self)
        del chosen["checkpoint_minutes"], chosen["threads"]
        for name in ("start_from", "vectors", "lexicon", "model"):
            if chosen[name] is not None:
                chosen[name] = printable_path(chosen[name])
        if self.unit == "char":
            chosen["unit"] = None
        if self.start_from is None:
            chosen |= {"min_count": self.least_count, "vocab": self.most}
        return chosen

    @property
    def least_count(self) -> int:
        return MIN_COUNT if self.min_count is None else self.min_count

    @property
    def most(self) -> int | None:
        """Return how many symbols are known at most; None for all that occur often enough."""
        return (self.vocab or MOST_WORDS) if self.unit == "word" else None


def flag(name: str) -> str:
    """Return an option as it is written on a command line."""
    return "--from" if name == "start_from" else "--" + name.replace("_", "-")
