"""Whether probabilities can be believed: of spans with a score near 0.9, are nine of ten right?

And what is gained and lost where spans below a score are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hanlattice.evaluation.ner import Score
from hanlattice.text.spans import Span

BINS = 10
THRESHOLDS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bin:
    """Spans with a score from `low` to `high`. Without any, `score` and `share` are None."""

    low: float
    high: float
    count: int
    score: float | None  # the mean
    share: float | None  # of those that are right


@dataclass(frozen=True, slots=True)
class Threshold:
    """What is left of the spans where those below `min_score` are left out; `coverage` is the share that is kept."""

    min_score: float
    score: Score
    coverage: float

    def as_dict(self) -> dict[str, float]:
        return {"min_score": self.min_score, **self.score.as_dict(), "coverage": self.coverage}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of all spans: their number, mean score and share that is right; how far the two are apart; and in bins.

    `ece` is the expected calibration error, the mean distance between score and share over bins, weighted by their
    counts; `ece_mass` the same over bins of equally many spans. `brier` is the mean squared distance between a score
    and what is true of its span, 1 or 0.
    """

    count: int
    score: float
    share: float
    ece: float
    ece_mass: float
    brier: float
    width: tuple[Bin, ...]  # bins of equal width, from 0 to 1
    mass: tuple[Bin, ...]  # bins of about equally many spans
    thresholds: tuple[Threshold, ...]

    def as_dict(self) -> dict[str, object]:
        """As JSON wants it."""
        plain = {name: getattr(self, name) for name in ("count", "score", "share", "ece", "ece_mass", "brier")}
        bins = {name: [asdict(each) for each in getattr(self, name)] for name in ("width", "mass")}
        return plain | bins | {"thresholds": [each.as_dict() for each in self.thresholds]}


def calibrate(
    gold: Sequence[Iterable[Span]],
    found: Sequence[Iterable[Span]],
    bins: int = BINS,
    thresholds: Sequence[float] = THRESHOLDS,
) -> Calibration:
    """Spans with scores, sentence by sentence, against gold ones; right is one whose start, end and label are."""
    if len(gold) != len(found):
        raise ValueError(f"{len(gold)} gold sentences cannot be compared with {len(found)} found ones")
    if bins < 1:
        raise ValueError(f"bins must be 1 or more, not {bins}")
    total, score, right = _judged(gold, found)
    width = _of_equal_width(score, right, bins)
    mass = _of_equal_mass(score, right, bins)
    return Calibration(
        count=len(score),
        score=_mean(score),
        share=_mean(right),
        ece=_error(width, len(score)),
        ece_mass=_error(mass, len(score)),
        brier=_mean((score - right) ** 2),
        width=width,
        mass=mass,
        thresholds=tuple(_threshold(each, total, score, right) for each in thresholds),
    )


def _judged(gold: Sequence[Iterable[Span]], found: Sequence[Iterable[Span]]) -> tuple[int, Floats, Floats]:
    """How many gold spans there are; of each found one its score, and 1 if it is right, else 0."""
    total, rows = 0, []
    for wanted, spans in zip(map(set, gold), found, strict=True):
        total += len(wanted)
        for span in spans:
            if span.score is None:
                raise ValueError(f"the span [{span.start}, {span.end}) {span.label} has no score to judge")
            rows.append((span.score, span in wanted))
    score, right = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return total, score, right


def _of_equal_width(score: Floats, right: Floats, bins: int) -> tuple[Bin, ...]:
    """A score on a border belongs to the bin above; 1 belongs to the last."""
    edges = [at / bins for at in range(bins + 1)]
    at = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, bins - 1)
    return tuple(_bin(low, high, score[at == nth], right[at == nth]) for nth, (low, high) in enumerate(pairwise(edges)))


def _of_equal_mass(score: Floats, right: Floats, bins: int) -> tuple[Bin, ...]:
    """By rising score; equal ones keep the order in which they came. With few spans there are fewer bins."""
    order = np.argsort(score, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return tuple(_bin(float(score[part[0]]), float(score[part[-1]]), score[part], right[part]) for part in parts)


def _bin(low: float, high: float, score: Floats, right: Floats) -> Bin:
    if not len(score):
        return Bin(low, high, 0, None, None)
    return Bin(low, high, len(score), _mean(score), _mean(right))


def _error(bins: Iterable[Bin], count: int) -> float:
    return sum(each.count * abs((each.score or 0.0) - (each.share or 0.0)) for each in bins) / max(1, count)


def _threshold(min_score: float, gold: int, score: Floats, right: Floats) -> Threshold:
    kept = score >= min_score
    number = int(kept.sum())
    return Threshold(min_score, Score(gold, number, int(right[kept].sum())), number / len(score) if len(score) else 0.0)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
