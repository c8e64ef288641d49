"""F1 of every run as a picture: a panel for each test file, a line for each row. matplotlib is asked for only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanlattice.extras import quiet
from hanlattice.files import writing
from hanlattice.style import BLUE as OTHER
from hanlattice.style import RED as LATTICE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(summary: Mapping[str, Any], path: Path) -> None:
    """Every seed a small dot, the mean a large one with its deviation, the paper's figure a bar."""
    import matplotlib
    from matplotlib.figure import Figure

    sections = summary["sections"]
    heights = [len(section["rows"]) + 2.2 for section in sections]
    # Text that stays text, and the same bytes for the same summary.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}):
        figure = Figure(figsize=(7.5, 0.32 * sum(heights)), layout="constrained")
        axes = figure.subplots(len(sections), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, section in zip(axes, sections, strict=True):
            _draw_section(axis, section, values(summary, section))
        with quiet("matplotlib"), writing(path, binary=True) as file:  # it misses glyphs that a viewer has
            figure.savefig(file, format="svg", metadata={"Date": None})


def values(summary: Mapping[str, Any], section: Mapping[str, Any]) -> list[list[float]]:
    """F1 in per cent of every run of each row."""
    stems = [Path(row["config"]).stem for row in section["rows"]]
    runs = summary["runs"].values()
    return [
        [100 * run["scores"][section["part"]]["overall"]["f1"] for run in runs if run["row"] == stem] for stem in stems
    ]


def _draw_section(axis: Axes, section: Mapping[str, Any], points: Sequence[Sequence[float]]) -> None:
    rows = section["rows"]
    for at, (row, found) in enumerate(zip(rows, points, strict=True)):
        colour = LATTICE if row["name"] == section["against"] else OTHER
        figure = row["scores"]["f1"]
        axis.plot(found, [at] * len(found), ".", color=colour, alpha=0.4, markersize=5)
        if figure is not None:
            deviation = 100 * (figure["deviation"] or 0.0)
            axis.errorbar(
                [100 * figure["mean"]], [at], xerr=[deviation], fmt="o", color=colour, markersize=6, capsize=3
            )
        if row["paper"] is not None:
            axis.plot([row["paper"]], [at], "|", color="0.35", markersize=14, markeredgewidth=1.6)
    axis.set_yticks(range(len(rows)), [_plain(row["name"]) for row in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    papers = " · bar: the paper's" if any(row["paper"] is not None for row in rows) else ""
    axis.set_xlabel(f"{section['part']} F1, per cent · dots: seeds, mean ± deviation{papers}")
    axis.set_title(_plain(section["name"]), fontsize=9, loc="left")
    axis.grid(axis="x", color="0.88", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _plain(text: str) -> str:
    """Dollar signs begin mathematics in matplotlib."""
    return text.replace("$", r"\$")
