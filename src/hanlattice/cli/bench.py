"""`hanlattice bench`: check equality, then time a lattice LSTM next to a plain LSTM."""

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
        typer.Option(min=1, help="Hidden units per direction. Repeatable. Default: 100 and 200."),
    ] = None,
    length: Annotated[
        list[int] | None,
        typer.Option(
            min=4,
            help="Characters in a sentence, for the table by length. Repeatable. "
            "Default: 10, 20, 40, …, 320.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="Time only one table: `encoder`, `training`, `tagging`, `lengths` or `models`. "
            "The check of equality still runs."
        ),
    ] = "",
    seconds: Annotated[
        float, typer.Option(help="Seconds to measure for each figure, at least.")
    ] = 0.5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file for all figures, as JSON.")
    ] = None,
    plot: Plot = None,
) -> None:
    """Measure how much slower the lattice LSTM is than a plain LSTM.

    First, every implementation is compared with the reference: their results must be equal.
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
        for index, (section, record) in enumerate(measure(settings, status.update, only)):
            write_files(record, out, plot)
            # `measure` refuses wrong settings before its first section.
            if index == 0:
                note_busy(*busy())
            Console().print(table(section, record).rich(box=SIMPLE_HEAD, collapse_padding=True))


def note_busy(load: float, cores: int) -> None:
    """Print a note if other programs use the machine."""
    # A load of a quarter of the cores is enough to change the times.
    if load > cores / 4:
        note(
            f"the machine is busy, a load of {load:.1f} on {cores} cores: "
            "times are longer, and vary from run to run"
        )
