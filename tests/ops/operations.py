"""Everything that the C code does, called once each: for what watches it while it does
(allocations, threads).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanlattice.lab.bench.equality import SMALL, LSTMCase
from hanlattice.ops import crf
from hanlattice.ops.crf import Arcs, CRFScores, TaggedSpans, differentiable
from hanlattice.predict import load
from tests.ops.test_crf_native import everything, make

TEXT = "王小明在青石镇工作。昨天李芳到白沙市开会"
Values = dict[str, torch.Tensor]


def operations(folder: str | Path) -> dict[str, Callable[[], Values]]:
    """By name: the lattice LSTM with gradients, the CRF, and a lattice model of this folder, also
    in 8 bits.
    """
    case = LSTMCase.draw(SMALL, 5).to("cpu", torch.float32)
    quick, plain = (load(folder, fast=fast) for fast in (True, False))
    return {
        "lattice": lambda: case.values("native"),
        "chain": lambda: everything(differentiable, make(0, 4, 9, 5)),
        "arcs": _arcs,
        "text": lambda: _spans(plain([TEXT] * 3)),
        "readings": lambda: _spans(plain.readings(TEXT, 3)),
        "candidates": lambda: {"count": torch.tensor(len(plain.candidates(TEXT, 5)))},
        "8 bits": lambda: _spans(quick([TEXT] * 3)),
    }


def _arcs() -> Values:
    """The CRF with arcs over some of its characters."""
    rng = np.random.default_rng(5)
    emissions = rng.normal(size=(3, 9, 4))
    lengths = np.array([9, 5, 2])
    scores = CRFScores(rng.normal(size=4), rng.normal(size=(4, 4)), rng.normal(size=4))
    columns = ([0, 0, 1, 2], [0, 2, 1, 0], [4, 5, 3, 2], [0, 1, 2, 3], [3, 2, 1, 0])
    arcs = Arcs(*map(np.array, columns), rng.normal(size=4))
    single = np.array([2])
    spans = TaggedSpans(
        0 * single, single, single + 1, single[:, None], np.zeros((1, 4), dtype=bool)
    )
    found = {
        "best": crf.viterbi(emissions, lengths, scores, arcs=arcs)[1],
        "readings": crf.nbest(emissions, lengths, scores, 3, arcs=arcs)[1],
        "span": crf.span_log_probability(emissions, lengths, scores, spans, arcs=arcs),
        **crf.arc_marginals(emissions, lengths, scores, arcs)._asdict(),
    }
    return {name: torch.from_numpy(value) for name, value in found.items()}


def _spans(documents: list[Any]) -> Values:
    return {
        "spans": torch.tensor([[s.start, s.end, s.score or 0] for d in documents for s in d.spans])
    }


def assert_same(found: Values, right: Values) -> None:
    for name, value in right.items():
        torch.testing.assert_close(found[name], value, equal_nan=True)
