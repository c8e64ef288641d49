"""The words over each character, in pools: against a loop; and that a word then reaches every
character it covers.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from hanlattice import Lattice
from hanlattice.nn.embeddings import WordPools
from hanlattice.nn.lattice_lstm import LatticeLSTM, Stack
from tests.helpers.strategies import lattices

D = 3
E = 4
H = 5
POOLED = 2
COUNTS = [900, 40, 40, 7, 7, 3, 1, 1, 1, 1]  # of the first ten words; a lattice has ids up to 20


def vectors(lattice: Lattice, seed: int) -> Tensor:
    """Of the words, the same for the same id."""
    table = torch.randn(21, E, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return table[torch.tensor(lattice.word)]


def pooled(pools: WordPools, lattice: Lattice, rows: Tensor) -> Tensor:
    found: Tensor = pools(rows, torch.tensor(lattice.word), lattice, int(lattice.lengths.max()))
    return found


def make() -> WordPools:
    torch.manual_seed(0)
    return WordPools(torch.tensor(COUNTS), E, POOLED).double()


def by_hand(pools: WordPools, lattice: Lattice, rows: Tensor) -> Tensor:
    """One word and one character after the other."""
    found = torch.zeros(
        len(lattice.lengths), int(lattice.lengths.max()), POOLED, dtype=torch.float64
    )
    total = torch.zeros(found.shape[:2], dtype=torch.float64)
    maps = torch.split(pools.maps, POOLED, dim=1)
    weights = pools.weights(torch.tensor(lattice.word)).tolist()
    for w, (b, start, end) in enumerate(
        zip(lattice.sentence, lattice.start, lattice.end, strict=True)
    ):
        for at in range(start, end):
            pool = 0 if at == start else 2 if at == end - 1 else 1
            found[b, at] += weights[w] * rows[w] @ maps[pool]
            total[b, at] += weights[w]
    return found / total.clamp(min=1e-9)[..., None]


@given(lattice=lattices(), seed=st.integers(0, 99))
def test_pools_by_hand(lattice: Lattice, seed: int) -> None:
    pools = make()
    rows = vectors(lattice, seed)
    torch.testing.assert_close(
        pooled(pools, lattice, rows), by_hand(pools, lattice, rows), rtol=1e-6, atol=1e-6
    )


def test_a_word_weighs_more_if_training_met_it_more_often_and_a_new_one_as_the_default() -> None:
    pools = make()
    weights = pools.weights(torch.arange(14)).tolist()
    assert weights[:10] == sorted(weights[:10], reverse=True)
    assert weights[0] > weights[1] > weights[3]
    assert weights[10:] == [1.0] * 4
    assert (
        WordPools(torch.tensor([], dtype=torch.int32), E, D).weights(torch.arange(3)).tolist()
        == weights[10:13]
    )


def test_gradients() -> None:
    lattice = Lattice.from_words(
        [5, 0, 2], [(0, 0, 3, 1), (0, 1, 5, 0), (0, 1, 5, 12), (2, 0, 2, 2)]
    )
    pools = make()
    rows = vectors(lattice, 0).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda rows, _: pooled(pools, lattice, rows), (rows, pools.maps)
    )


@pytest.mark.parametrize("lengths", [[3], [0], [2, 0, 1]])
def test_without_words_there_are_zeros(lengths: list[int]) -> None:
    lattice = Lattice.from_words(lengths, [])
    found = pooled(make(), lattice, torch.zeros(0, E, dtype=torch.float64))
    assert found.shape == (len(lengths), max(lengths), POOLED)
    assert not found.any()


# ---- what a further word changes


def with_word(lattice: Lattice, b: int, start: int, end: int, word: int) -> Lattice:
    more = ([b], [start], [end], [word])
    arrays = (lattice.sentence, lattice.start, lattice.end, lattice.word)
    return Lattice(
        lattice.lengths, *(np.concatenate(pair) for pair in zip(arrays, more, strict=True))
    )


def states(lattice: Lattice, seed: int, with_pools: bool, layers: int) -> Tensor:
    """Return the states of an untrained encoder; above layer 1 its words see their characters."""
    pools = make()
    torch.manual_seed(seed)
    dim = D + (POOLED if with_pools else 0)
    rows = vectors(lattice, seed)
    stack = [LatticeLSTM(2 * H if n else dim, E + 2 * H if n else E, H) for n in range(layers)]
    encoder = Stack(stack, whole_words=True).double()
    T = int(lattice.lengths.max())
    x = torch.randn(
        len(lattice.lengths),
        T,
        D,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    if with_pools:
        x = torch.cat([x, pooled(pools, lattice, rows)], dim=2)
    found: Tensor = encoder(x, rows, lattice)
    return found


@pytest.mark.parametrize(("with_pools", "layers"), [(True, 1), (False, 2)])
@given(lattice=lattices(max_length=9), seed=st.integers(0, 99), data=st.data())
def test_a_word_changes_every_character_that_it_covers(
    with_pools: bool, layers: int, lattice: Lattice, seed: int, data: st.DataObject
) -> None:
    """In one lattice layer it changes none between its first and its last.

    A further word changes the shape of a product, and so how some libraries round it: 1e-17 was
    seen.
    """
    b = data.draw(st.integers(0, len(lattice.lengths) - 1))
    length = int(lattice.lengths[b])
    assume(length >= 2)
    start = data.draw(st.integers(0, length - 2))
    end = data.draw(st.integers(start + 2, length))
    more = with_word(lattice, b, start, end, data.draw(st.integers(0, 20)))
    changed = (
        (states(more, seed, with_pools, layers) - states(lattice, seed, with_pools, layers))
        .abs()
        .amax(2)
    )
    assert (changed[b, start:end] > 0).all()
    one = (states(more, seed, False, 1) - states(lattice, seed, False, 1)).abs().amax(2)
    assert (one[b, start + 1 : end - 1] < 1e-14).all()
