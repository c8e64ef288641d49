"""Platt's curves: make a score as often right as it says, by label.

A curve multiplies the logit of a score by a slope and adds an offset. Slopes are above 0, so of two
spans with one label the more probable one stays the more probable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError

# Fewer spans have no curve of their own.
LEAST_SPANS = 20
# The slopes and offsets of a curve that can be used.
SLOPES = (0.01, 100.0)
OFFSETS = (-100.0, 100.0)
# Logits of 0 and 1 are infinite, so a fit takes such scores as this far from them.
EDGE = 1e-12
ROUNDING = 1e-6
# The cost of the squared distance from the curve of all labels, in logarithms of the likelihood.
PRIOR = 1.0

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# A NumPy array or a tensor.
Values = Any


@dataclass(frozen=True, slots=True)
class Curve:
    slope: float = field(metadata={"check": "slope"})
    offset: float = field(metadata={"check": "offset"})


AS_IT_IS = Curve(1.0, 0.0)


class Curves:
    """The curves of a model's labels, by number; labels of a dictionary, beyond them, have none."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        # The last row is for every number beyond the model's labels.
        rows = [(curve.slope, curve.offset) for curve in (*curves, AS_IT_IS)]
        self._slope, self._offset = np.array(rows).T

    def __call__(self, label: npt.NDArray[np.integer[Any]], score: Values) -> Values:
        """Calibrate the probabilities of spans; 0 and 1 stay.

        Args:
            label: [S], the label of each span.
            score: [S], the probabilities, on any device. The result is on the same.
        """
        row = np.minimum(label, len(self._slope) - 1)
        slope, offset = self._slope[row], self._offset[row]
        if isinstance(score, np.ndarray):
            return _sigmoid(slope * _logit(score) + offset)
        import torch

        slope, offset = (
            torch.from_numpy(array).to(score.device, non_blocking=True) for array in (slope, offset)
        )
        return torch.sigmoid(slope * torch.logit(score) + offset)

    def lowest(self, score: float) -> float:
        """Return a probability below which no label reaches this score."""
        reached: Floats = _sigmoid((_logit(np.array(score)) - self._offset) / self._slope)
        return float(reached.min()) * (1 - ROUNDING)


def fit(label: Ints, score: Floats, right: Floats, labels: int) -> list[Curve]:
    """Fit the curve of each label: maximum likelihood, near the curve of all labels together.

    A label with too few spans, or whose higher scores are not more often right, has the curve of
    all labels.

    Args:
        label: [S], the label of each span, below `labels`.
        score: [S], its probability.
        right: [S], 1 if it is right, else 0.
    """
    if len(score) < LEAST_SPANS:
        raise InputError(
            f"the model finds {len(score)} spans in this text: "
            f"scores need {LEAST_SPANS} or more to be fitted"
        )
    x = _logit(np.clip(score, EDGE, 1 - EDGE))
    all_labels = _fitted(x, right, AS_IT_IS)
    if not _is_good(all_labels):
        raise InputError(
            "higher scores are not more often right in this text, so no scores can be fitted on it"
        )
    curves = []
    for number in range(labels):
        own = label == number
        curve = _fitted(x[own], right[own], all_labels) if own.sum() >= LEAST_SPANS else all_labels
        curves.append(curve if _is_good(curve) else all_labels)
    return curves


def _fitted(x: Floats, right: Floats, prior: Curve) -> Curve:
    """Fit a curve by Newton's method: the loss is convex, and steps that raise it are halved."""
    columns = np.stack([x, np.ones_like(x)])
    centre = np.array([prior.slope, prior.offset])
    weights = centre.copy()

    def loss(curve: Floats) -> float:
        z = curve @ columns
        distance = ((curve - centre) ** 2).sum()
        return float((np.logaddexp(0, z) - right * z).sum() + PRIOR * distance)

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
    # log(0) is −∞, as the logits of 0 and 1 should be.
    with np.errstate(divide="ignore"):
        logit: Floats = np.log(chance) - np.log1p(-chance)
    return logit


def _sigmoid(logit: Floats) -> Floats:
    with np.errstate(over="ignore"):
        chance: Floats = 1 / (1 + np.exp(-logit))
    return chance
