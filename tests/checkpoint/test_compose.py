"""Vectors of new words: the regression is a least squares solution, part by part."""

from __future__ import annotations

import random
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checkpoint import compose as module
from hanlattice.checkpoint.compose import (
    Bags,
    Composer,
    character_bags,
    find_ends,
    known_ends,
    learn,
    learn_from,
    solve,
)
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold
from tests.helpers.strategies import any_character

DIM = 4
few_words = st.lists(st.text("甲乙丙A", min_size=2, max_size=4), max_size=12)
any_words = st.lists(st.text(any_character.map(fold), min_size=1, max_size=6), max_size=8)


def compose(
    new: list[str], lexicon: Lexicon, table: WordEmbedding, composer: Composer
) -> torch.Tensor:
    return torch.from_numpy(module.compose(new, lexicon, table, composer))


def made_words(count: int, seed: int = 0, characters: int = 30) -> list[str]:
    rng = random.Random(seed)
    alphabet = [chr(0x4E00 + at) for at in range(characters)]
    return sorted(
        {"".join(rng.choices(alphabet, k=rng.choice([2, 2, 3, 4]))) for _ in range(count)}
    )


def table_of(words: list[str], seed: int = 0) -> tuple[Lexicon, WordEmbedding]:
    vectors = torch.randn(len(words), DIM, generator=torch.Generator().manual_seed(seed))
    return Lexicon(words), WordEmbedding.from_vectors(vectors, len(words) // 2)


# ---- the regression


@pytest.mark.parametrize(
    ("rows", "columns", "dense", "ridge"), [(40, 5, 3, 0.5), (3, 6, 1, 2.0), (1, 1, 1, 0.1)]
)
def test_it_is_the_ridge_regression(rows: int, columns: int, dense: int, ridge: float) -> None:
    """Against the normal equations, solved at once."""
    rng = np.random.default_rng(rows)
    counts = rng.integers(0, 4, rows)
    column = rng.integers(0, columns, counts.sum())
    weight = rng.normal(size=counts.sum())
    sparse = np.zeros((rows, columns))
    np.add.at(sparse, (np.repeat(np.arange(rows), counts), column), weight)
    extra_embeddings = rng.normal(size=(rows, dense))
    wanted = rng.normal(size=(rows, 2))
    both = np.concatenate([sparse, extra_embeddings], axis=1)
    expected = np.linalg.solve(both.T @ both + ridge * np.eye(columns + dense), both.T @ wanted)
    bags = Bags(column, weight, np.append(0, np.cumsum(counts)))
    found = solve(bags, columns, extra_embeddings, wanted, ridge)
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-6)


def test_what_is_linear_in_the_characters_is_found_again():
    words = made_words(1500)
    rng = torch.Generator().manual_seed(1)
    rule = torch.randn(3, 30, DIM, generator=rng)

    def vector(word: str) -> torch.Tensor:
        places = [0, *[1] * (len(word) - 2), 2]
        rows = [
            rule[place, ord(character) - 0x4E00]
            for place, character in zip(places, word, strict=True)
        ]
        return torch.stack(rows).sum(0) / len(word) ** 0.5

    held = set(words[::10])
    known = [word for word in words if word not in held]
    vectors, real = (torch.stack([vector(word) for word in some]) for some in (known, sorted(held)))
    lexicon = Lexicon(known)
    table = WordEmbedding.from_vectors(vectors)
    composer = learn(known, vectors.numpy(), known_ends(known, lexicon, table), ridge=0.01)
    torch.testing.assert_close(
        compose(sorted(held), lexicon, table, composer).float(), real, rtol=0.0, atol=0.05
    )
    usual = compose(sorted(held), lexicon, table, learn_from(lexicon, table)).float()
    assert torch.cosine_similarity(usual, real).mean() > 0.98
    assert (
        0.7 < usual.norm(dim=1).mean() / real.norm(dim=1).mean() < 1
    )  # the ridge pulls it to nothing


def test_what_the_word_at_the_end_says_is_found_again():
    """Characters say nothing: each word is one character and then a known word."""
    rng = torch.Generator().manual_seed(2)
    tails = made_words(150, characters=60)
    words = list(
        dict.fromkeys(tails + [chr(0x5E00 + at % 7) + tail for at, tail in enumerate(tails)])
    )
    vectors = torch.randn(len(tails), DIM, generator=rng)
    rows = torch.stack(
        [vectors[tails.index(word) if word in tails else tails.index(word[1:])] for word in words]
    )
    lexicon = Lexicon(words)
    table = WordEmbedding.from_vectors(rows)
    new = [chr(0x5E00) + tail for tail in tails if chr(0x5E00) + tail not in words]
    made = compose(new, lexicon, table, learn_from(lexicon, table)).float()
    real = vectors[[tails.index(word[1:]) for word in new]]
    assert torch.cosine_similarity(made, real).mean() > 0.8
    without = learn_from(lexicon, table)(new, np.zeros((len(new), 2 * DIM + 3), dtype=np.float32))
    assert torch.cosine_similarity(torch.from_numpy(without), real).mean() < 0.8


# ---- its parts, against loops


@given(any_words)
def test_characters_by_place(words: list[str]) -> None:
    row_of = np.arange(sys.maxunicode + 1)
    bags = character_bags(words, row_of, 1 << 21)
    column = iter(bags.column.tolist())
    weight = iter(bags.weight.tolist())
    for word, low, high in zip(words, bags.first.tolist(), bags.first.tolist()[1:], strict=False):
        assert high - low == len(word)
        for at, character in enumerate(word):
            place = 0 if at == 0 else 2 if at == len(word) - 1 else 1
            assert next(column) == ord(character) + (place << 21)
            assert next(weight) == pytest.approx(len(word) ** -0.5)
    assert not [*column, *weight]


@given(known=few_words, later=few_words, gone=few_words, words=few_words)
def test_the_longest_known_words_at_both_ends(
    known: list[str], later: list[str], gone: list[str], words: list[str]
) -> None:
    lexicon = Lexicon(known)
    count = len(lexicon.words)
    lexicon.update(later)
    for word in gone:
        lexicon.remove(word)
    there = {word for word in lexicon.folded()[:count] if word in lexicon}

    def longest(pieces: list[str]) -> int:
        found = [piece for piece in pieces if piece in there]
        at = lexicon.id(max(found, key=len)) if found else None
        return -1 if at is None else at

    prefix, suffix = find_ends(words, lexicon, count)
    assert prefix.tolist() == [longest([word[:at] for at in range(len(word))]) for word in words]
    assert suffix.tolist() == [longest([word[at:] for at in range(1, len(word))]) for word in words]


def test_what_is_known_of_the_ends():
    lexicon, table = table_of(["甲乙", "乙丙", "丁戊"])
    rows = table.rows(torch.arange(3)).detach()
    found = torch.from_numpy(known_ends(["甲乙丙", "丁戊", "己庚", "丁戊己"], lexicon, table))
    assert found.shape == (4, 2 * DIM + 3)
    one = torch.ones(1)
    zeros = torch.zeros(DIM + 1)
    assert torch.equal(found[0], torch.cat([one, rows[0], one, rows[1], one]))
    assert torch.equal(found[1], torch.cat([one, zeros, zeros]))  # a word is not the end of itself
    assert torch.equal(found[2], found[1])
    assert torch.equal(found[3], torch.cat([one, rows[2], one, zeros]))


# ---- keeping it


def test_what_is_kept_composes_the_same():
    words = made_words(400)
    lexicon, table = table_of(words)
    composer = learn_from(lexicon, table)
    new = ["一七", "龠龠", "A\0", *made_words(50, seed=9)]
    tensors = composer.tensors()
    again = Composer.from_tensors({name: tensor.copy() for name, tensor in tensors.items()})
    assert composer.dim == again.dim == DIM
    assert torch.equal(compose(new, lexicon, table, composer), compose(new, lexicon, table, again))
    assert all(tensor.flags.c_contiguous for tensor in tensors.values())
    exact = [tensor.nbytes for name, tensor in tensors.items() if name != "table"]
    assert tensors["table"].size == 3 * 31 * DIM  # a byte each
    assert sum(exact) < 3 * 31 * 4 + 30 * 4 + (2 * DIM + 3) * DIM * 4 + 1


def test_a_character_of_just_enough_words_has_rows_of_its_own():
    words = [f"甲{end}" for end in "子丑寅卯辰"] + [f"乙{end}" for end in "子丑寅卯"]
    ends = np.ones((len(words), 1), dtype=np.float32)
    composer = learn(words, np.eye(len(words), DIM, dtype=np.float32), ends, least=5)
    assert "".join(map(chr, composer.characters.tolist())) == "甲"


def test_rare_characters_share_what_is_known_of_rare_ones():
    words = [*made_words(400), "龠龥", "龢龣"]
    lexicon, table = table_of(words)
    composer = learn_from(lexicon, table)
    assert "龠" not in "".join(map(chr, composer.characters.tolist()))
    assert (np.diff(composer.characters) > 0).all()
    made = compose(["龠龥龢", "𠀀𠀁𠀂"], lexicon, table, composer)
    ends = known_ends(["龠龥龢"], lexicon, table)
    assert ends[0, 1:].any()
    assert not torch.equal(made[0], made[1])  # one begins with a known word
    assert np.array_equal(composer(["龠龢龣"], ends * 0), composer(["𠀀𠀁𠀂"], ends * 0))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"table": None}, "lack 'table'"),
        ({"table": np.zeros((4, DIM), dtype=np.int8)}, "do not fit"),
        ({"table": np.zeros(3, dtype=np.int8)}, "do not fit"),
        ({"mixing": np.zeros((3, DIM))}, "do not fit"),
        ({"scale": np.zeros(5)}, "do not fit"),
        ({"characters": np.array([0.5])}, "do not fit"),
        ({"characters": np.full(30, -5, dtype=np.int32)}, "a character that there is not"),
        ({"characters": np.full(30, 0x110000, dtype=np.int32)}, "a character that there is not"),
    ],
)
def test_tables_that_are_none_are_refused(change: dict[str, np.ndarray | None], says: str) -> None:
    lexicon, table = table_of(made_words(400))
    tensors = {**learn_from(lexicon, table).tensors(), **change}
    with pytest.raises(ValueError, match=says):
        Composer.from_tensors(
            {name: tensor for name, tensor in tensors.items() if tensor is not None}
        )


# ---- odd sizes


def test_from_nothing_comes_nothing():
    lexicon = Lexicon()
    table = WordEmbedding.from_vectors(torch.zeros(0, DIM))
    composer = learn_from(lexicon, table)
    assert not compose(["甲乙"], lexicon, table, composer).any()
    lexicon, table = table_of(["甲乙"])
    assert compose(["甲乙丙"], lexicon, table, learn_from(lexicon, table)).isfinite().all()


def test_in_parts_or_at_once(monkeypatch):
    lexicon, table = table_of(made_words(200))
    composer = learn_from(lexicon, table)
    new = made_words(50, seed=3)
    whole = compose(new, lexicon, table, composer)
    monkeypatch.setattr(module, "AT_ONCE", 7)
    torch.testing.assert_close(compose(new, lexicon, table, composer), whole)
    assert whole.dtype == torch.half


def test_vectors_that_half_precision_cannot_hold_stay():
    words = made_words(200)
    vectors = torch.full((len(words), DIM), 1e8)
    lexicon = Lexicon(words)
    table = WordEmbedding.from_vectors(vectors)
    made = compose(
        ["一七"], lexicon, table, learn(words, vectors.numpy(), known_ends(words, lexicon, table))
    )
    assert made.dtype == torch.float32
    assert (made > 1e7).all()
    table.append(torch.ones(1, DIM).half())
    table.append(made)
    assert torch.equal(table.rows(torch.tensor([len(words) + 1])), made)


def test_words_inside_words_cost_no_more_memory_than_others():
    """Each word begins and ends the next one, so n of them have n³ / 6 places in each other."""
    words = ["甲" * size for size in range(2, 202)]
    lexicon = Lexicon(words)
    lexicon.match(words[0])  # makes the matcher, which is not what is measured
    tracemalloc.start()
    prefix, suffix = find_ends(words, lexicon, len(words))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert prefix.tolist() == suffix.tolist() == [-1, *range(len(words) - 1)]
    assert peak < 500 * sum(map(len, words))  # bytes; with all places at once several thousand


@given(words=few_words, known=few_words, most=st.integers(1, 9))
def test_the_ends_of_words_that_are_looked_for_in_parts(
    words: list[str], known: list[str], most: int
) -> None:
    lexicon = Lexicon(known)
    at_once = find_ends(words, lexicon, len(known))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hanlattice.checkpoint.compose.AT_ONCE", most)
        in_parts = find_ends(words, lexicon, len(known))
    assert [each.tolist() for each in in_parts] == [each.tolist() for each in at_once]
