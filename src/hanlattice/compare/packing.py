"""Which devices work, and how many trainings side by side on each. docs/compare.md tells the user the same.

A small training leaves most of a GPU idle: the host prepares it more slowly than the card does it. On one H200 the rate
of whole training steps with H = 100 grows with the batch until about 1,024 sentences of 50 characters (docs/speed.md).
So a training is taken to fill the share of a card that its characters × units in a step are of those.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from hanlattice.config import Config
from hanlattice.data.download import resolve
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.models.decode import BOUNDS
from hanlattice.models.device import find_device
from hanlattice.training.corpora import read_part, without_empty

FULL = 1024 * 50 * 100  # characters × units in a step that fill a card of so many
PROCESSORS = 132  # multiprocessors, which is what an H200 has
ALONE = 0.5  # a training that fills more than this share of a card has it to itself
BYTES = 220  # of one character and unit, forward and backward: 1,034 MiB at 1,024 × 50 × 100
BASE = 1 << 30  # bytes that a process takes on a card before it computes anything
SPARE = 0.9  # of a card's free memory is given away


@dataclass(frozen=True)
class Size:
    """Of a training corpus."""

    sentences: int
    characters: int
    longest: int


@dataclass(frozen=True)
class Amount:
    """What a training needs, and what a device has."""

    cores: float
    card: float = 0.0  # 1 is a whole one
    memory: float = 0.0  # bytes on the card

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cores + other.cores, self.card + other.card, self.memory + other.memory)

    def fits(self, into: Amount) -> bool:
        return self.cores <= into.cores and self.card <= into.card and self.memory <= into.memory


def find_devices(words: str) -> list[str]:
    """`auto` is every CUDA device or, without one, the CPU; else a list such as `cuda:0,cuda:1`."""
    if words.strip() == "auto":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [f"cuda:{at}" for at in range(count)] or ["cpu"]
    names = [word.strip() for word in words.split(",")]
    devices = [_full_name(name) for name in names]
    if len(set(devices)) < len(devices):
        raise InputError(f"--devices {words} names a device twice; --jobs says how many runs are side by side on each")
    return devices


def _full_name(name: str) -> str:
    device = find_device(name)
    return f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu"


def capacity(device: str, devices: Iterable[str], jobs: int = 0) -> Amount:
    """What there is to share among the runs of a device. `jobs` counts runs instead, whatever they need."""
    if jobs:
        return Amount(cores=jobs)
    cores = cores_here() / len(list(devices))
    if device == "cpu":
        return Amount(cores)
    free, _ = torch.cuda.mem_get_info(device)
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return Amount(cores, processors / PROCESSORS, SPARE * free)


def need(config: Config, size: Size | None, device: str, jobs: int = 0) -> Amount:
    """What a run takes of its device's capacity; without `size`, since its corpus cannot be read, as much as any."""
    if jobs:
        return Amount(cores=1)
    threads = config.train.threads or cores_here()
    if device == "cpu" or size is None:
        return Amount(threads)
    units = config.model.hidden * config.model.layers
    step = config.train.batch_size * size.characters / max(1, size.sentences)  # characters, on average
    share = step * units / FULL
    most = max(config.train.batch_size * size.longest, BOUNDS["cuda"][1])  # characters, in a step or when decoding
    tables = sum(map(_bytes, config.vector_files))
    memory = BASE + most * units * BYTES + 2 * tables + (BASE if config.lm.model else 0)
    return Amount(threads, share if share <= ALONE else 1.0, memory)


def _bytes(name: str) -> int:
    try:
        return resolve(name).stat().st_size if name else 0
    except (HanlatticeError, OSError):
        return 0


def cores_here() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Sizes:
    """Of training corpora, each read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Size | None] = {}

    def of(self, config: Config) -> Size | None:
        data = config.data
        key = data.train, data.more, data.format, data.scheme, data.limit
        if key not in self._known:
            self._known[key] = _size(config)
        return self._known[key]


def _size(config: Config) -> Size | None:
    data = config.data
    try:
        train, more = (without_empty(read_part(data, name)) if name else () for name in ("train", data.more and "more"))
    except HanlatticeError:  # the training will say it
        return None
    lengths = [len(sentence) for sentence in (*train[: data.limit or None], *more)]
    return Size(len(lengths), sum(lengths), max(lengths, default=0))


def cost(config: Config, size: Size | None, on_gpu: bool) -> float:
    """How long a run takes beside others, roughly: a CPU goes by characters, a GPU by steps."""
    if size is None:
        return 0.0
    if on_gpu:
        return config.train.epochs * size.sentences / config.train.batch_size
    return float(config.train.epochs * size.characters * config.model.hidden * config.model.layers)
