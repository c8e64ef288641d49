"""A table as a value: shown in a terminal, in Markdown, as plain text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hanlattice.text.display import visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NONE = "–"  # a cell without a figure
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&#~])")


@dataclass(frozen=True)
class Table:
    """Cells are text, formatted already. The first `words` columns are aligned left, the others, numbers, right."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """Lines for a place without colours: the title, the headings, the rows, in straight columns."""
        lines = ("  ".join(cells).rstrip() for cells in self._padded([self.headings, *self.rows]))
        return "\n".join([self.title, *lines, ""])

    def markdown(self, *, aligned: bool = False) -> Iterator[str]:
        """The lines of a Markdown table, without the title. `aligned`: columns also stand straight in a terminal."""
        rows = [
            self.headings,
            *([escaped(cell) for cell in row[: self.words]] + [*row[self.words :]] for row in self.rows),
        ]
        rule = ["---" if at < self.words else "---:" for at in range(len(self.headings))]
        if aligned:
            rows = list(self._padded([[*row] for row in rows], least=3))
            rule = [
                "-" * (len_of(cell) - (at >= self.words)) + ":" * (at >= self.words) for at, cell in enumerate(rows[0])
            ]
        yield from (f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))

    def rich(self, **look: Any) -> RichTable:
        """For a rich console; `look` goes to rich's own table (box, show_edge, …)."""
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(title=Text(visible(self.title)), title_justify="left", **look)
        for at, heading in enumerate(self.headings):
            shown.add_column(Text(heading), justify="left" if at < self.words else "right", overflow="fold")
        for row in self.rows:
            shown.add_row(*(Text(visible(cell)) for cell in row))
        return shown

    def _padded(self, rows: Iterable[Iterable[str]], least: int = 0) -> Iterator[list[str]]:
        cells = [list(row) for row in rows]
        widths = [max(least, *map(len_of, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            spaces = [" " * (width - len_of(cell)) for cell, width in zip(row, widths, strict=True)]
            yield [c + s if at < self.words else s + c for at, (c, s) in enumerate(zip(row, spaces, strict=True))]


def len_of(text: str) -> int:
    """In columns of a terminal, where a Chinese character takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.2f}"


def signed(number: float) -> str:
    """With a sign, unless it is rounded to nothing."""
    text = f"{number:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def escaped(text: str) -> str:
    """Text in Markdown, on one line, that means nothing but itself."""
    return _SPECIAL.sub(r"\\\1", visible(text))
