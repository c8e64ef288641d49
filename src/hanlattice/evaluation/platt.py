"""Platt's curves: a score as often right as it says, by label. The logit of a score, times a slope,
plus an offset.

Slopes are above 0, so of two spans with one label the more probable one stays so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError

LEAST_SPANS = 20  # of which curves are fitted
SLOPES = (0.01, 100.0)
OFFSETS = (-100.0, 100.0)
EDGE = 1e-12  # scores nearer to 0 or 1 count as this far from them when a curve is fitted
ROUNDING = 1e-6
# What the squared distance from the curve of all labels costs, in logarithms of the likelihood.
PRIOR = 1.0

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Values = Any  # an array of numpy, or a tensor


@dataclass(frozen=True, slots=True)
class Curve:
    slope: float = field(metadata={"check": "slope"})
    offset: float = field(metadata={"check": "offset"})


AS_IT_IS = Curve(1.0, 0.0)


class Curves:
    """A curve for each of a model's labels, by their numbers; labels beyond, those of a dictionary,
    have none.
    """

    def __init__(self, curves: Sequence[Curve]) -> None:
        slope, offset = np.array([(each.slope, each.offset) for each in (*curves, AS_IT_IS)]).T
        self._slope = slope
        self._offset = offset

    def __call__(self, label: npt.NDArray[np.integer[Any]], score: Values) -> Values:
        """[S]: of probabilities of spans with these labels; where the probabilities are. 0 and 1
        stay.
        """
        at = np.minimum(label, len(self._slope) - 1)
        slope = self._slope[at]
        offset = self._offset[at]
        if isinstance(score, np.ndarray):
            return _sigmoid(slope * _logit(score) + offset)
        import torch

        slope, offset = (
            torch.from_numpy(each).to(score.device, non_blocking=True) for each in (slope, offset)
        )
        return torch.sigmoid(slope * torch.logit(score) + offset)

    def lowest(self, score: float) -> float:
        """A probability below which no label reaches this score."""
        reached: Floats = _sigmoid((_logit(np.array(score)) - self._offset) / self._slope)
        return float(reached.min()) * (1 - ROUNDING)


def fit(label: Ints, score: Floats, right: Floats, labels: int) -> list[Curve]:
    """The curve of each label, under which what came is most probable, near that of all labels
    together.

    A label of which there is too little, or whose higher scores are not more often right, has the
    latter.
    """
    if len(score) < LEAST_SPANS:
        raise InputError(
            f"the model finds {len(score)} spans in this text: scores need {LEAST_SPANS} or more to be fitted"
        )
    x = _logit(np.clip(score, EDGE, 1 - EDGE))
    all_labels = _fitted(x, right, AS_IT_IS)
    if not _is_good(all_labels):
        raise InputError(
            "higher scores are not more often right in this text, so no scores can be fitted on it"
        )
    found = []
    for number in range(labels):
        own = label == number
        curve = _fitted(x[own], right[own], all_labels) if own.sum() >= LEAST_SPANS else all_labels
        found.append(curve if _is_good(curve) else all_labels)
    return found


def _fitted(x: Floats, right: Floats, prior: Curve) -> Curve:
    """Newton's method: the loss is convex, and steps that make it worse are halved."""
    columns = np.stack([x, np.ones_like(x)])
    centre = np.array([prior.slope, prior.offset])
    weights = centre.copy()

    def loss(at: Floats) -> float:
        z = at @ columns
        return float((np.logaddexp(0, z) - right * z).sum() + PRIOR * ((at - centre) ** 2).sum())

    for _ in range(100):
        chance = _sigmoid(weights @ columns)
        gradient = columns @ (chance - right) + 2 * PRIOR * (weights - centre)
        hessian = (columns * (chance * (1 - chance))) @ columns.T + 2 * PRIOR * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-12:
            step /= 2
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    return Curve(*weights.tolist())


def _is_good(curve: Curve) -> bool:
    return SLOPES[0] <= curve.slope <= SLOPES[1] and OFFSETS[0] <= curve.offset <= OFFSETS[1]


def _logit(chance: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        logit: Floats = np.log(chance) - np.log1p(-chance)
    return logit


def _sigmoid(logit: Floats) -> Floats:
    with np.errstate(over="ignore"):
        chance: Floats = 1 / (1 + np.exp(-logit))
    return chance
