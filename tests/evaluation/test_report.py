"""A table in all its forms."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from hanlattice.evaluation.report import NONE, Table, count, escaped, percent, signed

TABLE = Table(
    "Words",
    ("word", "gold", "found instead"),
    (("长江", "12", "长|江"), ("a\x07|b", "3", "")),
    notes=1,
)


def printed(table: Table, width: int = 80, **look: object) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(table.rich(**look))
    return file.getvalue()


def test_text_has_straight_columns():
    assert (
        TABLE.text()
        == "Words\nword     gold  found instead\n长江       12  长|江\na\\x07|b     3\n"
    )


def test_markdown():
    assert list(TABLE.markdown()) == [
        "| word | gold | found instead |",
        "| --- | ---: | --- |",
        "| 长江 | 12 | 长\\|江 |",
        "| a\\\\x07\\|b | 3 |  |",
    ]
    assert list(
        Table("", ("word", "F|1"), (("长|江_", "12.00"), ("a", "3"))).markdown(aligned=True)
    ) == [
        "| word    |  F\\|1 |",
        "| ------- | ----: |",
        "| 长\\|江_ | 12.00 |",
        "| a       |     3 |",
    ]
    assert list(Table("", ("a", "b"), (("`x`", "1"),)).markdown(plain=True)) == [
        "| a | b |",
        "|---|---|",
        "| `x` | 1 |",
    ]


def test_json():
    assert Table(**json.loads(json.dumps(TABLE.as_dict()))).text() == TABLE.text()


def test_on_a_terminal():
    """The title is no markup, what a terminal would obey is an escape, and numbers end at the same
    column.
    """
    table = Table("[red]A\x1b", ("name", "F1"), (("[b]x\x1b", "1.00"), ("y", "100.00")))
    title, _, heading, _, first, second, _ = printed(table).splitlines()
    assert title.rstrip() == "[red]A\\x1b"
    assert heading == "┃ name     ┃     F1 ┃"
    assert (first, second) == ("│ [b]x\\x1b │   1.00 │", "│ y        │ 100.00 │")
    assert printed(Table("", ("name",), (("x",),))).startswith("┏")
    file = io.StringIO()
    Console(file=file, width=80).print(table)
    assert file.getvalue() == printed(table)


@pytest.mark.parametrize(("fold", "lines"), [(True, ["abcdefgh", "ijkl"]), (False, ["abcdefg…"])])
def test_a_cell_that_is_too_long(fold, lines):
    shown = printed(Table("", ("name",), (("abcdefghijkl",),)), width=12, fold=fold)
    assert [line.strip("│ ") for line in shown.splitlines()[3:-1]] == lines
    assert "abcdefghijkl" in printed(
        Table("", ("a", "b"), (("abcdefghijkl", "x y z"),)), width=20, no_wrap=[0]
    )


def test_figures():
    assert (percent(0.12345), percent(1), percent(None)) == ("12.35", "100.00", NONE)
    assert (count(1234), count(None)) == ("1,234", NONE)
    assert (signed(1.5), signed(-1.5), signed(-0.001)) == ("+1.50", "−1.50", "0.00")
    assert escaped("a*b_[c]\n") == "a\\*b\\_\\[c\\]\\\\n"
