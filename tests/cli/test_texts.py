"""Texts shared between threads: each text once, in order, and none waits too long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.cli.texts import share_out, shares
from tests.helpers.patience import PATIENCE

TEXTS = st.lists(st.text("好", max_size=9), max_size=30)


def doubled(texts: list[str]) -> list[str]:
    return [text * 2 for text in texts]


@given(TEXTS, st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_results_in_the_order_of_the_texts(texts, batch_size, threads, ahead):
    numbered = [f"{index}{text}" for index, text in enumerate(texts)]
    assert list(share_out(doubled, iter(numbered), batch_size, threads, ahead)) == doubled(numbered)


@given(TEXTS.filter(bool), st.integers(1, 5))
def test_shares_are_runs_of_about_the_same_size(texts, count):
    result = shares(texts, count)
    assert list(chain.from_iterable(result)) == texts
    assert all(result)
    assert len(result) <= count
    fair = sum(len(text) + 1 for text in texts) / count
    assert all(sum(len(text) + 1 for text in share) <= fair + 2 * 10 for share in result)


def test_what_threads_hold_is_bounded(monkeypatch):
    monkeypatch.setattr("hanlattice.predict.CHUNK", 10)
    held: list[list[str]] = []

    def work(texts: list[str]) -> list[str]:
        held.append(texts)
        return texts

    texts = ["好" * 6, "好" * 4, "好", "", "好", "好", "好" * 30, "好"]
    assert list(share_out(work, texts, 3, 1)) == texts
    assert [len(group) for group in held] == [2, 3, 1, 1, 1]


def test_work_is_done_by_as_many_threads():
    both = threading.Barrier(
        2, timeout=PATIENCE
    )  # passed only if two threads are at work at a time

    def work(texts: list[str]) -> list[str]:
        both.wait()
        return texts

    assert list(share_out(work, ["一", "二", "三", "四"], 2, 2)) == ["一", "二", "三", "四"]


@pytest.mark.parametrize(("ahead", "read"), [(False, 2), (True, 4)])
def test_how_much_is_read_before_the_first_result(ahead, read):
    taken: list[int] = []

    def texts() -> Iterator[str]:
        for index in range(8):
            taken.append(index)
            yield str(index)

    before = set(threading.enumerate())
    results = share_out(doubled, texts(), 2, 2, ahead)
    assert next(results) == "00"
    assert len(taken) == read
    results.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before


def test_an_error_in_a_thread_reaches_the_caller():
    def broken(texts: list[str]) -> list[str]:
        raise RuntimeError("torn off")

    with pytest.raises(RuntimeError, match="torn off"):
        list(share_out(broken, ["一", "二"], 9, 2))
