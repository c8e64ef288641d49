"""`hanlattice bench`: equality first, then times beside a plain LSTM, as tables, JSON and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from hanlattice.bench.tables import Table


def bench(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="A batch size; may come often. [default: 1 16 32 128 1024]")
    ] = None,
    hidden: Annotated[
        list[int] | None, typer.Option(min=1, help="H, units in each direction; may come often. [default: 100 200]")
    ] = None,
    seconds: Annotated[float, typer.Option(help="That each figure takes at least.")] = 0.5,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A JSON file for everything measured.")] = None,
    plot: Annotated[Path | None, typer.Option(help="An SVG or PNG file for rates against batch size.")] = None,
) -> None:
    """What the lattice costs beside a plain LSTM: equality with the reference first, then times in one process."""
    from hanlattice.bench import Settings, measure
    from hanlattice.bench.outputs import Outputs
    from hanlattice.bench.tables import table

    batches, widths = tuple(batch or Settings.batches), tuple(hidden or Settings.hidden)
    settings = Settings(device=device, threads=threads, batches=batches, hidden=widths, seconds=seconds)
    outputs = Outputs(out, plot)
    with Console(stderr=True).status("") as status:
        for section, record in measure(settings, status.update):
            outputs.write(record)
            Console().print(_rich(table(section, record)))


def _rich(table: Table) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table as RichTable

    shown = RichTable(title=escape(table.title), title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
    for heading in table.headings:
        shown.add_column(escape(heading), justify="right")
    for row in table.rows:
        shown.add_row(*map(escape, row))
    return shown
