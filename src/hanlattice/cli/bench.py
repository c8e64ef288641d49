"""`hanlattice bench`: equality first, then times beside a plain LSTM, as tables, JSON and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console

from hanlattice.cli.console import note
from hanlattice.cli.options import Device, Plot, Threads
from hanlattice.errors import InputError


def bench(
    device: Device = "cpu",
    threads: Threads = 2,
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Batch size. Repeatable. Default: 1, 16, 32, 128 and 1024."),
    ] = None,
    hidden: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            help="H, hidden units in each direction. Repeatable. Default: 100 and 200.",
        ),
    ] = None,
    length: Annotated[
        list[int] | None,
        typer.Option(
            min=4,
            help="Sentence length for the table by length. Repeatable. Default: 10, 20, 40, …, 320.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="One table, after the check of equality: encoder, training, tagging, lengths or models."
        ),
    ] = "",
    seconds: Annotated[
        float, typer.Option(help="The least time to measure for each figure.")
    ] = 0.5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A JSON file for all figures.")
    ] = None,
    plot: Plot = None,
) -> None:
    """What the lattice costs beside a plain LSTM: equality with the reference first, then times in
    one process.
    """
    from hanlattice.lab.bench import BenchSettings, measure
    from hanlattice.lab.bench.report import table, write_files
    from hanlattice.lab.bench.timing import busy
    from hanlattice.theme import check_plot

    batches = tuple(batch or BenchSettings.batches)
    widths = tuple(hidden or BenchSettings.hidden)
    lengths = tuple(length or BenchSettings.lengths)
    settings = BenchSettings(device, threads, batches, widths, seconds, lengths=lengths)
    if plot is not None:
        if only in ("tagging", "models"):
            raise InputError(
                f"--plot shows encoder, training and lengths: --only {only} has nothing to plot"
            )
        check_plot(plot)
    with Console(stderr=True).status("") as status:
        for nth, (section, record) in enumerate(measure(settings, status.update, only)):
            write_files(record, out, plot)
            if not nth:  # all that can be refused has been
                note_busy(*busy())
            Console().print(table(section, record).rich(box=SIMPLE_HEAD, collapse_padding=True))


def note_busy(load: float, cores: int) -> None:
    """Say so if others want the cores too: a quarter of them is enough to be seen in the times."""
    if load > cores / 4:
        note(
            f"the machine is busy, a load of {load:.1f} on {cores} cores: times are longer, and vary from run to run"
        )
