"""The gate: a backend that is off by a little, in a value or in one gradient, stops everything
before the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hanlattice.errors import HanlatticeError
from hanlattice.lab.bench import bench, timing
from hanlattice.lab.bench.equality import largest_difference, relative_difference
from hanlattice.ops import library
from hanlattice.ops.crf import batched as crf_batched
from hanlattice.ops.lattice_lstm import batched
from hanlattice.ops.lattice_lstm import differentiable as native
from tests.lab.bench.small import SMALL

ONE = replace(SMALL, batches=(1,), hidden=(4,))


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    """Timing anything fails the test."""

    def refuse(*_: Any) -> list[float]:
        raise AssertionError("something was timed")

    monkeypatch.setattr(timing, "call_times", refuse)


def off_in_value(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *given: right(*given) + 1e-6


def off_in_gradient(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def wrong(x: Tensor, *given: Any) -> Tensor:
        little = 1e-6 * x.nansum()  # padding holds NaN
        return right(x, *given) + (little - little.detach())

    return wrong


def not_a_number(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *given: right(*given) * torch.nan


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (off_in_value, ": h differs from the reference by"),
        (off_in_gradient, "gradient of x differs"),
        (not_a_number, "by inf"),
    ],
)
def test_a_wrong_lattice_lstm_stops_it(monkeypatch, spoil, says):
    monkeypatch.setattr(batched, "directions", spoil(batched.directions))
    with pytest.raises(
        HanlatticeError, match=r"lattice LSTM, backend .*batched.* in float64"
    ) as error:
        bench(ONE)
    assert says in str(error.value)
    assert "nothing was timed" in str(error.value)


@pytest.mark.skipif(bool(library.missing()), reason=library.missing())
def test_the_backend_behind_auto_is_named(monkeypatch):
    monkeypatch.setattr(native, "directions", off_in_value(native.directions))
    with pytest.raises(
        HanlatticeError, match=r"backend auto \(native\) in float64, B = 5, T = 17, H = 4, coupled"
    ):
        bench(ONE)


@pytest.mark.parametrize(
    ("name", "spoil", "says"),
    [
        ("log_likelihood", off_in_value, "loss"),
        ("log_likelihood", off_in_gradient, "gradient of emissions"),
        (
            "viterbi",
            lambda right: lambda *given: (1 - right(*given)[0], right(*given)[1]),
            "best tagging",
        ),
        (
            "viterbi",
            lambda right: lambda *given: (right(*given)[0], right(*given)[1] + 1e-6),
            "best score",
        ),
    ],
)
def test_a_wrong_crf_stops_it(monkeypatch, name, spoil, says):
    monkeypatch.setattr(crf_batched, name, spoil(getattr(crf_batched, name)))
    with pytest.raises(
        HanlatticeError, match=r"CRF, backend .* in float64, T = 5, 3 tags"
    ) as error:
        bench(ONE)
    assert says in str(error.value)


def test_the_largest_difference_has_its_name():
    right = {"a": torch.tensor([3.0, 4.0]), "b": torch.ones(4)}
    found = {"a": torch.tensor([3.0, 4.5]), "b": torch.ones(4)}
    assert largest_difference(found, right) == ("a", pytest.approx(0.1))
    assert largest_difference(found | {"b": torch.full((4,), torch.nan)}, right) == ("b", torch.inf)


def test_nothing_differs_from_nothing():
    assert relative_difference(torch.zeros(3), torch.zeros(3)) == 0
    assert relative_difference(torch.full((3,), 1e-4), torch.zeros(3)) > 1
