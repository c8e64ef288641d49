"""Batches of similar length: every sentence once, an order that the seed fixes, sizes within their
bounds.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.features.buckets import POOL, decoding_batches, training_batches

lengths = st.lists(st.integers(1, 60), max_size=200)


@given(lengths, st.integers(1, 9), st.integers(0, 2**63 - 1), st.integers(0, 5))
def test_training_takes_every_sentence_once(
    sizes: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    batches = training_batches(sizes, batch_size, seed, epoch)
    assert sorted(at for batch in batches for at in batch.tolist()) == list(range(len(sizes)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert len(batches) == sum(
        -(-min(batch_size * POOL, len(sizes) - low) // batch_size)
        for low in range(0, len(sizes), batch_size * POOL)
    )
    again = training_batches(sizes, batch_size, seed, epoch)
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in again]


def test_seed_and_epoch_each_change_the_order():
    sizes = [5] * 100
    orders = [
        np.concatenate(training_batches(sizes, 8, *which)).tolist()
        for which in ((1, 0), (1, 1), (2, 0))
    ]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_sentences_of_a_batch_are_about_equally_long():
    sizes = np.random.default_rng(0).integers(1, 100, 4000).tolist()
    batches = training_batches(sizes, 8, 1, 0)
    wasted = sum(
        max(sizes[at] for at in batch) * len(batch) - sum(sizes[at] for at in batch)
        for batch in batches
    )
    assert wasted < 0.05 * sum(sizes)


def test_short_batches_do_not_come_first():
    sizes = list(range(1, 401))
    means = [np.mean([sizes[at] for at in batch]) for batch in training_batches(sizes, 8, 1, 0)]
    assert means != sorted(means)


@given(st.lists(st.integers(0, 60), max_size=100), st.integers(1, 9), st.integers(1, 200))
def test_decoding_takes_every_sentence_once_within_bounds(
    sizes: list[int], batch_size: int, characters: int
) -> None:
    batches = list(decoding_batches(sizes, batch_size, characters))
    assert sorted(at for batch in batches for at in batch) == list(range(len(sizes)))
    for batch in batches:
        longest = max(sizes[at] for at in batch)
        assert len(batch) <= batch_size
        assert len(batch) == 1 or longest * len(batch) <= characters
        assert longest == sizes[batch[0]]


@given(st.data(), st.lists(st.integers(0, 60), max_size=100))
def test_weights_of_a_batch_stay_within_one(data: st.DataObject, sizes: list[int]) -> None:
    """Only a sentence that is heavier by itself passes the bound, and it is alone then."""
    weights = [data.draw(st.floats(0, 1.5)) for _ in sizes]
    batches = list(decoding_batches(sizes, 9, 200, weights))
    assert sorted(at for batch in batches for at in batch) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or sum(weights[at] for at in batch) <= 1 + 1e-9


def test_without_weight_the_batches_are_those_of_the_lengths() -> None:
    sizes = np.random.default_rng(3).integers(0, 60, 50).tolist()
    assert list(decoding_batches(sizes, 8, 200, [0.0] * 50)) == list(
        decoding_batches(sizes, 8, 200)
    )
