"""Everything that the C code does, called once each: for what watches it while it does (allocations, threads)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hanlattice.bench.equality import SMALL, LSTMCase
from hanlattice.ops.crf import differentiable
from hanlattice.predict import load
from tests.ops.test_crf_native import everything, make

TEXT = "王小明在青石镇工作。昨天李芳到白沙市开会"
Values = dict[str, torch.Tensor]


def operations(folder: str | Path) -> dict[str, Callable[[], Values]]:
    """By name: the lattice LSTM with gradients, the CRF, and a lattice model of this folder, also in 8 bits."""
    case = LSTMCase.draw(SMALL, 5).to("cpu", torch.float32)
    quick, plain = (load(folder, fast=fast) for fast in (True, False))
    return {
        "lattice": lambda: case.values("native"),
        "chain": lambda: everything(differentiable, make(0, 4, 9, 5)),
        "text": lambda: _spans(plain([TEXT] * 3)),
        "readings": lambda: _spans(plain.readings(TEXT, 3)),
        "candidates": lambda: {"count": torch.tensor(len(plain.candidates(TEXT, 5)))},
        "8 bits": lambda: _spans(quick([TEXT] * 3)),
    }


def _spans(documents: list[Any]) -> Values:
    return {"spans": torch.tensor([[s.start, s.end, s.score or 0] for d in documents for s in d.spans])}


def assert_same(found: Values, right: Values) -> None:
    for name, value in right.items():
        torch.testing.assert_close(found[name], value, equal_nan=True)
