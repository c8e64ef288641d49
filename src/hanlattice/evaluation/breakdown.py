"""One model's scores by sentence length and by the share of its lexicon: tables and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanlattice.evaluation.ner import LONG, Score
from hanlattice.evaluation.report import Table, count
from hanlattice.theme import BLUE, RED, plot, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Classes of sentences, in characters.
LENGTHS = ((1, 20), (21, 40), (41, 60), (61, 80), (81, 100), (101, LONG - 1))
NAMES = (*(f"{low}–{high}" for low, high in LENGTHS), f"{LONG} or more")
# Of the lexicon's words.
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

# A row of `evaluate --json`: its class, the size of that class, and the score.
Row = Mapping[str, Any]


def places_by_length(lengths: Iterable[int]) -> dict[str, list[int]]:
    """Return the indices of the sentences in each class of length; every sentence is in one."""
    places: dict[str, list[int]] = {name: [] for name in NAMES}
    for index, length in enumerate(lengths):
        places[NAMES[sum(length > high for _, high in LENGTHS)]].append(index)
    return places


# The parts of a report by key: title, and the columns with a row's name and its size.
_PARTS = {
    "by_sentence_length": ("By length of the sentence", "characters", "sentences"),
    "by_lexicon_share": ("By share of the lexicon", "share", "places"),
}


def tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield a table for each part that the report has."""
    for key, (title, name, size) in _PARTS.items():
        if key not in report:
            continue
        rows = []
        for row in report[key]:
            score = Score(row["gold"], row["predicted"], row["correct"])
            counts = map(count, (score.gold, score.predicted, score.correct))
            rows.append((_name(row, name), count(row[size]), *score.cells(), *counts))
        words = report[key][-1].get("words")
        headings = (name, size, "precision", "recall", "F1", "gold", "found", "correct")
        whole = title if words is None else f"{title}, of {words:,} words"
        yield Table(whole, headings, tuple(rows))


def _name(row: Row, name: str) -> str:
    return f"{100 * row[name]:.0f} %" if name == "share" else str(row[name])


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Plot precision, recall and F1 of each part, and below them the sizes of the classes."""
    parts = [(report[key], *facts) for key, facts in _PARTS.items() if key in report]
    with plot(path, 0.6 + 4.2 * len(parts), 4.4) as figure:
        grid = figure.subplots(2, len(parts), squeeze=False, sharex="col", height_ratios=(3, 1))
        for (scores, counts), (rows, title, name, bars) in zip(grid.T, parts, strict=True):
            _draw_scores(scores, rows)
            scores.set_title(title, fontsize=9, loc="left")
            counts.bar(range(len(rows)), [row[bars] for row in rows], width=0.7, color=BLUE)
            counts.set_axisbelow(True)
            labels = [_name(row, name).replace(" or more", "+") for row in rows]
            counts.set_xticks(range(len(rows)), labels, fontsize=8)
            counts.set(xlabel={"share": "words of the lexicon"}.get(name, name), ylabel=bars)
            tidy(counts, "y")
        grid[0, 0].set_ylabel("per cent")


def _draw_scores(axis: Axes, rows: Sequence[Row]) -> None:
    # A class without spans has no score.
    places = [index for index, row in enumerate(rows) if row["gold"] or row["predicted"]]
    for name, label, colour, style in (
        ("precision", "precision", BLUE, "--"),
        ("recall", "recall", BLUE, ":"),
        ("f1", "F1", RED, "-"),
    ):
        scores = [100 * rows[index][name] for index in places]
        axis.plot(places, scores, style, color=colour, marker="o", ms=4, label=label)
    axis.legend(frameon=False, fontsize=8)
    tidy(axis)
