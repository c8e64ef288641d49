"""Calibration as a picture: for each file the share that is right against the score, and under it how many spans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hanlattice.evaluation.calibration import Calibration
from hanlattice.extras import quiet
from hanlattice.files import writing
from hanlattice.style import BLUE as OTHER
from hanlattice.style import RED as LATTICE
from hanlattice.text.display import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(files: Mapping[str, Calibration], path: Path) -> None:
    """A column for each file, by the name that it is given. matplotlib is asked for only here."""
    import matplotlib
    from matplotlib.figure import Figure

    # Text that stays text, and the same bytes for the same figures.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}):
        figure = Figure(figsize=(0.6 + 3.4 * len(files), 4.8), layout="constrained")
        grid = figure.subplots(2, len(files), squeeze=False, sharex=True, height_ratios=(3, 1))
        for (share, counts), (name, made) in zip(grid.T, files.items(), strict=True):
            _draw_share(share, name, made)
            _draw_counts(counts, made)
        grid[0, 0].set_ylabel("share that is right")
        grid[1, 0].set_ylabel("spans")
        with quiet("matplotlib"), writing(path, binary=True) as file:  # it misses glyphs that a viewer has
            kind = path.suffix.lower().removeprefix(".")
            figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def _draw_share(axis: Axes, name: str, made: Calibration) -> None:
    points = [(each.score, each.share) for each in made.width if each.score is not None and each.share is not None]
    axis.plot([0, 1], [0, 1], "--", color="0.6", linewidth=0.9, label="as scores say")
    if points:
        axis.plot(*zip(*points, strict=True), "-o", color=LATTICE, markersize=4, clip_on=False, label="as it is")
    axis.set(xlim=(0, 1), ylim=(0, 1.02))
    axis.set_title(_plain(name), fontsize=9, loc="left")
    axis.text(0.97, 0.05, f"ECE {made.ece:.4f}\nBrier {made.brier:.4f}", ha="right", transform=axis.transAxes)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    _tidy(axis)


def _draw_counts(axis: Axes, made: Calibration) -> None:
    """On a logarithmic scale: most spans of a good model have a score near 1."""
    centres = [(each.low + each.high) / 2 for each in made.width]
    axis.bar(centres, [each.count for each in made.width], width=0.9 / len(centres), color=OTHER)
    axis.set(xlabel="score", xlim=(0, 1))
    if made.count:
        axis.set_yscale("log", nonpositive="clip")
        axis.set_ylim(0.5, 2.0 * max(each.count for each in made.width))
    _tidy(axis)


def _tidy(axis: Axes) -> None:
    axis.grid(color="0.88", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _plain(text: str) -> str:
    """Dollar signs begin mathematics in matplotlib, and a picture cannot carry everything."""
    return visible(text).replace("$", r"\$")
