"""How everything that hanlattice draws looks: one palette, one page shell, one style of plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanlattice.errors import InputError
from hanlattice.extras import quiet
from hanlattice.files import writing
from hanlattice.text.display import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT_SUFFIXES = (".svg", ".png")
RED, BLUE = "#c1272d", "#3b5b92"  # what a plot is about, and what stands beside it


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def check_plot(path: Path) -> None:
    """Refuse a plot that cannot be drawn, before any work is done for it."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise InputError(f"a plot is a {' or '.join(PLOT_SUFFIXES)} file, and this name ends in {path.suffix!r}", path)
    if not can_plot():
        raise InputError("the plot needs matplotlib: pip install 'hanlattice[plot]'", path)


@contextmanager
def plot(path: Path, width: float, height: float) -> Iterator[Any]:
    """A matplotlib figure, saved to `path` at the end. Text stays text, and the same data gives the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        kind = path.suffix.lower().removeprefix(".")
        with quiet("matplotlib"), writing(path, binary=True) as file:  # it misses glyphs that a viewer has
            figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def tidy(axis: Axes, grid: str = "both") -> None:
    """A light grid, and no frame above and to the right."""
    axis.grid(axis=grid, color="0.88", linewidth=0.6)  # type: ignore[arg-type]
    axis.spines[["top", "right"]].set_visible(False)


def plot_text(text: str) -> str:
    """Text for a plot, where a dollar sign would begin mathematics."""
    return visible(text).replace("$", r"\$")
