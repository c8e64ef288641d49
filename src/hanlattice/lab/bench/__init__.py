"""What the lattice costs: equality first, then times, as ratios in one process.

`measure` yields a record after each section, `bench` returns the last one: a dict that JSON can
hold.

- checks: every backend against `reference`. If one differs, nothing is timed.
- encoder: forward, and forward + backward, beside `torch.nn.LSTM` of the same sizes. A lattice's
  index arrays are made once, like x.
- training: whole steps, each with a new batch; the character LSTM has the same CRF.
- tagging: raw text to spans, with made words and random weights.
- lengths: the last two for sentences of each length.
- models: the same two for lattices with pools, layers, whole words, beside the plain lattice.

The character LSTM is the package's own, which packs its sentences. On a CPU that is slower than the
padded `nn.LSTM` of the encoder's table, most of all where lengths differ: a ratio below 1 there is
not a gain of the lattice.

Absolute times depend on the machine and the moment; compare figures of one run only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from hanlattice.errors import InputError
from hanlattice.inference.device import find_device, use_threads
from hanlattice.lab.bench.equality import check_backends
from hanlattice.lab.bench.inputs import BenchSettings
from hanlattice.lab.bench.sections import (
    measure_encoder,
    measure_lengths,
    measure_models,
    measure_tagging,
    measure_training,
)
from hanlattice.lab.bench.timing import machine, versions

__all__ = ["SECTIONS", "BenchSettings", "bench", "measure"]

Record = dict[str, Any]
SECTIONS = {
    "checks": check_backends,
    "encoder": measure_encoder,
    "training": measure_training,
    "tagging": measure_tagging,
    "lengths": measure_lengths,
    "models": measure_models,
}


def measure(
    settings: BenchSettings, tell: Callable[[str], None] = lambda _: None, only: str = ""
) -> Iterator[tuple[str, Record]]:
    """Yield (section, the record so far) after each section, or after the checks and `only` one.

    `tell` is called with what is being measured.
    """
    first, *others = SECTIONS
    if only and only not in others:
        raise InputError(f"no section is called {only!r}: expected {', '.join(others)}")
    device = find_device(settings.device)
    use_threads(settings.threads)
    record: Record = {"settings": settings.as_dict(), "versions": versions()}
    record["machine"] = machine(device)
    for name in (first, only) if only else SECTIONS:
        record = {**record, name: SECTIONS[name](settings, device, tell)}
        yield name, record


def bench(settings: BenchSettings) -> Record:
    """Measure all sections and return the record."""
    return deque(measure(settings), maxlen=1)[0][1]
