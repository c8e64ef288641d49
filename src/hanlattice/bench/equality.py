"""The gate before the times: every backend gives the reference's numbers, outputs and each gradient by name.

The measure is the norm of the difference over the norm of what is right in float64; the tolerance follows from the
precision alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hanlattice.bench.compared import TOLERANCES, Compared
from hanlattice.bench.equal_crf import compare_crf
from hanlattice.bench.equal_lstm import compare_lstm
from hanlattice.bench.settings import Settings
from hanlattice.errors import HanlatticeError


def check_backends(settings: Settings, device: torch.device, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for each case, with its largest difference; a HanlatticeError if one is too large."""
    tell("equality with the reference")
    return [*_rows("lattice LSTM", compare_lstm(settings, device)), *_rows("CRF", compare_crf(device))]


def _rows(op: str, pairs: Iterable[Compared]) -> Iterator[dict[str, Any]]:
    for pair in pairs:
        worst, difference = pair.worst()
        tolerance = TOLERANCES[pair.precision]
        if not difference <= tolerance:
            raise HanlatticeError(
                f"{op}, backend {pair.backend} in {pair.precision}, {pair.case}: {worst} differs from the reference by "
                f"{difference:.1e}, and {tolerance:.0e} is allowed; nothing was timed"
            )
        row = {"op": op, "case": pair.case, "backend": pair.backend, "precision": pair.precision, "worst": worst}
        yield {**row, "difference": difference, "tolerance": tolerance}
