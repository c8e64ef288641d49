"""A table as a value: shown in a terminal, in Markdown, as plain text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hanlattice.text.display import visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# A cell without a figure.
NONE = "–"
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&#~])")


@dataclass(frozen=True)
class Table:
    """A table whose cells are formatted text.

    The first `words` columns and the last `notes` columns are text, aligned left. The columns
    between them are numbers, aligned right.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    notes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the table as plain values, for JSON."""
        return asdict(self)

    def text(self) -> str:
        """Return title, headings and rows in straight columns, for output without colours."""
        rows = [self.headings, *([visible(cell) for cell in row] for row in self.rows)]
        lines = ("  ".join(cells).rstrip() for cells in self._padded(rows))
        return "\n".join([self.title, *lines, ""])

    def markdown(self, *, aligned: bool = False, plain: bool = False) -> Iterator[str]:
        """Yield the lines of a Markdown table, without the title.

        Args:
            aligned: keep columns straight in a terminal too. Only `|` is escaped then, because a
                terminal would show every other escape.
            plain: take cells as Markdown, without escapes, and align no column right.
        """
        if plain:
            yield f"| {' | '.join(self.headings)} |"
            yield "|" + "---|" * len(self.headings)
            yield from (f"| {' | '.join(row)} |" for row in self.rows)
            return
        is_text = [self._is_text(column) for column in range(len(self.headings))]
        if aligned:
            all_rows = (self.headings, *self.rows)
            cells = [[cell.replace("|", "\\|") for cell in row] for row in all_rows]
            rows = list(self._padded(cells, least=3))
            widths = [len_of(cell) for cell in rows[0]]
        else:
            rows = [[*self.headings]]
            for row in self.rows:
                cells_of_row = zip(row, is_text, strict=True)
                rows.append([escaped(cell) if text else cell for cell, text in cells_of_row])
            widths = [3 if text else 4 for text in is_text]
        columns = zip(widths, is_text, strict=True)
        rule = ["-" * width if text else "-" * (width - 1) + ":" for width, text in columns]
        yield from (f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))

    def rich(self, *, fold: bool = True, no_wrap: Collection[int] = (), **look: Any) -> RichTable:
        """Return the table for a rich console.

        Args:
            fold: break a word that is too long for its column; without it, end in an ellipsis.
            no_wrap: the columns that are never broken.
            look: arguments of rich's own table (box, caption, …).
        """
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(visible(self.title), style="table.title") if self.title else None
        table = RichTable(title=title, title_justify="left", **look)
        overflow: Any = "fold" if fold else "ellipsis"
        for index, heading in enumerate(self.headings):
            justify: Any = "left" if self._is_text(index) else "right"
            no_break = index in no_wrap
            table.add_column(Text(heading), justify=justify, overflow=overflow, no_wrap=no_break)
        for row in self.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        return table

    def __rich__(self) -> RichTable:
        return self.rich()

    def _is_text(self, column: int) -> bool:
        return column < self.words or column >= len(self.headings) - self.notes

    def _padded(self, rows: Iterable[Sequence[str]], least: int = 0) -> Iterator[list[str]]:
        cells = list(rows)
        widths = [max(least, *map(len_of, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = []
            for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
                space = " " * (width - len_of(cell))
                padded.append(cell + space if self._is_text(index) else space + cell)
            yield padded


def len_of(text: str) -> int:
    """Return the columns that a text takes in a terminal, two for a Chinese character."""
    from rich.cells import cell_len

    return cell_len(text)


def percent(share: float | None) -> str:
    """Return a share as per cent with two digits, or a dash for None."""
    return NONE if share is None else f"{100 * share:.2f}"


def count(number: int | None) -> str:
    """Return a number with thousands separators, or a dash for None."""
    return NONE if number is None else f"{number:,}"


def signed(number: float) -> str:
    """Return a number with its sign, or `0.00` if it rounds to zero."""
    text = f"{number:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def escaped(text: str) -> str:
    """Escape a text for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(text))
