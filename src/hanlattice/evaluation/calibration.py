"""Calibration: of spans with a score near 0.9, are nine of ten right? And what does leaving out low
scores change?
"""

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
    """Spans with a score from `low` to `high`. If there are none, `score` and `share` are None."""

    low: float
    high: float
    count: int
    score: float | None  # the mean
    share: float | None  # that is right


@dataclass(frozen=True, slots=True)
class Threshold:
    """The score of the spans from `min_score` on, and `coverage`, the share of all spans that these
    are.
    """

    min_score: float
    score: Score
    coverage: float

    def as_dict(self) -> dict[str, float]:
        return {"min_score": self.min_score, **self.score.as_dict(), "coverage": self.coverage}


@dataclass(frozen=True, slots=True)
class OfLabel:
    """Of all spans with a label, what `Calibration` has of all."""

    count: int
    score: float
    share: float
    ece: float
    brier: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of all spans: their number, mean score and the share that is right; how far apart the two
    are; and in bins.

    `ece` is the expected calibration error, the mean distance between score and share over bins,
    weighted by their counts; `ece_mass` the same over bins of equally many spans. `brier` is the
    mean squared distance between a score and the truth, 1 or 0.
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
    labels: dict[str, OfLabel]

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"thresholds": [each.as_dict() for each in self.thresholds]}


def calibrate(
    gold: Sequence[Iterable[Span]],
    found: Sequence[Iterable[Span]],
    bins: int = BINS,
    thresholds: Sequence[float] = THRESHOLDS,
) -> Calibration:
    """Spans with scores, sentence by sentence, against gold ones. Right means start, end and label."""
    if len(gold) != len(found):
        raise ValueError(
            f"{len(gold)} gold sentences cannot be compared with {len(found)} found ones"
        )
    if bins < 1:
        raise ValueError(f"bins must be 1 or more, not {bins}")
    total, score, right, label = _outcomes(gold, found)
    width = _equal_width(score, right, bins)
    mass = _equal_mass(score, right, bins)
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
        labels={
            name: _of_label(score[label == name], right[label == name], bins)
            for name in np.unique(label).tolist()
        },
    )


def _of_label(score: Floats, right: Floats, bins: int) -> OfLabel:
    ece = _error(_equal_width(score, right, bins), len(score))
    return OfLabel(len(score), _mean(score), _mean(right), ece, _mean((score - right) ** 2))


def _outcomes(
    gold: Sequence[Iterable[Span]], found: Sequence[Iterable[Span]]
) -> tuple[int, Floats, Floats, npt.NDArray[np.str_]]:
    """The number of gold spans; for each found span its score, 1 if it is right, else 0, and its
    label.
    """
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
    """A score on a border belongs to the bin above; 1 belongs to the last."""
    edges = [at / bins for at in range(bins + 1)]
    at = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, bins - 1)
    return tuple(
        _bin(low, high, score[at == nth], right[at == nth])
        for nth, (low, high) in enumerate(pairwise(edges))
    )


def _equal_mass(score: Floats, right: Floats, bins: int) -> tuple[Bin, ...]:
    """By rising score; equal scores keep their order. Of few spans there are fewer bins."""
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
    return sum(each.count * abs((each.score or 0.0) - (each.share or 0.0)) for each in bins) / max(
        1, total
    )


def _threshold(min_score: float, gold: int, score: Floats, right: Floats) -> Threshold:
    kept = score >= min_score
    return Threshold(min_score, Score(gold, int(kept.sum()), int(right[kept].sum())), _mean(kept))


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0


def summary(calibration: Calibration) -> str:
    if not calibration.count:
        return "nothing was found, so there is nothing to judge"
    return (
        f"{counted(calibration.count, 'span')}: mean score {calibration.score:.4f}, "
        f"{percent(calibration.share)} % right; expected calibration error {calibration.ece:.4f} "
        f"(bins of equal width), {calibration.ece_mass:.4f} (of equal count); Brier score {calibration.brier:.4f}"
    )


def tables(calibration: Calibration) -> list[Table]:
    headings = ("score", "spans", "mean score", "right %")
    kept_headings = ("min score", "precision", "recall", "F1", "spans", "kept %")
    kept = tuple(
        (
            f"{each.min_score:g}",
            *each.score.cells(),
            count(each.score.predicted),
            percent(each.coverage),
        )
        for each in calibration.thresholds
    )
    labels = tuple(
        (
            name,
            count(each.count),
            f"{each.score:.4f}",
            percent(each.share),
            f"{each.ece:.4f}",
            f"{each.brier:.4f}",
        )
        for name, each in calibration.labels.items()
    )
    return [
        Table("By label", ("label", *headings[1:], "ECE", "Brier"), labels, words=1),
        Table("By score", headings, tuple(map(_cells, calibration.width)), words=0),
        Table(
            "By score, bins of equally many spans",
            headings,
            tuple(map(_cells, calibration.mass)),
            words=0,
        ),
        Table("Where spans below a score are left out", kept_headings, kept, words=0),
    ]


def _cells(each: Bin) -> tuple[str, ...]:
    mean = NONE if each.score is None else f"{each.score:.4f}"
    return (
        f"{round(each.low, 4):g} to {round(each.high, 4):g}",
        count(each.count),
        mean,
        percent(each.share),
    )


def markdown(files: Mapping[str, Calibration], about: str) -> str:
    """One document with a section for each file, under its name."""
    lines = ["# Calibration", "", escaped(about)]
    for name, each in files.items():
        lines += ["", f"## {escaped(name)}", "", summary(each)]
        for table in tables(each):
            lines += ["", f"{table.title}:", "", *table.markdown()]
    return "\n".join(lines) + "\n"


def draw(files: Mapping[str, Calibration], path: Path) -> None:
    """A column for each file: the share that is right against the score, and below it how many
    spans there are.
    """
    with plot(path, 0.6 + 3.4 * len(files), 4.8) as figure:
        grid = figure.subplots(2, len(files), squeeze=False, sharex=True, height_ratios=(3, 1))
        for (share, counts), (name, each) in zip(grid.T, files.items(), strict=True):
            _draw_share(share, name, each)
            centres = [(part.low + part.high) / 2 for part in each.width]
            counts.bar(
                centres, [part.count for part in each.width], width=0.9 / len(centres), color=BLUE
            )
            counts.set(xlabel="score", xlim=(0, 1))
            if each.count:  # logarithmic, since most spans of a good model have a score near 1
                counts.set_yscale("log", nonpositive="clip")
                counts.set_ylim(0.5, 2.0 * max(part.count for part in each.width))
            counts.set_axisbelow(True)
            tidy(counts)
        grid[0, 0].set_ylabel("share that is right")
        grid[1, 0].set_ylabel("spans")


def _draw_share(axis: Axes, name: str, calibration: Calibration) -> None:
    points = [(each.score, each.share) for each in calibration.width if each.score is not None]
    axis.plot([0, 1], [0, 1], "--", color="0.6", linewidth=0.9, label="as scores say")
    if points:
        axis.plot(
            *zip(*points, strict=True),
            "-o",
            color=RED,
            markersize=4,
            clip_on=False,
            label="as it is",
        )
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.set_title(plot_text(name), fontsize=9, loc="left")
    figures = f"ECE {calibration.ece:.4f}\nBrier {calibration.brier:.4f}"
    axis.text(0.97, 0.05, figures, ha="right", transform=axis.transAxes)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    tidy(axis)
