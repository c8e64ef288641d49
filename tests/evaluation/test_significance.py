"""The paired bootstrap against a plain loop over the same draws, and what must hold for
any counts.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.evaluation import significance
from hanlattice.evaluation.ner import Score, score
from hanlattice.evaluation.significance import draw, micro_f1, paired_bootstrap, sentence_counts
from tests.helpers.strategies import sentences


def random_counts(seeds: int, sentences: int, hit: float, at: int) -> np.ndarray:
    """Counts of models that find each gold span with this probability; the gold is the same for
    all.
    """
    gold = np.random.default_rng(99).integers(0, 4, sentences)
    rng = np.random.default_rng(at)
    correct = rng.binomial(gold, hit, size=(seeds, sentences))
    predicted = correct + rng.integers(0, 2, size=(seeds, sentences))
    return np.stack([np.broadcast_to(gold, correct.shape), predicted, correct], axis=2)


def plain_f1(counts: np.ndarray, chosen: list[int]) -> float:
    gold, predicted, correct = (sum(int(counts[at, which]) for at in chosen) for which in range(3))
    return Score(gold, predicted, correct).f1


def plain_bootstrap(
    a: np.ndarray, b: np.ndarray, samples: int, seed: int, room: int
) -> list[float]:
    """Every statistic, one at a time."""
    found = []
    for part in draw(a, b, samples // 2, seed, room):
        for chosen, *uniform in zip(*part, strict=True):
            for left, right in (uniform, uniform[::-1]):
                ours = [plain_f1(a[int(left[k] * len(a))], chosen) for k in range(len(a))]
                theirs = [plain_f1(b[int(right[k] * len(b))], chosen) for k in range(len(b))]
                found.append(sum(ours) / len(ours) - sum(theirs) / len(theirs))
    return found


@pytest.mark.parametrize(
    ("seeds", "size", "room"), [((3, 3), 17, 10), ((1, 1), 5, 3), ((2, 5), 1, 40), ((4, 1), 9, 7)]
)
def test_the_same_as_a_plain_loop(monkeypatch, seeds, size, room):
    a = random_counts(seeds[0], size, 0.8, 1)
    b = random_counts(seeds[1], size, 0.7, 2)
    monkeypatch.setattr(significance, "ROOM", room * size)
    found = paired_bootstrap(a, b, samples=60, seed=3)
    plain = np.array(plain_bootstrap(a, b, 60, 3, room))
    assert found.low == pytest.approx(np.quantile(plain, 0.025), abs=1e-9)
    assert found.high == pytest.approx(np.quantile(plain, 0.975), abs=1e-9)
    both = 2 * min(np.mean(plain <= 1e-12), np.mean(plain >= -1e-12))
    assert found.p == pytest.approx(min(1, max(both, 1 / 60)))
    everything = list(range(size))
    means = [np.mean([plain_f1(model, everything) for model in each]) for each in (a, b)]
    assert found.difference == pytest.approx(means[0] - means[1])


def test_every_draw_is_of_the_sentences_and_none_is_made_twice():
    a = random_counts(2, 6, 0.5, 1)
    whole = list(draw(a, a, 25, seed=4, room=10))
    assert [len(part.sentences) for part in whole] == [10, 10, 5]
    drawn = np.concatenate([part.sentences for part in whole])
    assert drawn.shape == (25, 6)
    assert (drawn.min(), drawn.max()) == (0, 5)
    assert len({tuple(row) for row in drawn.tolist()}) > 20
    assert all(
        (u >= 0).all() and (u < 1).all() and u.shape[1] == 2 for part in whole for u in part[1:]
    )


def test_one_draw_serves_both_systems_and_all_seeds():
    """Two systems that always differ in the same way, whatever their sentences are, differ so in
    every sample.
    """
    a = np.tile([[4, 4, 3]], (30, 1))[None]
    b = np.tile([[4, 4, 1]], (30, 1))[None]
    assert paired_bootstrap(a, b, samples=100) == pytest.approx((0.5, 0.5, 0.5, 0.01))


def test_a_clear_difference_and_noise():
    better = random_counts(3, 300, 0.9, 1)
    worse = random_counts(3, 300, 0.6, 2)
    clear = paired_bootstrap(better, worse, samples=2000)
    assert clear.p == 1 / 2000
    assert 0 < clear.low < clear.difference < clear.high
    noise = paired_bootstrap(
        random_counts(3, 300, 0.8, 3), random_counts(3, 300, 0.8, 4), samples=2000
    )
    assert noise.low < 0 < noise.high
    assert noise.p > 0.05


def test_the_interval_covers_the_seeds_too():
    """Two seeds that differ a lot make it wide, however many sentences there are."""
    gold = np.full(2000, 2)
    halves = np.stack(
        [np.stack([gold, gold, gold * share // 2], 1) for share in (1, 2)]
    )  # F1 0.5 and 1
    steady = np.stack([np.stack([gold, gold, gold], 1)] * 2)
    found = paired_bootstrap(steady, halves, samples=1000)
    assert found.difference == pytest.approx(0.25)
    assert (found.low, found.high) == pytest.approx((0.0, 0.5))
    assert found.p > 0.2


@st.composite
def counts(draw_one: st.DrawFn, seeds: int, gold: list[int]) -> np.ndarray:
    rows = []
    for _ in range(seeds):
        correct = [draw_one(st.integers(0, number)) for number in gold]
        extra = draw_one(st.lists(st.integers(0, 3), min_size=len(gold), max_size=len(gold)))
        rows.append([(g, c + e, c) for g, c, e in zip(gold, correct, extra, strict=True)])
    return np.array(rows)


@st.composite
def systems(draw_one: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    gold = draw_one(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    return tuple(draw_one(counts(draw_one(st.integers(1, 3)), gold)) for _ in range(2))


@given(systems())
def test_the_sides_can_be_swapped(pair):
    a, b = pair
    one = paired_bootstrap(a, b, samples=40)
    other = paired_bootstrap(b, a, samples=40)
    assert one.difference == pytest.approx(-other.difference)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.p == other.p
    assert -1 <= one.low <= one.high <= 1
    assert -1 <= one.difference <= 1
    assert 1 / 40 <= one.p <= 1
    assert one == paired_bootstrap(a, b, samples=40)


@settings(max_examples=20)
@given(systems())
def test_a_system_does_not_differ_from_itself(pair):
    found = paired_bootstrap(pair[0], pair[0], samples=40)
    assert found.difference == 0
    assert found.p == 1
    assert found.low == pytest.approx(-found.high)


def test_no_span_at_all():
    nothing = np.zeros((2, 3, 3), dtype=np.int64)
    assert paired_bootstrap(nothing, nothing, samples=10) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("a", "b", "samples", "says"),
    [
        (np.zeros((1, 2, 3)), np.zeros((1, 3, 3)), 10, "not counted on the same sentences"),
        (np.ones((1, 2, 3)), np.zeros((1, 2, 3)), 10, "not counted on the same sentences"),
        (np.zeros((0, 2, 3)), np.zeros((1, 2, 3)), 10, "counts of A must be"),
        (np.zeros((1, 2, 3)), np.zeros((1, 0, 3)), 10, "counts of B must be"),
        (np.zeros((2, 3)), np.zeros((2, 3)), 10, r"\[seeds, sentences, 3\]"),
        (np.array([[[1, 1, 2]]]), np.array([[[1, 1, 1]]]), 10, "no more correct"),
        (np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), 5, "samples must be even"),
        (np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), 0, "samples must be even"),
    ],
)
def test_refusals(a, b, samples, says):
    with pytest.raises(ValueError, match=says):
        paired_bootstrap(a.astype(np.int64), b.astype(np.int64), samples)


@given(st.lists(st.tuples(sentences(), sentences()), max_size=5))
def test_counts_of_sentences_add_up_to_the_score(pairs):
    gold, predicted = [[one.spans for one in side] for side in zip(*pairs, strict=True)] or [[], []]
    found = sentence_counts(gold, predicted)
    assert found.shape == (len(pairs), 3)
    whole = score(gold, predicted).overall
    assert tuple(found.sum(0)) == (whole.gold, whole.predicted, whole.correct)
    assert micro_f1(found.sum(0)) == pytest.approx(whole.f1)
