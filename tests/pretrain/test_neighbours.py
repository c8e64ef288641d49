"""Neighbours against gensim and against a plain loop; words that are not there."""

from __future__ import annotations

import gensim
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from hanlattice.errors import InputError
from hanlattice.pretrain.neighbours import Neighbours
from hanlattice.text.vectors import Vectors

WORDS = ("长江", "长江大桥", "大桥", "江", "北京", "南京", "0", "AB", "abc")


def vectors(words=WORDS, width: int = 4) -> Vectors:
    return Vectors(tuple(words), np.random.default_rng(1).normal(size=(len(words), width)).astype(np.float32))


def test_the_same_as_gensim():
    made = vectors()
    theirs = gensim.models.KeyedVectors(made.width)
    theirs.add_vectors(list(made.words), made.matrix)
    for word in made.words:
        mine = Neighbours(made)(word, 5)
        expected = theirs.most_similar(word, topn=5)
        assert [row.word for row in mine] == [other for other, _ in expected]
        np.testing.assert_allclose([row.cosine for row in mine], [cosine for _, cosine in expected], atol=1e-6)


@given(
    matrix=st_np.arrays(
        np.float32, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=st.sampled_from([-1, 0, 2])
    ),
    count=st.integers(1, 12),
)
def test_the_same_as_a_plain_loop(matrix, count):
    """Equal cosines and zero vectors too: of equal ones the first in the file comes first."""
    words = tuple(WORDS[: len(matrix)])
    rows = []
    for word, row in zip(words[1:], matrix[1:], strict=True):
        norm = np.sqrt((row @ row) * (matrix[0] @ matrix[0]))
        rows.append((word, float(row @ matrix[0] / norm) if norm else 0.0))
    rows.sort(key=lambda pair: -round(pair[1], 5))
    found = Neighbours(Vectors(words, matrix))(words[0], count)
    np.testing.assert_allclose([row.cosine for row in found], [cosine for _, cosine in rows[:count]], atol=1e-6)
    assert [row.word for row in found] == [word for word, _ in rows[:count]]


@pytest.mark.parametrize("count", [1, 2, 7, 29, 30, 31, 58, 59, 99])
def test_of_equal_ones_the_first_in_the_file_come_first(count):
    """Wherever the cut falls among them."""
    words = [f"词{at}" for at in range(60)]
    matrix = np.array([[1, 0, 0]] + [[1, 1, at % 2] for at in range(59)], np.float32) * np.arange(1, 61)[:, None]
    expected = [word for at, word in enumerate(words[1:]) if at % 2 == 0] + [
        word for at, word in enumerate(words[1:]) if at % 2
    ]
    found = Neighbours(Vectors(tuple(words), matrix.astype(np.float32)))(words[0], count)
    assert [row.word for row in found] == expected[:count]


@pytest.mark.parametrize("size", [1e-40, 1e-30, 3e38])
def test_very_large_and_very_small_values(size):
    """Without a warning, which would be an error here."""
    matrix = np.array([[size, size], [size, size], [size, -size], [1, 0]], np.float32)
    found = Neighbours(Vectors(("甲", "乙", "丙", "丁"), matrix))("甲")
    assert [(row.word, row.cosine) for row in found] == [("乙", 1), ("丁", pytest.approx(0.5**0.5)), ("丙", 0)]


def test_a_word_is_found_as_the_tagger_sees_it():
    near = Neighbours(vectors())
    assert near("ＡＢ") == near("AB")
    assert near("７") == near("0")


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("桥", "near it are 长江大桥, 大桥"),
        ("长江大桥上", "near it are 长江大桥, 大桥, 长江, 江"),
        ("南X京", "near it are 南京"),
        ("水", "nothing in the file resembles it"),
        ("", "nothing in the file resembles it"),
    ],
)
def test_a_word_that_is_not_there(word, advice):
    with pytest.raises(InputError, match=f"there is no vector of '{word}'; {advice}"):
        Neighbours(vectors())(word)


def test_a_word_in_a_file_of_characters():
    with pytest.raises(InputError, match="'长江': the file has single characters"):
        Neighbours(vectors("长江"))("长江")
