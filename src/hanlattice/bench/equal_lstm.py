"""The lattice LSTM by every backend: against the reference on a few sentences, against `batched` on many.

With many the reference would take too long; `batched` in float64 stands for it, once it has equalled it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from hanlattice.bench.backends import runnable
from hanlattice.bench.compared import Compared
from hanlattice.bench.made import make_examples
from hanlattice.bench.settings import Settings
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional
from hanlattice.ops.lattice_lstm.weights import gate_count
from hanlattice.text.lattice import Lattice

D, E = 24, 20
LARGEST = {"cpu": 33, "cuda": 1024}  # sentences: float64 takes long on a CPU

# Words side by side, overlapping, twice on one span, over the whole sentence; one character; no words.
SMALL = Lattice.from_words(
    (17, 9, 1, 5, 12),
    [(0, at, at + 2 + at % 3, 0) for at in range(13)]
    + [(0, 0, 17, 1), (0, 3, 5, 2), (0, 3, 5, 3), (0, 15, 17, 4)]
    + [(1, 0, 9, 1), (1, 7, 9, 2), (1, 0, 2, 5), (4, 10, 12, 6), (4, 2, 12, 7), (4, 2, 4, 8)],
)


class Case(NamedTuple):
    lattice: Lattice
    hidden: int
    coupled: bool

    def __str__(self) -> str:
        coupled = "coupled" if self.coupled else "not coupled"
        return f"B = {len(self.lattice.lengths)}, T = {self.lattice.lengths.max()}, H = {self.hidden}, {coupled}"


def compare_lstm(settings: Settings, device: torch.device) -> Iterator[Compared]:
    largest = min(max(settings.batches), LARGEST[device.type])
    usual = make_examples(settings, largest).batch(range(largest)).lattice
    for hidden in settings.hidden:
        for coupled in (True, False):
            yield from _compare(Case(SMALL, hidden, coupled), "reference", torch.device("cpu"), device)
        yield from _compare(Case(usual, hidden, True), "batched", device, device)


def _compare(case: Case, trusted: str, there: torch.device, device: torch.device) -> Iterator[Compared]:
    right = results(case, trusted, there, torch.float64)
    for dtype, plain in ((torch.float64, "float64"), (torch.float32, "fp32")):
        for name, full in runnable(torch.empty(0, dtype=dtype, device=device)).items():
            if name == "reference" or (name == trusted and dtype == torch.float64):
                continue
            label = name if name == full else f"{name} ({full})"
            precision = full.partition("-")[2] or plain
            yield Compared(str(case), label, precision, results(case, name, device, dtype), right)


def results(case: Case, backend: str, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Both directions' output and the gradients, by name, of a sum in which every output has its own weight."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        return drawn.to(device, dtype)

    lattice, H, G = case.lattice, case.hidden, gate_count(case.coupled)
    B, T = len(lattice.lengths), int(lattice.lengths.max())
    shapes = ((D, G * H), (H, G * H), (G * H,), (E, 3 * H), (H, 3 * H), (3 * H,), (D, H), (H, H), (H,))
    x, word_x, grad = draw(B, T, D), draw(len(lattice), E), draw(B, T, 2 * H)
    ahead, back = (LatticeLSTMWeights(*(draw(*shape, scale=H**-0.5) for shape in shapes)) for _ in range(2))
    given = [tensor.requires_grad_() for tensor in (x, word_x, *ahead, *back)]
    h = bidirectional(x, word_x, lattice, ahead, back, case.coupled, backend)
    fields = [f"{way} {name}" for way in ("forward", "backward") for name in LatticeLSTMWeights._fields]
    names = [f"gradient of {name}" for name in ("x", "word_x", *fields)]
    return {"h": h, **dict(zip(names, torch.autograd.grad(h, given, grad), strict=True))}
