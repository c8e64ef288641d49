"""The summary as Markdown, in columns that also stand straight in a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Column = tuple[str, Callable[[Row], str]]

NONE = "–"


def markdown(summary: Mapping[str, Any]) -> str:
    """One table for each section, and what is to be known about them."""
    parts = [_section(section, summary) for section in summary["sections"]]
    failures = [f"- {name}: {_one_line(failure['reason'])}" for name, failure in summary["failures"].items()]
    if failures:
        parts.append("\n".join(["## What failed", "", *failures, ""]))
    return "\n".join(parts)


def _section(section: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    rows, columns = section["rows"], list(_columns(section, summary))
    filled = [[heading, *(cell(row) for row in rows)] for heading, cell in columns]
    shown = [column for at, column in enumerate(filled) if at < 2 or any(text != NONE for text in column[1:])]
    lines = _aligned(list(zip(*shown, strict=True)))
    return "\n".join([f"## {section['name']}", "", *lines, "", *_notes(section, summary), ""])


def _columns(section: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterable[Column]:
    """Heading and cell of every column that there may be; one without any figure is left out."""
    against, rows = section["against"], section["rows"]
    named = next((row for row in rows if row["name"] == against), None)
    yield "model", lambda row: str(row["name"])
    yield "seeds", _seeds
    if section["part"] == "test":
        yield "dev F1", lambda row: _spread(row["dev"]["f1"])
    for heading, figure in (("P", "precision"), ("R", "recall"), ("F1", "f1")):
        yield heading, lambda row, figure=figure: _spread(row["scores"][figure])  # type: ignore[misc]
    for heading, which in (("OOV R", "oov"), ("IV R", "iv")):
        yield heading, lambda row, which=which: _spread((row["segmentation"] or {}).get(which))  # type: ignore[misc]
    for group in sorted({group for row in rows for group in row["groups"]}):
        yield f"{group} F1", lambda row, group=group: _spread(row["groups"].get(group))  # type: ignore[misc]
    yield f"F1 − {against}", lambda row: _points(row["difference"], "difference")
    yield "95 %", _interval
    yield "p", lambda row: _probability(row["difference"], summary["samples"])
    yield "paper", lambda row: NONE if row["paper"] is None else f"{row['paper']:.2f}"
    yield "F1 − paper", lambda row: NONE if row["over_paper"] is None else signed(row["over_paper"])
    yield "weights", lambda row: NONE if row["parameters"] is None else f"{row['parameters']:,}"
    for heading, what in (("train sent/s", "train"), ("decode sent/s", "decode")):
        yield heading, lambda row, what=what: _rate(row, named, what)  # type: ignore[misc]


def _seeds(row: Row) -> str:
    done, wanted = len(row["seeds"]), row["wanted"]
    return str(done) if done == wanted else f"{done} of {wanted}"


def _spread(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return NONE
    deviation = "" if figure["deviation"] is None else f" ± {100 * figure['deviation']:.2f}"
    return f"{100 * figure['mean']:.2f}{deviation}"


def _points(difference: Mapping[str, float] | None, key: str) -> str:
    return NONE if difference is None else signed(100 * difference[key])


def _interval(row: Row) -> str:
    found = row["difference"]
    return NONE if found is None else f"{_points(found, 'low')} … {_points(found, 'high')}"


def _probability(difference: Mapping[str, float] | None, samples: int) -> str:
    if difference is None:
        return NONE
    p = difference["p"]
    return f"≤ {p:.2g}" if p * samples <= 1 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def _rate(row: Row, named: Row | None, what: str) -> str:
    if row["rates"] is None:
        return NONE
    rate = row["rates"][what]["sentences_per_second"]
    others = named["rates"] if named is not None and named is not row else None
    ratio = f" ({rate / others[what]['sentences_per_second']:.2f}×)" if others else ""
    return f"{rate:,.0f}{ratio}"


def signed(number: float) -> str:
    """With a sign, unless it is rounded to nothing."""
    text = f"{number:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def _notes(section: Mapping[str, Any], summary: Mapping[str, Any]) -> list[str]:
    rows = section["rows"]
    notes = ["Exact spans, per cent; ± is the deviation of a sample over seeds."]
    if any(row["segmentation"] for row in rows):
        notes.append("OOV R and IV R: recall of the words that training lacks and has, as the SIGHAN bakeoff counts.")
    if any(row["difference"] for row in rows):
        notes.append(f"95 % and p: paired bootstrap over sentences and seeds, {summary['samples']:,} samples.")
    machines = list(dict.fromkeys(_machine(row["rates"]) for row in rows if row["rates"]))
    if machines:
        against = f"; × is to {section['against']}" if section["against"] else ""
        notes.append(f"Rates: each row alone on {' or '.join(machines)}{against}.")
    if len(machines) > 1:
        notes.append("The rates were not taken in one place and cannot be compared: remove rates/ to take them anew.")
    return notes


def _machine(rates: Mapping[str, Any]) -> str:
    machine = rates["machine"]
    cores = f"{machine['cpu']}, {machine['threads']} thread{'s' if machine['threads'] > 1 else ''}"
    return str(machine["gpu"] or cores)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first column begins, the others end, at the same place in every line."""
    cells = [[_one_line(text).replace("|", "\\|") for text in row] for row in rows]
    widths = [max(3, *map(width, column)) for column in zip(*cells, strict=True)]
    lines = [
        _line([_pad(text, size, at > 0) for at, (text, size) in enumerate(zip(row, widths, strict=True))])
        for row in cells
    ]
    rule = _line(["-" * size if at == 0 else "-" * (size - 1) + ":" for at, size in enumerate(widths)])
    return [lines[0], rule, *lines[1:]]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _pad(text: str, size: int, right: bool) -> str:
    space = " " * (size - width(text))
    return space + text if right else text + space


def width(text: str) -> int:
    """In columns of a terminal, where a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)
