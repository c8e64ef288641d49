"""How a training went: loss and held-out perplexity over the characters read, as JSON and as a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hanlattice.files import writing

TRAINED, HELD_OUT = "#3b5b92", "#c1272d"


def write_curve(folder: Path, direction: str, events: Iterable[dict[str, Any]]) -> str | None:
    """curve-DIRECTION.json, and the name of the picture beside it; None where matplotlib is missing."""
    names = ("characters", "loss", "perplexity", "seconds")
    points = [{name: event[name] for name in names} for event in events if event["event"] == "evaluate"]
    with writing(folder / f"curve-{direction}.json") as file:
        json.dump({"direction": direction, "points": points}, file, indent=1)
        file.write("\n")
    if find_spec("matplotlib") is None:
        return None
    name = f"curve-{direction}.svg"
    draw(points, direction, folder / name)
    return name


def draw(points: list[dict[str, Any]], direction: str, path: Path) -> None:
    """Perplexity of the text that was trained on (with dropout) since the point before, and of held-out text."""
    import math

    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    read = [point["characters"] / 1e6 for point in points]
    # Text that stays text, and the same bytes for the same points.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "hanlattice", "font.size": 9}):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axis = figure.subplots()
        trained = [math.exp(min(point["loss"], 50.0)) for point in points]
        axis.plot(read, trained, color=TRAINED, marker=".", label="trained on, with dropout")
        axis.plot(read, [point["perplexity"] for point in points], color=HELD_OUT, marker=".", label="held out")
        axis.set(xlabel="characters read, in millions", ylabel="perplexity of a character", yscale="log")
        for which in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter):
            which(ScalarFormatter())  # 20, not 2 × 10¹
        axis.set_title(f"Language model, {direction}", fontsize=10)
        axis.grid(color="0.88", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
        with writing(path, binary=True) as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
