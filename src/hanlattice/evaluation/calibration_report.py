"""Calibration in words: tables for a terminal, and all of it as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hanlattice.evaluation.calibration import Bin, Calibration
from hanlattice.evaluation.mistakes.report import Table, escaped
from hanlattice.evaluation.segmentation.rows import NONE, percent
from hanlattice.text.display import counted


def summary(made: Calibration) -> str:
    """What is said in one line."""
    if not made.count:
        return "nothing was found, so there is nothing to judge"
    return (
        f"{counted(made.count, 'span')}: mean score {made.score:.4f}, {percent(made.share)} % right; "
        f"expected calibration error {made.ece:.4f} (bins of equal width), {made.ece_mass:.4f} (of equal count); "
        f"Brier score {made.brier:.4f}"
    )


def tables(made: Calibration) -> list[Table]:
    headings = ("score", "spans", "mean score", "right %")
    return [
        Table("By score", headings, tuple(map(_row, made.width))),
        Table("By score, bins of equally many spans", headings, tuple(map(_row, made.mass))),
        Table(
            "Where spans below a score are left out",
            ("min score", "precision", "recall", "F1", "spans", "kept %"),
            tuple(
                (
                    f"{each.min_score:g}",
                    percent(each.score.precision if each.score.predicted else None),
                    percent(each.score.recall if each.score.gold else None),
                    percent(each.score.f1 if each.score.gold or each.score.predicted else None),
                    f"{each.score.predicted:,}",
                    percent(each.coverage),
                )
                for each in made.thresholds
            ),
        ),
    ]


def _row(each: Bin) -> tuple[str, ...]:
    mean = NONE if each.score is None else f"{each.score:.4f}"
    return f"{_rounded(each.low)} to {_rounded(each.high)}", f"{each.count:,}", mean, percent(each.share)


def _rounded(number: float) -> str:
    return f"{number:.4f}".rstrip("0").removesuffix(".")


def markdown(files: Mapping[str, Calibration], about: str) -> str:
    """One document: a section for each file, by the name that it is given."""
    lines = ["# Calibration", "", escaped(about)]
    for name, made in files.items():
        lines += ["", f"## {escaped(name)}", "", summary(made)]
        for table in tables(made):
            lines += ["", f"{table.title}:", "", *_rows(table)]
    return "\n".join(lines) + "\n"


def _rows(table: Table) -> Iterator[str]:
    yield _line(table.headings)
    yield _line(["---:"] * len(table.headings))
    yield from map(_line, table.rows)


def _line(cells: Sequence[str] | Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
