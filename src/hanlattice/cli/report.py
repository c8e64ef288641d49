"""A table of precision, recall and F1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table


def score_table(report: Mapping[str, Any], title: str) -> Table:
    """A row for all, one for each group, one for each type."""
    table = Table(title=escape(title), title_justify="left")
    table.add_column("type")
    for heading in ("precision", "recall", "F1", "gold", "found", "correct"):
        table.add_column(heading, justify="right")
    for name, score in {"all": report["overall"], **report["groups"], **report["by_type"]}.items():
        ratios = [f"{100 * score[key]:.2f}" for key in ("precision", "recall", "f1")]
        table.add_row(escape(name), *ratios, *(f"{score[key]:,}" for key in ("gold", "predicted", "correct")))
    return table
