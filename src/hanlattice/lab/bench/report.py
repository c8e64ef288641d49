"""What was measured, as tables, a plot and a JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hanlattice.evaluation.report import Table
from hanlattice.files import atomic_write
from hanlattice.lab.bench.inputs import CHARACTER
from hanlattice.lab.bench.sections import PLAIN, SMALL_BATCH
from hanlattice.text.display import counted
from hanlattice.theme import BLUE, RED, plot, plot_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What a plot's axes show.
BATCHES = "batch size (sentences)"
LENGTHS = "characters of a sentence"

_RATE = (("sentences_per_second", ",.1f"), ("ratio", ".2f"))
Content = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, headings, rows


def write_json(record: dict[str, Any], path: Path) -> None:
    with atomic_write(path) as file:
        json.dump(record, file, ensure_ascii=False, indent=2)
        file.write("\n")


def write_files(record: dict[str, Any], out: Path | None, picture: Path | None) -> None:
    """Write the files that were asked for, after each section: an interrupt loses nothing."""
    if out is not None:
        write_json(record, out)
    if picture is not None and record.keys() & {"encoder", "training", "lengths"}:
        draw(record, picture)


def table(section: str, record: dict[str, Any]) -> Table:
    """Return the table of one section of a record."""
    made = {"checks": _checks, "encoder": _encoder, "training": _training, "tagging": _tagging}
    made |= {"lengths": _lengths, "models": _models}
    title, headings, rows = made[section](record)
    return Table(title, tuple(headings), tuple(map(tuple, rows)), words=0)


def _checks(record: dict[str, Any]) -> Content:
    """Find the largest difference over all cases of an op, a backend and a precision."""
    worst: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in record["checks"]:
        key = row["op"], row["backend"], row["precision"]
        if key not in worst or row["difference"] > worst[key]["difference"]:
            worst[key] = row
    rows = [
        [*key, f"{row['difference']:.1e}", f"{row['tolerance']:.0e}", row["worst"]]
        for key, row in worst.items()
    ]
    headings = ("op", "backend", "precision", "largest difference", "allowed", "where")
    return "Equality with the reference, of values and gradients (relative norm)", headings, rows


def _encoder(record: dict[str, Any]) -> Content:
    cells = _grouped(record["encoder"], "hidden", "batch", "what", by="encoder")
    names = _names(cells)[1:]
    headings = ["H", "B", "", f"{PLAIN} ms", "auto ms", *(f"{name} ×" for name in names)]
    headings += ["sentences/s", f"{PLAIN} MiB", "auto MiB"]
    short = {"forward": "forward", "forward + backward": "both"}
    rows = []
    for (hidden, batch, what), cell in cells.items():
        ratios = [_number(cell.get(name), "ratio", ".2f") for name in names]
        times = [_milliseconds(cell[name]["seconds"]) for name in (PLAIN, "auto")]
        rate = _number(cell["auto"], "sentences_per_second", ",.0f")
        peaks = [_mebibytes(cell[name]["peak_bytes"]) for name in (PLAIN, "auto")]
        rows.append([str(hidden), f"{batch:,}", short[what], *times, *ratios, rate, *peaks])
    stands_for = cells and next(iter(cells.values()))["auto"]["backend"]
    settings = record["settings"]
    machine = record["machine"]
    title = (
        f"Encoder on {machine['gpu'] or machine['cpu']}, bidirectional, T = {settings['length']}, "
        f"D = {settings['dim']}, a word a character, forward or both: forward + backward; "
        f"× is time over {PLAIN}'s; auto is {stands_for}, and sentences/s are its; "
        "the lattice's index arrays are made once, as x is; "
        "MiB is what forward + backward needs at its peak, beyond what was there"
    )
    return title, headings, rows


def _training(record: dict[str, Any]) -> Content:
    cells = _grouped(record["training"], "hidden", "batch", by="model")
    names = _names(cells)
    rates = (f"{_model(name)} sentences/s" for name in names)
    ratios = (f"{_model(name)} ×" for name in names[1:])
    headings = ["H", "B", *rates, *ratios]
    rows = []
    for (hidden, batch), cell in cells.items():
        rates = (_number(cell.get(name), "sentences_per_second", ",.1f") for name in names)
        ratios = (_number(cell.get(name), "ratio", ".2f") for name in names[1:])
        rows.append([str(hidden), f"{batch:,}", *rates, *ratios])
    title = (
        "Training step: a new batch, loss with CRF, backward, clipping, AdamW; "
        f"× is time over the {CHARACTER}'s, which packs its sentences"
    )
    return title, headings, rows


def _tagging(record: dict[str, Any]) -> Content:
    headings = ["H", "model", "sentences/s", "characters/s", "×"]
    headings += ["words a character", "spans a sentence"]
    rows = []
    for row in record["tagging"]:
        rates = [f"{row[name]:,.0f}" for name in ("sentences_per_second", "characters_per_second")]
        ratios = (row["ratio"], row["words"] / row["characters"], row["spans"] / row["texts"])
        cells = (f"{ratio:.2f}" for ratio in ratios)
        rows.append([str(row["hidden"]), _model(row["model"]), *rates, *cells])
    words = record["settings"]["words"]
    texts = record["tagging"][0]["texts"]
    title = (
        f"Raw text to spans, {texts:,} texts of unequal length, {words:,} made words; "
        f"× is time over the {CHARACTER}'s, which packs its sentences"
    )
    return title, headings, rows


def _lengths(record: dict[str, Any]) -> Content:
    cells = _grouped(record["lengths"], "hidden", "length", "what", by="model")
    headings = ["H", "T"]
    rows = dict[tuple[int, int], list[str]]()
    for what in ("training", "tagging"):
        headings += [f"{what}: {CHARACTER} sentences/s", "lattice sentences/s", "×"]
    for (hidden, length, _), cell in cells.items():
        rates = (
            _number(cell[name], "sentences_per_second", ",.1f") for name in (CHARACTER, "auto")
        )
        row = rows.setdefault((hidden, length), [str(hidden), str(length)])
        row += [*rates, _number(cell["auto"], "ratio", ".2f")]
    title = (
        f"By length: sentences of T characters, a word a character. Training step of {SMALL_BATCH} "
        "sentences, and raw text to spans; "
        f"× is time over the {CHARACTER}'s, which packs its sentences"
    )
    return title, headings, list(rows.values())


def _models(record: dict[str, Any]) -> Content:
    cells = _grouped(record["models"], "hidden", "model", by="what")
    headings = ["H", "lattice", "training sentences/s", "×", "tagging sentences/s", "×"]
    rows = []
    for (hidden, name), cell in cells.items():
        figures = ((cell[what], form) for what in ("training", "tagging") for form in _RATE)
        rows.append([str(hidden), name, *(_number(row, key, form) for row, (key, form) in figures)])
    title = (
        f"Lattices: training step of {SMALL_BATCH} sentences, and raw text to spans, "
        "a word a character; "
        "× is time over that of the plain lattice of as many layers"
    )
    return title, headings, rows


def _grouped(
    rows: Iterable[dict[str, Any]], *keys: str, by: str
) -> dict[tuple[Any, ...], dict[str, dict[str, Any]]]:
    """Return the rows of each cell, by name."""
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault(tuple(row[key] for key in keys), {})[row[by]] = row
    return cells


def _names(cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]]) -> list[str]:
    return list(dict.fromkeys(name for cell in cells.values() for name in cell))


def _model(name: str) -> str:
    return name if name == CHARACTER else f"lattice, {name}"


def _number(row: dict[str, Any] | None, name: str, form: str) -> str:
    return "" if row is None else format(row[name], form)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.3f}" if seconds < 0.01 else f"{1000 * seconds:,.1f}"


def _mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:,.1f}"


class Line(NamedTuple):
    label: str
    colour: str
    dashed: bool
    points: list[tuple[int, float]]  # batch size or length, sentences/s


class Panel(NamedTuple):
    title: str
    lines: list[Line]
    across: str = BATCHES


def draw(record: dict[str, Any], path: Path) -> None:
    """Plot a panel for each H of encoder and training step, and below them panels by length."""
    every = list(panels(record))
    by_axis = ([panel for panel in every if panel.across == name] for name in (BATCHES, LENGTHS))
    rows = [row for row in by_axis if row]
    columns = max(map(len, rows))
    with plot(path, 1 + 3.4 * columns, 4.8 * len(rows)) as figure:
        grid = figure.subplots(len(rows), columns, sharey="row", squeeze=False)
        for axes, row in zip(grid, rows, strict=True):
            for axis, panel in zip(axes, row, strict=False):
                _draw_panel(axis, panel)
            for axis in axes[len(row) :]:
                axis.set_visible(False)
            axes[0].set_ylabel("sentences per second")
        machine = record["machine"]
        settings = record["settings"]
        where = machine["gpu"] or f"{machine['cpu']}, {counted(machine['threads'], 'thread')}"
        lengths = {BATCHES: f"{settings['length']}"}
        lengths[LENGTHS] = f"{min(settings['lengths'])} to {max(settings['lengths'])}"
        sizes = "; below, ".join(lengths[row[0].across] for row in rows)
        title = f"Sentences of {sizes} characters, a word a character"
        figure.suptitle(f"{title} · {plot_text(where)}", fontsize=10)


def panels(record: dict[str, Any]) -> Iterator[Panel]:
    for hidden in record["settings"]["hidden"]:
        if rows := [row for row in record.get("encoder", ()) if row["hidden"] == hidden]:
            lines = [
                Line(
                    f"{label}, {what}",
                    colour,
                    what == "forward",
                    points(rows, encoder=name, what=what),
                )
                for what in ("forward", "forward + backward")
                for name, label, colour in ((PLAIN, PLAIN, BLUE), ("auto", "lattice LSTM", RED))
            ]
            yield Panel(f"Encoder, H = {hidden}", lines)
    for hidden in record["settings"]["hidden"]:
        if rows := [row for row in record.get("training", ()) if row["hidden"] == hidden]:
            names = ((CHARACTER, CHARACTER, BLUE), ("auto", "lattice LSTM", RED))
            lines = [
                Line(f"{label} + CRF", colour, False, points(rows, model=name))
                for name, label, colour in names
            ]
            yield Panel(f"Training step, H = {hidden}", lines)
    titles = {"training": f"Training step, B = {SMALL_BATCH}", "tagging": "Raw text to spans"}
    for hidden in record["settings"]["hidden"] if "lengths" in record else ():
        rows = [row for row in record["lengths"] if row["hidden"] == hidden]
        for what, title in titles.items():
            lines = [
                Line(f"{label} + CRF", colour, False, points(rows, "length", model=name, what=what))
                for name, label, colour in (
                    (CHARACTER, CHARACTER, BLUE),
                    ("auto", "lattice LSTM", RED),
                )
            ]
            yield Panel(f"{title}, H = {hidden}", lines, LENGTHS)


def points(
    rows: Iterable[dict[str, Any]], across: str = "batch", **which: str
) -> list[tuple[int, float]]:
    chosen = [row for row in rows if all(row[key] == value for key, value in which.items())]
    return sorted((row[across], row["sentences_per_second"]) for row in chosen)


def _draw_panel(axis: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for line in panel.lines:
        style = "--" if line.dashed else "-"
        places, rates = zip(*line.points, strict=True)
        axis.plot(places, rates, style, color=line.colour, marker="o", ms=4, label=line.label)
    axis.set(xscale="log", yscale="log", xlabel=panel.across, title=panel.title)
    ticks = sorted({place for line in panel.lines for place, _ in line.points})
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    form = FuncFormatter(lambda rate, _: f"{rate:,.0f}" if rate >= 1 else f"{rate:g}")
    axis.yaxis.set_major_formatter(form)
    axis.yaxis.set_minor_locator(NullLocator())
    axis.margins(x=0.07)
    tidy(axis)
    axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.15))
