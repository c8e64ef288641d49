"""What was measured, as tables of words: for the command line, and for places without rich."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hanlattice.bench.encoder import PLAIN
from hanlattice.bench.made import CHARACTER

Rows = list[dict[str, Any]]


class Table(NamedTuple):
    title: str
    headings: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]
        lines = [
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
            for row in (self.headings, *self.rows)
        ]
        return "\n".join([self.title, *lines, ""])


def table(section: str, record: dict[str, Any]) -> Table:
    """The table of one section of a record."""
    made: dict[str, Callable[[dict[str, Any]], Table]] = {
        "checks": _checks,
        "encoder": _encoder,
        "training": _training,
        "tagging": _tagging,
    }
    return made[section](record)


def _checks(record: dict[str, Any]) -> Table:
    """The largest difference over all cases of an op, a backend and a precision."""
    worst: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in record["checks"]:
        key = row["op"], row["backend"], row["precision"]
        if key not in worst or row["difference"] > worst[key]["difference"]:
            worst[key] = row
    rows = [[*key, f"{row['difference']:.1e}", f"{row['tolerance']:.0e}", row["worst"]] for key, row in worst.items()]
    headings = ["op", "backend", "precision", "largest difference", "allowed", "where"]
    return Table("Equality with the reference, of values and gradients (relative norm)", headings, rows)


def _encoder(record: dict[str, Any]) -> Table:
    cells = _grouped(record["encoder"], "hidden", "batch", "what", by="encoder")
    names = _names(cells)[1:]
    headings = ["H", "B", "", f"{PLAIN} ms", "auto ms", *(f"{name} ×" for name in names), "sentences/s"]
    gpu = record["machine"]["gpu"]
    headings += [f"{PLAIN} MiB", "auto MiB"]
    short, rows = {"forward": "forward", "forward + backward": "both"}, []
    for (hidden, batch, what), cell in cells.items():
        ratios = [_number(cell.get(name), "ratio", ".2f") for name in names]
        times = [_milliseconds(cell[name]["seconds"]) for name in (PLAIN, "auto")]
        rate = _number(cell["auto"], "sentences_per_second", ",.0f")
        peaks = [_mebibytes(cell[name]["peak_bytes"]) for name in (PLAIN, "auto")]
        rows.append([str(hidden), f"{batch:,}", short[what], *times, *ratios, rate, *peaks])
    memory = "MiB is what forward + backward needs at its peak, beyond what was there"
    stands_for = cells and next(iter(cells.values()))["auto"]["backend"]
    settings = record["settings"]
    title = (
        f"Encoder on {gpu or record['machine']['cpu']}, bidirectional, T = {settings['length']}, "
        f"D = {settings['dim']}, a word a character, forward or both: forward + backward; × is time over {PLAIN}'s; "
        f"auto is {stands_for}, and sentences/s are its; the lattice's index arrays are made once, as x is; {memory}"
    )
    return Table(title, headings, rows)


def _training(record: dict[str, Any]) -> Table:
    cells = _grouped(record["training"], "hidden", "batch", by="model")
    names = _names(cells)
    headings = [
        "H",
        "B",
        *(f"{_model(name)} sentences/s" for name in names),
        *(f"{_model(name)} ×" for name in names[1:]),
    ]
    rows = []
    for (hidden, batch), cell in cells.items():
        rates = [_number(cell.get(name), "sentences_per_second", ",.1f") for name in names]
        rows.append(
            [str(hidden), f"{batch:,}", *rates, *(_number(cell.get(name), "ratio", ".2f") for name in names[1:])]
        )
    title = (
        "Training step: a new batch, loss with CRF, backward, clipping, AdamW; "
        f"× is time over the {CHARACTER}'s, which packs its sentences"
    )
    return Table(title, headings, rows)


def _tagging(record: dict[str, Any]) -> Table:
    headings = ["H", "model", "sentences/s", "characters/s", "×", "words a character", "spans a sentence"]
    rows = []
    for row in record["tagging"]:
        rates = [f"{row[name]:,.0f}" for name in ("sentences_per_second", "characters_per_second")]
        words, spans = row["words"] / row["characters"], row["spans"] / row["texts"]
        rows.append(
            [str(row["hidden"]), _model(row["model"]), *rates, f"{row['ratio']:.2f}", f"{words:.2f}", f"{spans:.2f}"]
        )
    words, texts = record["settings"]["words"], record["tagging"][0]["texts"]
    title = (
        f"Raw text to spans, {texts:,} texts of unequal length, {words:,} made words; "
        f"× is time over the {CHARACTER}'s, which packs its sentences"
    )
    return Table(title, headings, rows)


def _grouped(rows: Rows, *keys: str, by: str) -> dict[tuple[Any, ...], dict[str, dict[str, Any]]]:
    """The rows of each cell, by name."""
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
