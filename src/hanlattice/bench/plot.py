"""Rates against batch size, as a picture. matplotlib is asked for only here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanlattice.bench.encoder import PLAIN
from hanlattice.bench.made import CHARACTER
from hanlattice.errors import InputError
from hanlattice.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".svg", ".png")
LATTICE, OTHER = "#c1272d", "#3b5b92"


class Line(NamedTuple):
    label: str
    colour: str
    dashed: bool
    points: list[tuple[int, float]]  # batch size, sentences/s


class Panel(NamedTuple):
    title: str
    lines: list[Line]


def check_plot(path: Path) -> None:
    """Say before anything is measured that no plot can be drawn."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a plot is a {' or '.join(SUFFIXES)} file, and this name ends in {path.suffix!r}", path)
    if find_spec("matplotlib") is None:
        raise InputError("the plot needs matplotlib: pip install 'hanlattice[plot]'", path)


def draw(record: dict[str, Any], path: Path) -> None:
    """What a record has: a panel for each H of the encoder, and of the training step."""
    import matplotlib
    from matplotlib.figure import Figure

    found = list(panels(record))
    # Text that stays text, and the same bytes for the same record.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}):
        figure = Figure(figsize=(1 + 3.4 * len(found), 4.8), layout="constrained")
        axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for axis, panel in zip(axes, found, strict=True):
            _draw_panel(axis, panel)
        axes[0].set_ylabel("sentences per second")
        machine, length = record["machine"], record["settings"]["length"]
        where = machine["gpu"] or f"{machine['cpu']}, {machine['threads']} threads"
        figure.suptitle(f"Sentences of {length} characters, a word a character · {where}", fontsize=10)
        with writing(path, binary=True) as file:
            kind = path.suffix.lower().removeprefix(".")
            figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def panels(record: dict[str, Any]) -> Iterator[Panel]:
    for hidden in record["settings"]["hidden"]:
        rows = [row for row in record.get("encoder", ()) if row["hidden"] == hidden]
        names = ((PLAIN, PLAIN, OTHER), ("auto", "lattice LSTM", LATTICE))
        lines = [
            Line(f"{label}, {what}", colour, what == "forward", points(rows, encoder=name, what=what))
            for what in ("forward", "forward + backward")
            for name, label, colour in names
        ]
        if rows:
            yield Panel(f"Encoder, H = {hidden}", lines)
    for hidden in record["settings"]["hidden"]:
        rows = [row for row in record.get("training", ()) if row["hidden"] == hidden]
        names = ((CHARACTER, CHARACTER, OTHER), ("auto", "lattice LSTM", LATTICE))
        lines = [Line(f"{label} + CRF", colour, False, points(rows, model=name)) for name, label, colour in names]
        if rows:
            yield Panel(f"Training step, H = {hidden}", lines)


def points(rows: Iterable[dict[str, Any]], **which: str) -> list[tuple[int, float]]:
    chosen = [row for row in rows if all(row[key] == value for key, value in which.items())]
    return sorted((row["batch"], row["sentences_per_second"]) for row in chosen)


def _draw_panel(axis: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for line in panel.lines:
        style = "--" if line.dashed else "-"
        axis.plot(*zip(*line.points, strict=True), style, color=line.colour, marker="o", markersize=4, label=line.label)
    axis.set(xscale="log", yscale="log", xlabel="batch size (sentences)", title=panel.title)
    batches = sorted({batch for line in panel.lines for batch, _ in line.points})
    axis.set_xticks(batches, [f"{batch:,}" for batch in batches])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}" if rate >= 1 else f"{rate:g}"))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.margins(x=0.07)
    axis.grid(color="0.88", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15))
