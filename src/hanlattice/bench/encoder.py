"""The encoder alone, in both directions, beside `torch.nn.LSTM` of the same B, T, D and H."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hanlattice.bench.inputs import Settings, make_examples
from hanlattice.bench.timing import medians, peak_bytes
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.ops.lattice_lstm import runnable
from hanlattice.text.lattice import Lattice

PLAIN = "nn.LSTM"


class Inputs(NamedTuple):
    x: Tensor  # [B, T, D]
    word_x: Tensor  # [W, D]
    lattice: Lattice
    grad: Tensor  # [B, T, 2H]: what comes back from above


class Encoder(NamedTuple):
    backend: str  # its full name
    module: nn.Module
    call: Callable[[], Tensor]
    inputs: list[Tensor]  # what gets a gradient

    def forward(self) -> None:
        with torch.no_grad():
            self.call()

    def both(self, grad: Tensor) -> None:
        torch.autograd.grad(self.call(), self.inputs, grad)


def measure_encoder(settings: Settings, device: torch.device, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for each H, B, direction of work and encoder; `ratio` is to nn.LSTM's time."""
    rows: list[dict[str, Any]] = []
    for hidden in settings.hidden:
        for batch in settings.batches:
            tell(f"encoder, H = {hidden}, B = {batch}")
            given = make_inputs(settings, batch, hidden, device)
            encoders = make_encoders(given, hidden, with_reference=batch == 1 and hidden == settings.hidden[0])
            rows += [{"hidden": hidden, "batch": batch, **row} for row in _cell(encoders, given, settings, device)]
    return rows


def make_inputs(settings: Settings, batch: int, hidden: int, device: torch.device) -> Inputs:
    torch.manual_seed(0)
    B, T, D = batch, settings.length, settings.dim
    lattice = make_examples(settings, B).batch(range(B)).lattice
    x = torch.randn(B, T, D, device=device, requires_grad=True)
    word_x = torch.randn(len(lattice), D, device=device, requires_grad=True)
    return Inputs(x, word_x, lattice, torch.randn(B, T, 2 * hidden, device=device))


def make_encoders(given: Inputs, hidden: int, with_reference: bool) -> dict[str, Encoder]:
    """nn.LSTM, and the lattice LSTM with every backend that can run here; the slow reference only if asked for."""
    x, word_x, lattice, _ = given
    plain = nn.LSTM(x.shape[2], hidden, batch_first=True, bidirectional=True).to(x.device)
    found = {PLAIN: Encoder(PLAIN, plain, lambda: plain(x)[0], [x, *plain.parameters()])}
    for name, full in runnable(x).items():
        if name == "reference" and not with_reference:
            continue
        ours = LatticeLSTM(x.shape[2], word_x.shape[1], hidden, backend=name).to(x.device)
        found[name] = Encoder(full, ours, partial(ours, x, word_x, lattice), [x, word_x, *ours.parameters()])
    return found


def _cell(
    encoders: Mapping[str, Encoder], given: Inputs, settings: Settings, device: torch.device
) -> Iterator[dict[str, Any]]:
    for what, trains in (("forward", False), ("forward + backward", True)):
        for encoder in encoders.values():
            encoder.module.train(trains)
        works = {name: partial(each.both, given.grad) if trains else each.forward for name, each in encoders.items()}
        times = medians(works, settings.seconds, device)
        for name, timing in times.items():
            yield {
                "what": what,
                "encoder": name,
                "backend": encoders[name].backend,
                "seconds": timing.seconds,
                "calls": timing.calls,
                "ratio": timing.seconds / times[PLAIN].seconds,
                "sentences_per_second": len(given.x) / timing.seconds,
                "peak_bytes": peak_bytes(works[name], device) if trains else None,
            }
