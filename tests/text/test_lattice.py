"""Lattice: every kind of bad word is named, mirroring twice changes nothing, and nobody can change
it afterwards.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Lattice
from tests.helpers.strategies import lattices

NAMES = ("lengths", "sentence", "start", "end", "word")


def words_of(lattice: Lattice) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(lattice, name).tolist() for name in NAMES[1:]), strict=True))


def test_from_words_keeps_the_order_and_allows_twins():
    words = [(1, 0, 2, 9), (0, 3, 7, 12), (0, 3, 7, 12), (0, 0, 7, 0)]
    lattice = Lattice.from_words(lengths=[7, 2, 0], words=iter(words))
    assert words_of(lattice) == words
    assert (len(lattice), lattice.lengths.tolist()) == (4, [7, 2, 0])
    assert {getattr(lattice, name).dtype for name in NAMES} == {np.dtype(np.int64)}


BAD = {
    "sentence too high": ((2, 0, 2, 1), "its sentence is not one of the 2"),
    "sentence negative": ((-1, 0, 2, 1), "its sentence is not one of the 2"),
    "one character": ((0, 1, 2, 1), "a word has two characters or more"),
    "no character": ((0, 1, 1, 1), "a word has two characters or more"),
    "backwards": ((0, 3, 1, 1), "a word has two characters or more"),
    "before the sentence": ((0, -1, 2, 1), "it does not lie inside its sentence"),
    "after the sentence": ((1, 0, 3, 1), "it does not lie inside its sentence"),
    "negative id": ((0, 0, 2, -1), "its id is negative"),
}


@pytest.mark.parametrize(("word", "says"), BAD.values(), ids=BAD.keys())
def test_a_bad_word_is_named(word, says):
    with pytest.raises(ValueError, match=says) as caught:
        Lattice.from_words([4, 2], [(0, 0, 2, 5), word])
    assert f"word 1, (sentence, start, end, id) = {word}: " in str(caught.value)


@pytest.mark.parametrize(
    "words", [[(0, 2, 1)] * 4, [(0, 0, 2, 1, 1)], [(0, 0, 2, 1), (0, 1)], [()]]
)
def test_a_word_is_four_numbers(words):
    with pytest.raises(ValueError, match=r"a word is \(sentence, start, end, id\), not"):
        Lattice.from_words([4], words)


@pytest.mark.parametrize(
    "word", [(0, 0.5, 2, 1), (0, 0, 2.0, 1), (0, 0, 2, float("nan")), (0, "0", 2, 1)]
)
def test_only_whole_numbers(word):
    with pytest.raises(ValueError, match="must be whole numbers"):
        Lattice.from_words([4], [word])
    with pytest.raises(ValueError, match="lengths must be whole numbers"):
        Lattice.from_words([4.5], [])


def test_shapes_and_lengths():
    one = np.zeros(1, np.int64)
    two = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="sentence, start, end and word must be equally long"):
        Lattice(one, two, two, two, one)
    with pytest.raises(ValueError, match="start must have one dimension, not 2"):
        Lattice(one, one, one[None], one, one)
    with pytest.raises(ValueError, match="lengths must have one dimension, not 0"):
        Lattice.from_words(4, [])
    with pytest.raises(ValueError, match="lengths must not be negative: -3"):
        Lattice.from_words([2, -3], [])


def test_nothing_at_all():
    lattice = Lattice.from_words([], [])
    assert (len(lattice), lattice.lengths.tolist()) == (0, [])
    assert lattice.reversed() == lattice
    with pytest.raises(ValueError, match="its sentence is not one of the 0"):
        Lattice.from_words([], [(0, 0, 2, 1)])


@given(lattices())
def test_mirrored_word_by_word_and_twice_is_the_same(lattice):
    mirrored = lattice.reversed()
    lengths = lattice.lengths.tolist()
    assert words_of(mirrored) == [
        (b, lengths[b] - e, lengths[b] - s, w) for b, s, e, w in words_of(lattice)
    ]
    assert mirrored.lengths.tolist() == lengths
    assert mirrored.reversed() == lattice


@given(lattices(), st.data())
def test_equal_if_every_array_is(lattice, data):
    assert lattice == Lattice.from_words(lattice.lengths.tolist(), words_of(lattice))
    longer = Lattice.from_words([*lattice.lengths.tolist(), 3], words_of(lattice))
    assert lattice != longer
    assert lattice != words_of(lattice)
    if len(lattice):
        index = data.draw(st.integers(0, len(lattice) - 1))
        words = words_of(lattice)
        words[index] = (*words[index][:3], words[index][3] + 1)
        assert lattice != Lattice.from_words(lattice.lengths.tolist(), words)


COPIES = (
    copy.copy,
    copy.deepcopy,
    lambda value: pickle.loads(pickle.dumps(value)),
    dataclasses.replace,
)


@pytest.mark.parametrize("copied", COPIES)
@given(lattice=lattices())
def test_copies_are_equal_and_frozen_too(copied, lattice):
    """C follows these numbers unchecked, so nobody may change them afterwards."""
    lattice.cache["kept"] = 1
    again = copied(lattice)
    assert again == lattice
    assert again.cache == {}
    assert not any(getattr(again, name).flags.writeable for name in NAMES)


def test_a_pickled_lattice_is_checked():
    kind, arrays = Lattice.from_words([4], [(0, 0, 2, 7)]).__reduce__()
    with pytest.raises(ValueError, match="does not lie inside"):
        kind(*arrays[:3], arrays[3] + 9, arrays[4])


def test_arrays_are_read_only_and_the_callers_are_left_alone():
    mine = {
        name: np.array(values)
        for name, values in zip(NAMES, ([4], [0], [0], [2], [7]), strict=True)
    }
    lattice = Lattice(**mine)
    for name in NAMES:
        with pytest.raises(ValueError, match="read-only"):
            getattr(lattice, name)[0] = 3
        mine[name][0] = 1
    assert lattice == Lattice.from_words([4], [(0, 0, 2, 7)])
    with pytest.raises(AttributeError):
        lattice.word = mine["word"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(lattice)


@given(lattices())
def test_what_is_kept_with_a_lattice_is_no_part_of_it(lattice):
    again = Lattice(
        *(getattr(lattice, name) for name in ("lengths", "sentence", "start", "end", "word"))
    )
    lattice.cache["cpu"] = lattice.end - 1
    assert again == lattice
    assert repr(again) == repr(lattice)
    assert again.cache == lattice.reversed().cache == {}


@given(lattices())
def test_a_trusted_lattice_is_the_same_value_and_frozen(lattice):
    arrays = [
        getattr(lattice, name).copy() for name in ("lengths", "sentence", "start", "end", "word")
    ]
    trusted = Lattice.trusted(*arrays)
    assert trusted == lattice
    assert trusted.reversed().reversed() == lattice
    assert trusted.end is arrays[3]
    assert not any(array.flags.writeable for array in arrays)
    assert not lattice.reversed().start.flags.writeable


@given(lattices())
def test_without_words_it_has_the_same_sentences_and_is_made_once(lattice: Lattice) -> None:
    bare = lattice.without_words()
    assert bare == Lattice.from_words(lattice.lengths.tolist(), [])
    assert lattice.without_words() is bare
    assert (bare is lattice) == (not len(lattice))
