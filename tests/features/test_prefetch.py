"""Made ahead: the same items in the same order, never too many, errors in their turn, and no thread
left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.features.prefetch import prefetch


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")}


@given(st.lists(st.integers(), max_size=9), st.integers(0, 4))
def test_it_is_map(items: list[int], depth: int) -> None:
    assert list(prefetch(str, items, depth)) == list(map(str, items))
    assert not threads()


def test_no_more_are_made_than_the_depth_allows():
    made: list[int] = []
    with closing(prefetch(lambda item: made.append(item) or item, range(100), 3)) as items:
        for item in items:
            assert item in made
            assert len(made) <= item + 4
            if item == 50:
                break
    assert not threads()
    assert len(made) <= 54


def test_it_is_made_in_another_thread_unless_the_depth_is_0():
    for depth, same in ((0, True), (1, False)):
        (name,) = prefetch(lambda _: threading.current_thread().name, [0], depth)
        assert (name == threading.current_thread().name) == same


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_comes_in_its_turn(depth, error):
    def make(item: int) -> int:
        if item == 2:
            raise error("the third")
        return item

    found: list[int] = []
    with pytest.raises(error, match="the third"):
        read(prefetch(make, range(5), depth), found.append)
    assert found == [0, 1]
    assert not threads()


def test_a_reader_that_fails_leaves_no_thread():
    def fail(item: str) -> None:
        raise RuntimeError(f"cannot take {item}")

    with pytest.raises(RuntimeError, match="cannot take 0"):
        read(prefetch(str, range(100), 2), fail)
    assert not threads()


def read(items: Generator[Any], take: Callable[[Any], None]) -> None:
    with closing(items):
        for item in items:
            take(item)
