"""Tables of precision, recall and F1, and of the words that a segmenter misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hanlattice.data.jsonl import to_json
from hanlattice.evaluation.segmentation.rows import NONE, percent, rows
from hanlattice.text.display import visible

INSTEAD = 3  # readings that are shown of a missed word

WorstWords = Annotated[int, typer.Option("--words", min=0, help="How many of the most often missed words to show.")]


def show(report: dict[str, Any], title: str, words: int, as_json: bool) -> None:
    """A report as a table, of a segmenter with so many of the words that it misses, or all of it as JSON."""
    worst = report.get("segmentation", {}).get("worst", [])
    missed = len(worst)
    del worst[words:]
    if as_json:
        typer.echo(to_json(report, indent=2))
        return
    console = Console()
    console.print(score_table(report, title))
    if worst:
        console.print(worst_table(worst, f"missed most often: {len(worst):,} of {missed:,} words"))


def score_table(report: Mapping[str, Any], title: str) -> Table:
    """A row for all, one for each group, one for each type; of a segmenter, one for each way of counting."""
    segmentation = report.get("segmentation", {})
    is_scored = "bakeoff" in segmentation
    named = {"all": report["overall"], **report["groups"], **report["by_type"]}.items()
    table = Table(title=escape(visible(title)), title_justify="left")
    table.add_column("words" if is_scored else "type")
    for heading in ("precision", "recall", "F1", "gold", "found", "correct"):
        table.add_column(heading, justify="right")
    for name, score in rows(segmentation) if is_scored else named:
        ratios = (percent(score.get(key)) for key in ("precision", "recall", "f1"))
        table.add_row(
            escape(visible(name)), *ratios, *(_count(score.get(key)) for key in ("gold", "predicted", "correct"))
        )
    return table


def _count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def worst_table(words: Sequence[Mapping[str, Any]], title: str) -> Table:
    """The words that were missed most often, and what was found in their place."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("word", overflow="fold")
    for heading in ("gold", "missed", "training"):
        table.add_column(heading, justify="right")
    table.add_column("found instead", overflow="fold")
    for word in words:
        known = {True: "IV", False: "OOV", None: NONE}[word["known"]]
        shown = Text(visible(word["word"])), Text(visible(_instead(word["instead"])))
        table.add_row(shown[0], _count(word["count"]), _count(word["missed"]), known, shown[1])
    return table


def _instead(readings: Sequence[Mapping[str, Any]]) -> str:
    """The most frequent readings: `江|泽民 ×10` where the word was cut, `in 江泽民主席 ×2` where it was joined."""
    told = [
        f"{'in ' if len(each['words']) == 1 else ''}{'|'.join(each['words'])} ×{each['count']:,}"
        for each in readings[:INSTEAD]
    ]
    more = len(readings) - len(told)
    return ", ".join([*told, f"and {more:,} more"] if more else told)
