"""Medians of repeated calls, on a clock that moves only when work is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.bench import clock


class Hands:
    """A clock, and work that takes the next of these times; the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.order = 0.0, []
        monkeypatch.setattr(clock.time, "perf_counter", lambda: self.now)

    def work(self, name: str, *times: float):
        left = list(times)

        def call() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def test_a_slow_call_is_made_three_times_and_the_first_counts(monkeypatch):
    found = clock.medians({"slow": Hands(monkeypatch).work("slow", 9.0, 2.0, 4.0)}, seconds=0.5)
    assert found == {"slow": clock.Timing(4.0, 3)}


def test_a_quick_call_is_warmed_up_first(monkeypatch):
    hands = Hands(monkeypatch)
    found = clock.medians({"quick": hands.work("quick", 0.4, 0.3, 0.0625)}, seconds=0.5)
    assert found == {"quick": clock.Timing(0.0625, clock.TURNS)}
    assert len(hands.order) == clock.TURNS + 2


def test_contenders_take_turns(monkeypatch):
    hands = Hands(monkeypatch)
    clock.medians({"a": hands.work("a", 0.3), "b": hands.work("b", 0.3)}, seconds=0.5)
    assert hands.order == [*"aabb", *"ab" * clock.TURNS]


@given(pace=st.floats(1e-4, 10), seconds=st.floats(1e-3, 1))
def test_every_figure_has_enough_calls(pace, seconds):
    with pytest.MonkeyPatch.context() as patch:
        timing = clock.medians({"it": Hands(patch).work("it", pace)}, seconds)["it"]
    assert timing.seconds == pytest.approx(pace)
    if pace < seconds * 0.999:
        assert timing.calls >= clock.TURNS
        assert timing.calls * pace >= seconds * 0.999
    elif pace > seconds * 1.001:
        assert timing.calls == clock.FEW
