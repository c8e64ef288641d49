"""A table as a value: shown in a terminal, in Markdown, as plain text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hanlattice.text.display import visible

if TYPE_CHECKING:
    from rich.table import Table as RichTable

NONE = "–"  # a cell without a figure
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&#~])")


@dataclass(frozen=True)
class Table:
    """Cells are text, formatted already.

    The first `words` columns and the last `notes` columns are text and aligned left; those between
    are numbers and aligned right.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    notes: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """Lines for a place without colours: the title, the headings, the rows, in straight
        columns.
        """
        rows = [self.headings, *([visible(cell) for cell in row] for row in self.rows)]
        lines = ("  ".join(cells).rstrip() for cells in self._padded(rows))
        return "\n".join([self.title, *lines, ""])

    def markdown(self, *, aligned: bool = False, plain: bool = False) -> Iterator[str]:
        """The lines of a Markdown table, without the title.

        `aligned`: columns are straight in a terminal too, which would show other escapes than that
        of a bar. `plain`: cells as they are, which may be Markdown themselves, and no column
        aligned to the right.
        """
        if plain:
            yield f"| {' | '.join(self.headings)} |"
            yield "|" + "---|" * len(self.headings)
            yield from (f"| {' | '.join(row)} |" for row in self.rows)
            return
        columns = range(len(self.headings))
        if aligned:
            cells = [
                [cell.replace("|", "\\|") for cell in row] for row in (self.headings, *self.rows)
            ]
            rows = list(self._padded(cells, least=3))
            widths = [len_of(cell) for cell in rows[0]]
        else:
            rows = [[*self.headings]]
            rows += (
                [escaped(row[at]) if self._is_text(at) else row[at] for at in columns]
                for row in self.rows
            )
            widths = [3 if self._is_text(at) else 4 for at in columns]
        rule = [
            "-" * widths[at] if self._is_text(at) else "-" * (widths[at] - 1) + ":"
            for at in columns
        ]
        yield from (f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))

    def rich(self, *, fold: bool = True, no_wrap: Collection[int] = (), **look: Any) -> RichTable:
        """For a rich console. A word that is too long for its column goes on in the next line, or,
        without `fold`, ends in an ellipsis; the columns `no_wrap` are never broken. `look` goes to
        rich's own table (box, caption, …).
        """
        from rich.table import Table as RichTable
        from rich.text import Text

        title = Text(visible(self.title), style="table.title") if self.title else None
        shown = RichTable(title=title, title_justify="left", **look)
        for at, heading in enumerate(self.headings):
            shown.add_column(
                Text(heading),
                justify="left" if self._is_text(at) else "right",
                overflow="fold" if fold else "ellipsis",
                no_wrap=at in no_wrap,
            )
        for row in self.rows:
            shown.add_row(*(Text(visible(cell)) for cell in row))
        return shown

    def __rich__(self) -> RichTable:
        return self.rich()

    def _is_text(self, column: int) -> bool:
        return column < self.words or column >= len(self.headings) - self.notes

    def _padded(self, rows: Iterable[Sequence[str]], least: int = 0) -> Iterator[list[str]]:
        cells = list(rows)
        widths = [max(least, *map(len_of, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            spaces = [" " * (width - len_of(cell)) for cell, width in zip(row, widths, strict=True)]
            padded = zip(row, spaces, strict=True)
            yield [
                cell + space if self._is_text(at) else space + cell
                for at, (cell, space) in enumerate(padded)
            ]


def len_of(text: str) -> int:
    """In columns of a terminal, where a Chinese character takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.2f}"


def count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def signed(number: float) -> str:
    """With a sign, unless it is rounded to nothing."""
    text = f"{number:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def escaped(text: str) -> str:
    """Text in Markdown, on one line, that means nothing but itself."""
    return _SPECIAL.sub(r"\\\1", visible(text))
