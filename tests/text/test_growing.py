"""Matchers of a growing list: they find what one table finds, are few, and seldom made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.text import trie
from hanlattice.text.lattice import Ints
from hanlattice.text.trie import RATIO, SMALL, Parts, TableMatcher, extend
from tests.text.test_trie import few, rows

batches = st.lists(
    st.lists(st.text(few, min_size=1, max_size=4), max_size=6), min_size=1, max_size=6
)


def grow(parts: Parts, words: list[str]) -> Parts:
    return extend(parts, len(words), lambda count: words[len(words) - count :])


def find(parts: Parts, text: str) -> tuple[Ints, Ints, Ints]:
    """Return the (start, end, word) that all parts find in one text."""
    return trie.find(parts, text, np.array([len(text)]))[1:]


@given(
    batches, st.lists(st.text(few, max_size=20), max_size=3), st.integers(0, 3), st.integers(1, 3)
)
def test_they_find_what_one_table_finds(given_batches, texts, small, ratio):
    words: list[str] = []
    parts: Parts = ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trie, "SMALL", small)
        patch.setattr(trie, "RATIO", ratio)
        for batch in given_batches:
            words = list(dict.fromkeys([*words, *batch]))
            parts = grow(parts, words)
            assert [0, *(part.end for part in parts)] == [
                *(part.first for part in parts),
                len(words),
            ]
            for text in texts:
                assert rows(find(parts, text)) == rows(TableMatcher(words).find(text))


def test_one_by_one_the_tables_stay_few_and_large_ones_are_seldom_made(monkeypatch):
    made: list[int] = []

    class Counted:
        def __init__(self, words: list[str]) -> None:
            made.append(len(words))

    monkeypatch.setattr(trie, "TableMatcher", Counted)
    words = [str(number) for number in range(50_000)]
    parts = grow((), words)
    for number in range(12_000):
        words.append(f"later {number}")
        parts = grow(parts, words)
        assert len(parts) <= 1 + math.log(len(words) / SMALL, RATIO) + 1
    assert sum(size > SMALL for size in made) < 200  # and not one for each word
    assert sum(size >= 50_000 for size in made) <= 3


def test_many_at_once_join_the_large_table():
    words = [str(number) for number in range(30_000)]
    parts = grow((), words)
    words += [f"dictionary {number}" for number in range(SMALL + 1)]
    assert [(part.first, part.end) for part in grow(parts, words)] == [(0, len(words))]
    few_more = grow(parts, words[: 30_000 + SMALL])
    assert [(part.first, part.end) for part in few_more] == [(0, 30_000), (30_000, 30_000 + SMALL)]


def test_nothing_new_is_nothing_to_make():
    parts = grow((), ["ab"])
    assert grow(parts, ["ab"]) is parts
    assert rows(find(grow((), []), "ab")) == []
