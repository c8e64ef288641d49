"""Platt's curves: what was fitted cannot be improved, and is near the curve that made the
outcomes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.evaluation.platt import LEAST_SPANS, PRIOR, Curve, Curves, fit

curves = st.builds(Curve, st.floats(0.01, 100), st.floats(-100, 100))
LABELS = 2


def outcomes(curve: Curve, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and whether each is right, as often as the curve says."""
    random = np.random.default_rng(seed)
    logit = random.normal(2.0, 3.0, count)
    chance = 1 / (1 + np.exp(-(curve.slope * logit + curve.offset)))
    return 1 / (1 + np.exp(-logit)), (random.random(count) < chance).astype(float)


def loss(curve: Curve, score: np.ndarray, right: np.ndarray, near: Curve) -> float:
    """Span by span: how improbable the outcomes are, and what the distance from another curve
    costs.
    """
    total = PRIOR * ((curve.slope - near.slope) ** 2 + (curve.offset - near.offset) ** 2)
    for p, is_right in zip(score.tolist(), right.tolist(), strict=True):
        z = curve.slope * math.log(p / (1 - p)) + curve.offset
        total += math.log1p(math.exp(-z if is_right else z))
    return total


@pytest.mark.parametrize("seed", range(3))
def test_fitted_curves_are_the_best_and_near_those_that_made_the_outcomes(seed: int) -> None:
    made = [Curve(0.4, -1.0), Curve(1.5, 0.5)]
    parts = [outcomes(curve, 4000, 10 * seed + at) for at, curve in enumerate(made)]
    label = np.repeat(np.arange(LABELS), 4000)
    score, right = (np.concatenate(column) for column in zip(*parts, strict=True))
    found = fit(label, score, right, LABELS + 1)
    near = found[LABELS]  # of which there are no spans: the curve of all
    for at, curve in enumerate(made):
        assert (found[at].slope, found[at].offset) == pytest.approx(
            (curve.slope, curve.offset), abs=0.15
        )
        least = loss(found[at], *parts[at], near)
        for slope, offset in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01)):
            assert least < loss(
                Curve(found[at].slope + slope, found[at].offset + offset), *parts[at], near
            )


def test_few_spans_of_a_label_and_scores_that_mean_nothing() -> None:
    score, right = outcomes(Curve(0.5, -1.0), 500, 1)
    few = np.r_[np.zeros(500 - LEAST_SPANS + 1, dtype=int), np.ones(LEAST_SPANS - 1, dtype=int)]
    first, second = fit(few, score, right, LABELS)
    assert first != second
    assert fit(few * 0, score, right, LABELS)[1] == second  # that of all
    some = (np.arange(500) >= 450).astype(int)
    turned = np.where(some, 1 - right, right)
    assert (
        fit(some, score, turned, LABELS)[1] == fit(some * 0, score, turned, LABELS)[1]
    )  # turned the wrong way
    with pytest.raises(InputError, match="higher scores are not more often right"):
        fit(few, score, 1 - right, LABELS)
    with pytest.raises(InputError, match="finds 19 spans in this text: scores need 20 or more"):
        fit(few[:19], score[:19], right[:19], LABELS)


def test_all_right_and_all_wrong() -> None:
    ones = np.ones(50)
    (curve,) = fit(np.zeros(50, dtype=int), ones, ones, 1)
    assert (curve.slope, curve.offset) == pytest.approx((1.0, 0.0), abs=1e-6)
    with pytest.raises(InputError, match="higher scores are not more often right"):
        fit(np.zeros(50, dtype=int), ones, 0 * ones, 1)


@given(
    made=st.lists(curves, min_size=1, max_size=3),
    scores=st.lists(st.floats(0, 1), max_size=20),
    data=st.data(),
)
def test_curves_of_scores(made: list[Curve], scores: list[float], data: st.DataObject) -> None:
    """Against the formula; labels beyond have none; arrays and tensors agree; `lowest` loses
    nothing.
    """
    of = Curves(made)
    label = np.array([data.draw(st.integers(0, len(made) + 1)) for _ in scores], dtype=np.int64)
    given_ = np.array(scores)
    found = of(label, given_)
    assert of(label, torch.from_numpy(given_)).numpy() == pytest.approx(found, abs=1e-12)
    least = data.draw(st.floats(0, 1))
    for number, p, score in zip(label.tolist(), scores, found.tolist(), strict=True):
        curve = made[number] if number < len(made) else Curve(1.0, 0.0)
        if p in (0.0, 1.0):
            assert score == p
        elif 1e-9 < p < 1 - 1e-9:
            z = curve.slope * (math.log(p) - math.log1p(-p)) + curve.offset
            assert score == pytest.approx(
                1 / (1 + math.exp(-z)) if z > -700 else 0.0, rel=1e-6, abs=1e-12
            )
        assert p >= of.lowest(least) or score < least
    order = np.argsort(given_)
    for number in range(len(made)):
        assert (np.diff(of(np.full(len(order), number), given_[order])) >= 0).all()
