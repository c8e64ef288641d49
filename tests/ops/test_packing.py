"""Index arrays of packed sequences: against torch's own packing, and against counting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

from hanlattice import Lattice
from hanlattice.ops import packing
from hanlattice.ops.packing import (
    bounded,
    characters,
    joined,
    packed_order,
    prepare,
    spelled,
    words,
)
from hanlattice.text.lattice import Segments
from tests.helpers.segmented import segmentations, segments_of, words_of

CPU = torch.device("cpu")


@given(st.lists(st.integers(1, 6), min_size=1, max_size=7), st.integers(0, 2))
def test_the_order_is_that_of_torch(lengths: list[int], empty: int) -> None:
    first = np.cumsum(lengths) - lengths
    rows = [torch.arange(n) + f for n, f in zip(lengths, first.tolist(), strict=True)]
    expected = pack_sequence(rows, enforce_sorted=False)
    order = packed_order(np.array([*lengths, *[0] * empty]))
    assert order.sizes.tolist() == expected.batch_sizes.tolist()
    assert order.rank[: len(lengths)].tolist() == expected.unsorted_indices.tolist()
    assert packing.inverse(order.place).tolist() == expected.data.tolist()


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(0, 2))
def test_characters_come_from_and_go_to_their_cells(lengths: list[int], extra: int) -> None:
    T = max(lengths, default=0) + extra
    plan = characters(Lattice.from_words(lengths, []), T, CPU)
    expected = [
        b * T + t
        for t in range(T)
        for b in sorted(range(len(lengths)), key=lambda b: -lengths[b])
        if t < lengths[b]
    ]
    assert plan.source.tolist() == plan.target.tolist() == expected
    assert plan.shape == (len(lengths), T)


@given(segmentations())
def test_words_are_packed_by_sentence_and_padded(segments: Segments) -> None:
    plan = words(segments, CPU)
    U = int(segments.counts.max())
    first = np.cumsum(segments.counts) - segments.counts
    for w, cell in zip(plan.source.tolist(), plan.target.tolist(), strict=True):
        b, u = divmod(cell, U)
        assert w == first[b] + u
    assert sorted(plan.source.tolist()) == list(range(len(segments)))
    assert plan.shape == (len(segments.counts), U)


@given(segmentations())
def test_characters_are_packed_by_word(segments: Segments) -> None:
    plan = spelled(segments, CPU)
    T = int(segments.lengths.max())
    by_step = iter(torch.split(plan.source, plan.sizes.tolist()))
    found: list[list[int]] = [[] for _ in range(len(segments))]
    for step in by_step:
        for w, rank in enumerate(plan.rank.tolist()):
            if rank < len(step):
                found[w].append(int(step[rank]))
    assert found == [[b * T + t for t in range(s, e)] for b, s, e in words_of(segments)]


@given(segmentations())
def test_boundaries_stand_around_and_between_words(segments: Segments) -> None:
    plan = bounded(segments, CPU)
    T = int(segments.lengths.max())
    row = torch.full((int(plan.sizes.sum()),), -1)
    row[plan.place] = plan.source
    ranks = packed_order(
        np.where(segments.counts > 0, segments.lengths + segments.counts + 1, 0)
    ).rank
    steps = torch.split(row, plan.sizes.tolist())
    begins = np.cumsum(plan.sizes.numpy()) - plan.sizes.numpy()
    before = iter(plan.before.tolist())
    after = iter(plan.after.tolist())
    of_sentence = [
        [(s, e) for b, s, e in words_of(segments) if b == n] for n in range(len(segments.counts))
    ]
    for b, mine in enumerate(of_sentence):
        line = [int(step[ranks[b]]) for step in steps if ranks[b] < len(step)]
        expected = [-1] if mine else []
        for s, e in mine:
            assert next(before) == begins[len(expected) - 1] + ranks[b]
            expected += [*(b * T + t for t in range(s, e)), -1]
            assert next(after) == begins[len(expected) - 1] + ranks[b]
        assert line == expected


@given(segmentations())
def test_joined_characters_know_their_words(segments: Segments) -> None:
    plan = joined(segments, CPU)
    T = int(segments.lengths.max())
    expected = [
        (b * T + t, w) for w, (b, s, e) in enumerate(words_of(segments)) for t in range(s, e)
    ]
    assert list(zip(plan.source.tolist(), plan.word.tolist(), strict=True)) == expected


def test_everything_is_made_once() -> None:
    segments = segments_of([[1, 2], [3]])
    lattice = Lattice.from_words([3], [])
    for make in (words, spelled, bounded, joined):
        assert make(segments, CPU) is make(segments, CPU)
    assert characters(lattice, 3, CPU) is characters(lattice, 3, CPU)
    assert characters(lattice, 4, CPU).shape == (1, 4)


def test_prepare_leaves_a_cpu_alone() -> None:
    segments = segments_of([[1, 2]])
    prepare(segments, "cpu")
    assert segments.cache == {}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_prepare_makes_everything_on_the_gpu() -> None:
    segments = segments_of([[1, 2], [], [3]])
    prepare(segments, "cuda")
    kept = dict(segments.cache)
    there = torch.zeros(1, device="cuda").device
    for make in (words, spelled, bounded, joined):
        here = make(segments_of([[1, 2], [], [3]]), CPU)
        for mine, expected in zip(make(segments, there), here, strict=True):
            assert (
                torch.equal(mine.cpu(), expected)
                if isinstance(expected, torch.Tensor)
                else mine == expected
            )
    assert segments.cache == kept
