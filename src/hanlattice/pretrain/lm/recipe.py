"""How a language model is trained: every option, its default and what it means. No torch in here: the CLI reads it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanlattice.errors import InputError
from hanlattice.files import shown

SIZES = {"embedding": 512, "hidden": 1024, "layers": 1}  # of a model that starts from nothing
MIN_COUNT = 5  # of its characters
HELP = {
    "embedding": "width of a character's embedding, 512 or that of --vectors if not given",
    "hidden": "H, hidden units of a layer, 1024 if not given",
    "layers": "LSTM layers, 1 if not given",
    "dropout": "share of embeddings and of hidden states that is dropped in training",
    "batch_size": "B, streams of text that are read in parallel",
    "length": "T, characters over which gradients flow back",
    "epochs": "times that the whole text is read",
    "lr": "the highest learning rate",
    "warmup": "share of the steps in which the learning rate rises; then it falls to 0, linearly",
    "weight_decay": "weight decay of the matrices",
    "clip": "largest norm of a gradient; 0 does not clip",
    "min_count": "how often a character must occur to be known, 5 if not given",
    "held_out": "share of the lines, at even steps, that is scored and never trained on",
    "evaluate": "how often held-out text is scored in an epoch",
    "seed": "decides the first weights and the order of the lines",
    "device": "cpu or cuda",
    "threads": "CPU threads; 0 leaves the choice to torch",
    "checkpoint_minutes": "minutes between two saved states for --resume",
    "start_from": "a language model's folder, to begin with its weights and characters",
    "vectors": "a word2vec file, or @name/file, to begin with its vectors as embeddings",
}
RESUME = (
    "Continue the stopped run in --out. "
    "It ends with the same weights, bit for bit, on a CPU with the same number of threads."
)
_MANY = (1 << 31) - 1
_WHOLE = {
    "embedding": (1, 1 << 20), "hidden": (1, 1 << 20), "layers": (1, 1000), "batch_size": (1, _MANY),
    "length": (1, _MANY), "epochs": (1, _MANY), "evaluate": (1, _MANY), "min_count": (1, _MANY),
    "seed": (0, (1 << 63) - 1), "threads": (0, 4096),
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """`HELP` says what each of them means."""

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

    def __post_init__(self) -> None:
        for name, (least, most) in _WHOLE.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InputError(f"{flag(name)} must be {least} or more, and at most {most}, not {value}")
        for name in ("weight_decay", "clip", "checkpoint_minutes"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{flag(name)} must be 0 or more, not {getattr(self, name)}")
        if not 0 < self.lr < math.inf:
            raise InputError(f"{flag('lr')} must be more than 0, not {self.lr}")
        for name in ("dropout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{flag(name)} must be 0 or more and less than 1, not {getattr(self, name)}")
        if not 0 < self.held_out < 1:
            raise InputError(f"{flag('held_out')} must be more than 0 and less than 1, not {self.held_out}")
        if self.start_from is not None and self.min_count is not None:
            raise InputError("--min-count does not fit --from, whose model has its own characters; leave it out")
        if self.start_from is not None and self.vectors is not None:
            raise InputError("--vectors does not fit --from, whose model has its own embeddings; leave one of them out")

    def sizes(self, fixed: Mapping[str, int]) -> dict[str, int]:
        """Embedding, hidden and layers: those fixed by what it starts from, which may be given too, or the defaults."""
        given = {name: getattr(self, name) for name in SIZES if getattr(self, name) is not None}
        for name, size in given.items():
            if (found := fixed.get(name, size)) != size:
                what, other = f"the model to start from, which has {found}", ""
                if self.vectors is not None:
                    what = f"the vectors of {shown(self.vectors)}, whose width is {found}"
                    other = f", or train vectors with `pretrain vectors --dim {size}`"
                raise InputError(f"{flag(name)} {size} does not fit {what}; leave {flag(name)} out{other}")
        return {**SIZES, **fixed, **given}

    def decisive(self) -> dict[str, Any]:
        """The options that decide the result. Threads only decide how sums are rounded."""
        chosen = dataclasses.asdict(self)
        del chosen["checkpoint_minutes"], chosen["threads"], chosen["vectors"]
        if self.vectors is not None:
            chosen["vectors"] = shown(self.vectors)
        if self.start_from is None:
            return chosen | {"min_count": self.least_count}
        return chosen | {"start_from": shown(self.start_from)}

    @property
    def least_count(self) -> int:
        return MIN_COUNT if self.min_count is None else self.min_count


def flag(name: str) -> str:
    """An option as it is written on a command line."""
    return "--from" if name == "start_from" else "--" + name.replace("_", "-")
