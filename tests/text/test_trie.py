"""Matchers: the table, a plain scan and another library find the same words, whatever the words and
the text.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.text.normalize import fold
from hanlattice.text.trie import SHORT, Occurrences, TableMatcher, _unique
from tests.helpers.strategies import any_character

few = st.sampled_from("ab中Ａ１ ")
patterns = st.sampled_from([few, any_character.map(fold)]).flatmap(
    lambda characters: st.lists(
        st.text(characters, min_size=1, max_size=4), min_size=1, max_size=10, unique=True
    )
)


def scan(words: list[str], text: str) -> list[tuple[int, int, int]]:
    """Where each word stands in the text, found by looking at every piece of it."""
    pieces = [(start, end) for start in range(len(text)) for end in range(start + 1, len(text) + 1)]
    return sorted(
        (start, end, at)
        for start, end in pieces
        for at, word in enumerate(words)
        if text[start:end] == word
    )


def walk(table: TableMatcher, text: str) -> Occurrences:
    """Search as in a short text, however long it is."""
    with mock.patch("hanlattice.text.trie.SHORT", len(text)):
        return table.find(text)


def rows(found) -> list[tuple[int, int, int]]:
    """As they come: the order is part of the promise."""
    assert {array.dtype for array in found} == {np.dtype(np.int64)}
    return list(zip(*(array.tolist() for array in found), strict=True))


@given(patterns)
def test_table_equals_scan(words):
    """In a text that is made of the words, so that there is something to find."""
    text = "".join(words + words[::-1] + [word[1:] + word[:1] for word in words])
    expected = scan(words, text)
    assert {at for _, _, at in expected} == set(range(len(words)))
    table = TableMatcher(words)
    assert rows(walk(table, text)) == rows(table._sweep(text)) == expected


@given(patterns, st.text(few, max_size=30))
def test_in_a_text_of_other_characters(words, text):
    table = TableMatcher(words)
    assert rows(walk(table, text)) == rows(table._sweep(text)) == scan(words, text)


@given(
    st.sampled_from([9, 1 << 40, 1 << 62]).flatmap(
        lambda most: st.lists(st.integers(0, most), min_size=1)
    )
)
def test_unique(numbers):
    """Of small numbers and of such as leave no bits for their places."""
    array = np.array(numbers, dtype=np.int64)
    expected = np.unique(array, return_inverse=True)
    assert [each.tolist() for each in _unique(array.copy())] == [each.tolist() for each in expected]


def test_a_large_list_against_another_library():
    daachorse = pytest.importorskip(
        "daachorse", reason="daachorse, the other library, is not installed"
    )
    rng = np.random.default_rng(0)
    words = list(
        dict.fromkeys(
            "".join(map(chr, 0x4E00 + rng.integers(0, 40, rng.integers(1, 6)))) for _ in range(9999)
        )
    )
    text = "".join(map(chr, 0x4E00 + rng.integers(0, 50, 20_000)))
    expected = sorted(daachorse.CharwiseDoubleArrayAhoCorasick(words).find_overlapping(text))
    table = TableMatcher(words)
    assert len(expected) > 20_000
    assert rows(table.find(text)) == expected
    assert rows(walk(table, text)) == expected


@pytest.mark.parametrize("text", ["", "a", "中" * (SHORT + 1)])
def test_no_patterns_nothing_found(text):
    assert rows(TableMatcher([]).find(text)) == []


def test_short_and_long_texts_either_side_of_the_limit():
    table = TableMatcher(["ab", "bab"])
    for length in (SHORT - 1, SHORT, SHORT + 1, SHORT + 2):
        text = ("ab" * SHORT)[:length]
        assert rows(table.find(text)) == scan(["ab", "bab"], text)


def test_patterns_that_share_one_hash_value_are_told_apart():
    """With the whole table in two values, every bucket is long."""
    words = [a + b for a in "abcd" for b in "efgh"]
    table = TableMatcher(words)
    table._shift = 63
    values = table._hash(table._keys)
    order = np.argsort(values, kind="stable")
    table._keys = table._keys[order]
    table._child = table._child[order]
    table._bucket = np.searchsorted(values[order], np.arange(3)).astype(np.int32)
    text = "aebfcgdhaabbee" * 3
    assert rows(walk(table, text)) == rows(table._sweep(text)) == scan(words, text)
