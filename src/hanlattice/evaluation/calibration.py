"""Calibration: how often spans with a score are right, and what leaving out low scores changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.report import NONE, Table, count, escaped, percent
from hanlattice.text.display import counted
from hanlattice.text.span import Span
from hanlattice.theme import BLUE, RED, plot, plot_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10
THRESHOLDS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bin:
    """Spans with a score from `low` to `high`: their mean score, and the share that is right.

    Without spans, `score` and `share` are None.
    """

    low: float
    high: float
    count: int
    score: float | None
    share: float | None

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table."""
        bounds = f"{round(self.low, 4):g} to {round(self.high, 4):g}"
        mean = NONE if self.score is None else f"{self.score:.4f}"
        return (bounds, count(self.count), mean, percent(self.share))


@dataclass(frozen=True, slots=True)
class Threshold:
    """The score of the spans from `min_score` on; `coverage` is their share of all spans."""

    min_score: float
    score: Score
    coverage: float

    def as_dict(self) -> dict[str, float]:
        return {"min_score": self.min_score, **self.score.as_dict(), "coverage": self.coverage}


@dataclass(frozen=True, slots=True)
class OfLabel:
    """The figures of `Calibration` for the spans with one label."""

    count: int
    score: float
    share: float
    ece: float
    brier: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well scores match the share of spans that is right: over all spans, in bins and by label.

    `ece` is the expected calibration error, the mean distance between score and share over bins,
    weighted by their counts; `ece_mass` is the same over bins of equally many spans. `brier` is the
    mean squared distance between a score and the truth, 1 or 0.
    """

    count: int
    score: float
    share: float
    ece: float
    ece_mass: float
    brier: float
    # Bins of equal width, from 0 to 1.
    width: tuple[Bin, ...]
    # Bins of about equally many spans.
    mass: tuple[Bin, ...]
    thresholds: tuple[Threshold, ...]
    labels: dict[str, OfLabel]

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"thresholds": [row.as_dict() for row in self.thresholds]}


def calibrate(
    gold: Sequence[Iterable[Span]],
    found: Sequence[Iterable[Span]],
    bins: int = BINS,
    thresholds: Sequence[float] = THRESHOLDS,
) -> Calibration:
    """Compare the scores of found spans with how often they are right.

    Args:
        gold: the spans of each sentence.
        found: the spans of each sentence, with scores. A right one is equal to a gold one.
        bins: how many bins of equal width, and of equal mass.
        thresholds: the scores at which spans are left out.
    """
    if len(gold) != len(found):
        numbers = f"{len(gold)} gold sentences cannot be compared with {len(found)}"
        raise ValueError(f"{numbers} found ones")
    if bins < 1:
        raise ValueError(f"bins must be 1 or more, not {bins}")
    total, score, right, label = _outcomes(gold, found)
    width = _equal_width(score, right, bins)
    mass = _equal_mass(score, right, bins)
    rows = []
    for least in thresholds:
        kept = score >= least
        kept_score = Score(total, int(kept.sum()), int(right[kept].sum()))
        rows.append(Threshold(least, kept_score, _mean(kept)))
    labels = {}
    for name in np.unique(label).tolist():
        own, hits = score[label == name], right[label == name]
        ece = _error(_equal_width(own, hits, bins), len(own))
        labels[name] = OfLabel(len(own), _mean(own), _mean(hits), ece, _mean((own - hits) ** 2))
    return Calibration(
        count=len(score),
        score=_mean(score),
        share=_mean(right),
        ece=_error(width, len(score)),
        ece_mass=_error(mass, len(score)),
        brier=_mean((score - right) ** 2),
        width=width,
        mass=mass,
        thresholds=tuple(rows),
        labels=labels,
    )


def _outcomes(
    gold: Sequence[Iterable[Span]], found: Sequence[Iterable[Span]]
) -> tuple[int, Floats, Floats, npt.NDArray[np.str_]]:
    """Return the number of gold spans; for each found one its score, 1 if right, and its label."""
    total = 0
    rows = []
    labels = []
    for wanted, spans in zip(map(set, gold), found, strict=True):
        total += len(wanted)
        for span in spans:
            if span.score is None:
                raise ValueError(f"the span [{span.start}, {span.end}) {span.label} has no score")
            rows.append((span.score, span in wanted))
            labels.append(span.label)
    score, right = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return total, score, right, np.array(labels, dtype=np.str_)


def _equal_width(score: Floats, right: Floats, bins: int) -> tuple[Bin, ...]:
    """Cut [0, 1] into equal bins; a score on a border belongs to the bin above, 1 to the last."""
    edges = [number / bins for number in range(bins + 1)]
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, bins - 1)
    return tuple(
        _bin(low, high, score[place == number], right[place == number])
        for number, (low, high) in enumerate(pairwise(edges))
    )


def _equal_mass(score: Floats, right: Floats, bins: int) -> tuple[Bin, ...]:
    """Cut the spans by rising score into bins of equal size; few spans give fewer bins."""
    # Stable, so that equal scores keep their order.
    order = np.argsort(score, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return tuple(
        _bin(float(score[part[0]]), float(score[part[-1]]), score[part], right[part])
        for part in parts
    )


def _bin(low: float, high: float, score: Floats, right: Floats) -> Bin:
    if not len(score):
        return Bin(low, high, 0, None, None)
    return Bin(low, high, len(score), _mean(score), _mean(right))


def _error(bins: Iterable[Bin], total: int) -> float:
    distances = (part.count * abs((part.score or 0.0) - (part.share or 0.0)) for part in bins)
    return sum(distances) / max(1, total)


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0


def summary(calibration: Calibration) -> str:
    """Return the figures of all spans as a sentence."""
    if not calibration.count:
        return "nothing was found, so there is nothing to judge"
    return (
        f"{counted(calibration.count, 'span')}: mean score {calibration.score:.4f}, "
        f"{percent(calibration.share)} % right; expected calibration error {calibration.ece:.4f} "
        f"(bins of equal width), {calibration.ece_mass:.4f} (of equal count); "
        f"Brier score {calibration.brier:.4f}"
    )


def tables(calibration: Calibration) -> list[Table]:
    """Return the tables by label, by score (two kinds of bins), and by threshold."""
    headings = ("score", "spans", "mean score", "right %")
    kept_headings = ("min score", "precision", "recall", "F1", "spans", "kept %")
    kept = []
    for row in calibration.thresholds:
        numbers = (count(row.score.predicted), percent(row.coverage))
        kept.append((f"{row.min_score:g}", *row.score.cells(), *numbers))
    labels = []
    for name, own in calibration.labels.items():
        share = (f"{own.score:.4f}", percent(own.share))
        labels.append((name, count(own.count), *share, f"{own.ece:.4f}", f"{own.brier:.4f}"))
    width, mass = (
        tuple(part.cells() for part in bins) for bins in (calibration.width, calibration.mass)
    )
    return [
        Table("By label", ("label", *headings[1:], "ECE", "Brier"), tuple(labels), words=1),
        Table("By score", headings, width, words=0),
        Table("By score, bins of equally many spans", headings, mass, words=0),
        Table("Where spans below a score are left out", kept_headings, tuple(kept), words=0),
    ]


def markdown(files: Mapping[str, Calibration], about: str) -> str:
    """Return one document with a section for calibration file, under its name."""
    lines = ["# Calibration", "", escaped(about)]
    for name, calibration in files.items():
        lines += ["", f"## {escaped(name)}", "", summary(calibration)]
        for table in tables(calibration):
            lines += ["", f"{table.title}:", "", *table.markdown()]
    return "\n".join(lines) + "\n"


def draw(files: Mapping[str, Calibration], path: Path) -> None:
    """Plot a column for each file: the right share by score, and below it the number of spans."""
    with plot(path, 0.6 + 3.4 * len(files), 4.8) as figure:
        grid = figure.subplots(2, len(files), squeeze=False, sharex=True, height_ratios=(3, 1))
        for (share, counts), (name, calibration) in zip(grid.T, files.items(), strict=True):
            _draw_share(share, name, calibration)
            centres = [(part.low + part.high) / 2 for part in calibration.width]
            heights = [part.count for part in calibration.width]
            counts.bar(centres, heights, width=0.9 / len(centres), color=BLUE)
            counts.set(xlabel="score", xlim=(0, 1))
            # Logarithmic, since most spans of a good model have a score near 1.
            if calibration.count:
                counts.set_yscale("log", nonpositive="clip")
                counts.set_ylim(0.5, 2.0 * max(heights))
            counts.set_axisbelow(True)
            tidy(counts)
        grid[0, 0].set_ylabel("share that is right")
        grid[1, 0].set_ylabel("spans")


def _draw_share(axis: Axes, name: str, calibration: Calibration) -> None:
    points = [(part.score, part.share) for part in calibration.width if part.score is not None]
    axis.plot([0, 1], [0, 1], "--", color="0.6", linewidth=0.9, label="as scores say")
    if points:
        scores, shares = zip(*points, strict=True)
        axis.plot(scores, shares, "-o", color=RED, ms=4, clip_on=False, label="as it is")
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.set_title(plot_text(name), fontsize=9, loc="left")
    figures = f"ECE {calibration.ece:.4f}\nBrier {calibration.brier:.4f}"
    axis.text(0.97, 0.05, figures, ha="right", transform=axis.transAxes)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    tidy(axis)
