"""Segments: words that do not cover their sentences exactly are named, and nobody can change them
afterwards.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.text.lattice import Segments, cells
from tests.helpers.segmented import segmentations, segments_of, words_of

NAMES = ("lengths", "counts", "start", "end", "word")


def make(**changes: Any) -> Segments:
    """Three sentences, the second of nothing; `changes` puts one array in another's place."""
    arrays = {
        "lengths": [3, 0, 2],
        "counts": [2, 0, 1],
        "start": [0, 1, 0],
        "end": [1, 3, 2],
        "word": [7, 0, 7],
    }
    return Segments(**(arrays | changes))


def test_words_stand_in_their_sentences() -> None:
    segments = make()
    assert len(segments) == 3
    assert segments.sentence.tolist() == [0, 0, 2]
    assert segments.first.tolist() == [0, 2, 2]
    assert {getattr(segments, name).dtype for name in (*NAMES, "sentence", "first")} == {
        np.dtype(np.int64)
    }


def test_no_words_and_no_sentences() -> None:
    nothing = Segments([0, 0], [0, 0], [], [], [])  # type: ignore[arg-type]
    assert (len(nothing), nothing.sentence.tolist(), nothing.first.tolist()) == (0, [], [0, 0])
    assert len(Segments([], [], [], [], [])) == 0  # type: ignore[arg-type]


BAD = {
    "a gap": (
        {"start": [0, 2, 0]},
        r"word 1, .* = \(0, 2, 3, 0\): it does not begin where the one before it ends",
    ),
    "an overlap": ({"end": [2, 3, 2]}, r"word 1, .* = \(0, 1, 3, 0\): it does not begin where"),
    "late": ({"start": [0, 1, 1]}, r"word 2, .* = \(2, 1, 2, 7\): it does not begin where"),
    "early": ({"start": [-1, 1, 0]}, r"word 0, .* = \(0, -1, 1, 7\): it does not begin where"),
    "no character": (
        {"end": [0, 3, 2]},
        r"word 0, .* = \(0, 0, 0, 7\): a word has one character or more",
    ),
    "backwards": (
        {"end": [1, 0, 2]},
        r"word 1, .* = \(0, 1, 0, 0\): a word has one character or more",
    ),
    "negative id": ({"word": [7, -1, 7]}, r"word 1, .*: its id is negative"),
    "too short": ({"lengths": [4, 0, 2]}, "sentence 0 has 4 characters, but its words cover 3"),
    "too long": ({"lengths": [3, 0, 1]}, "sentence 2 has 1 characters, but its words cover 2"),
    "no words": ({"lengths": [3, 1, 2]}, "sentence 1 has 1 characters, but its words cover 0"),
    "too few": ({"counts": [2, 0, 0]}, "counts add up to 2 words, but there are 3"),
    "too many": ({"counts": [2, 1, 1]}, "counts add up to 4 words, but there are 3"),
    "negative count": ({"counts": [3, -1, 1]}, "counts must not be negative: -1"),
    "negative length": ({"lengths": [3, -2, 2]}, "lengths must not be negative: -2"),
    "unequal": ({"start": [0, 1]}, "and so must start, end and word"),
    "unequal sentences": ({"counts": [2, 1]}, "lengths and counts must be equally long"),
    "not whole": ({"end": [1.5, 3, 2]}, "end must be whole numbers, not float64"),
    "a table": ({"word": [[7, 0, 7]]}, "word must have one dimension, not 2"),
}


@pytest.mark.parametrize(("changes", "says"), BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make(**changes)


@given(st.lists(st.integers(0, 3), max_size=3), st.lists(st.integers(-1, 3), max_size=3), st.data())
def test_it_is_made_exactly_if_words_cover_their_sentences(
    lengths: list[int], counts: list[int], data: st.DataObject
) -> None:
    W = data.draw(st.integers(0, 4))
    start, end = (data.draw(st.lists(st.integers(-1, 4), min_size=W, max_size=W)) for _ in range(2))
    try:
        Segments(lengths, counts, start, end, range(W))  # type: ignore[arg-type]
        built = True
    except ValueError:
        built = False
    assert built == covers(lengths, counts, start, end)


def covers(lengths: list[int], counts: list[int], start: list[int], end: list[int]) -> bool:
    """The same question, sentence by sentence: do the words' characters, one after the other, count
    it through?
    """
    if len(lengths) != len(counts) or min(counts, default=0) < 0 or sum(counts) != len(start):
        return False
    first = 0
    for length, count in zip(lengths, counts, strict=True):
        words = list(zip(start[first : first + count], end[first : first + count], strict=True))
        if any(s >= e for s, e in words) or [t for s, e in words for t in range(s, e)] != list(
            range(length)
        ):
            return False
        first += count
    return True


@given(segmentations())
def test_sentence_is_that_of_counting(segments: Segments) -> None:
    expected = list(words_of(segments))
    assert (
        list(
            zip(
                segments.sentence.tolist(),
                segments.start.tolist(),
                segments.end.tolist(),
                strict=True,
            )
        )
        == expected
    )


@given(segmentations(), st.data())
def test_equal_if_every_array_is(segments: Segments, data: st.DataObject) -> None:
    arrays = {name: getattr(segments, name).copy() for name in NAMES}
    assert segments == Segments(**arrays)
    assert segments != segments_of([*([1] * n for n in segments.lengths.tolist()), [2]])
    assert segments != tuple(arrays.values())
    if len(segments):
        arrays["word"][data.draw(st.integers(0, len(segments) - 1))] += 1
        assert segments != Segments(**arrays)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_copies_are_equal_and_frozen_too(copied: Callable[[Segments], Segments]) -> None:
    segments = Segments(*map(np.array, ([3], [2], [0, 1], [1, 3], [5, 6])))
    again = copied(segments)
    assert again == segments
    assert not again.start.flags.writeable


def test_arrays_are_read_only_and_the_callers_are_left_alone() -> None:
    mine = {
        name: np.array(values)
        for name, values in zip(NAMES, ([2], [1], [0], [2], [7]), strict=True)
    }
    segments = Segments(**mine)
    for name in (*NAMES, "sentence", "first"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(segments, name)[0] = 3
    for name in NAMES:
        mine[name][0] = 5
    assert segments == Segments([2], [1], [0], [2], [7])  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        segments.word = mine["word"]  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(segments)


@given(segmentations())
def test_trusted_segments_are_the_same_value_and_frozen(segments: Segments) -> None:
    arrays = [getattr(segments, name).copy() for name in NAMES]
    trusted = Segments.trusted(*arrays)
    assert trusted == segments
    assert trusted.sentence.tolist() == segments.sentence.tolist()
    assert trusted.end is arrays[3]
    assert not any(array.flags.writeable for array in arrays)
    segments.cache["cpu"] = segments.end - 1
    assert trusted == segments
    assert repr(trusted) == repr(segments)
    assert trusted.cache == {}


@given(st.lists(st.integers(0, 4), max_size=5))
def test_cells_count_through_rows(lengths: list[int]) -> None:
    row, column = cells(np.array(lengths, dtype=np.int64))
    expected = [(r, c) for r, length in enumerate(lengths) for c in range(length)]
    assert list(zip(row.tolist(), column.tolist(), strict=True)) == expected
