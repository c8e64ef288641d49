"""What is measured: sizes, device, and how long."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from hanlattice.errors import InputError


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"
    threads: int = 2
    batches: tuple[int, ...] = (1, 16, 32, 128, 1024)
    hidden: tuple[int, ...] = (100, 200)  # training and tagging are measured with the first
    seconds: float = 0.5  # that each figure takes at least
    length: int = 50  # T, characters of a sentence
    dim: int = 64  # D, of characters and of words
    words: int = 50_000  # of the lexicon that tagging uses
    texts: int = 0  # that are tagged at a time; 0 chooses by the device

    def __post_init__(self) -> None:
        least = {"threads": 1, "batches": 1, "hidden": 1, "length": 4, "dim": 1, "words": 4, "texts": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if not values or min(values) < smallest:
                raise InputError(f"{name} must be {smallest} or more, not {', '.join(map(str, values)) or 'nothing'}")
        if not (0 < self.seconds < math.inf):
            raise InputError(f"seconds must be more than 0, not {self.seconds}")

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
