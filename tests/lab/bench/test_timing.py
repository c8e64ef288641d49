"""Medians of repeated calls, on a clock that moves only when work is done, and the peak of their
memory.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.lab.bench import timing
from hanlattice.lab.bench.timing import peak_bytes


class Hands:
    """A clock, and work that takes the next of these times; the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.order = []
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def work(self, name: str, *times: float):
        left = list(times)

        def call() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def test_a_slow_call_is_made_three_times_and_the_first_counts(monkeypatch):
    found = timing.medians({"slow": Hands(monkeypatch).work("slow", 9.0, 2.0, 4.0)}, seconds=0.5)
    assert found == {"slow": timing.Timing(4.0, 3)}


def test_a_quick_call_is_warmed_up_first(monkeypatch):
    hands = Hands(monkeypatch)
    found = timing.medians({"quick": hands.work("quick", 0.4, 0.3, 0.0625)}, seconds=0.5)
    assert found == {"quick": timing.Timing(0.0625, timing.TURNS)}
    assert len(hands.order) == timing.TURNS + 2


def test_contenders_take_turns(monkeypatch):
    hands = Hands(monkeypatch)
    timing.medians({"a": hands.work("a", 0.3), "b": hands.work("b", 0.3)}, seconds=0.5)
    assert hands.order == [*"aabb", *"ab" * timing.TURNS]


@given(pace=st.floats(1e-4, 10), seconds=st.floats(1e-3, 1))
def test_every_figure_has_enough_calls(pace, seconds):
    with pytest.MonkeyPatch.context() as patch:
        found = timing.medians({"it": Hands(patch).work("it", pace)}, seconds)["it"]
    assert found.seconds == pytest.approx(pace)
    if pace < seconds * 0.999:
        assert found.calls >= timing.TURNS
        assert found.calls * pace >= seconds * 0.999
    elif pace > seconds * 1.001:
        assert found.calls == timing.FEW


@pytest.mark.skipif(
    peak_bytes(lambda: None, torch.device("cpu")) is None,
    reason="this system does not count memory",
)
def test_peak_memory_of_a_cpu_is_what_a_call_takes_and_gives_back():
    size = 64 << 20
    for _ in range(2):  # what the first call took does not hide the second
        peak = peak_bytes(lambda: torch.ones(size, dtype=torch.uint8), torch.device("cpu"))
        assert (
            0.95 * size <= peak < 1.5 * size
        )  # the system counts in pages, not all of them at once
