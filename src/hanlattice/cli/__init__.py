"""The command line: one file a verb. Mistakes of the user end with exit code 2 and one line, never a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Annotated, cast

import typer

from hanlattice import __version__
from hanlattice.cli import data, lm, pretrain, vectors
from hanlattice.cli.bench import bench
from hanlattice.cli.calibrate import calibrate
from hanlattice.cli.compare import compare
from hanlattice.cli.evaluate import evaluate
from hanlattice.cli.explain import explain
from hanlattice.cli.gazetteer import gazetteer
from hanlattice.cli.info import info
from hanlattice.cli.init import init
from hanlattice.cli.mistakes import mistakes
from hanlattice.cli.pack import pack
from hanlattice.cli.score import score
from hanlattice.cli.segment import segment
from hanlattice.cli.tag import tag
from hanlattice.cli.train import train
from hanlattice.cli.vote import vote
from hanlattice.errors import HanlatticeError
from hanlattice.files import reason
from hanlattice.text.display import visible

app = typer.Typer(
    help="Chinese named entities and words with the lattice LSTM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, group in (("data", data), ("pretrain", pretrain), ("vectors", vectors), ("lm", lm)):
    app.add_typer(group.app, name=name)
for verb in (
    *(tag, segment, explain),
    *(init, train, evaluate, calibrate, info, pack, vote),
    *(gazetteer, bench, compare, mistakes, score),
):
    app.command()(verb)

_USAGE_ERROR = cast(type[typer.BadParameter], typer.BadParameter.__base__)  # typer has no public name for it


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hanlattice {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the verb."""


def main() -> None:
    """The entry point: runs a verb, and turns an error into one line and an exit code.

    0 done; 2 a mistake of the user, or an output that cannot be written; 130 Ctrl-C; 141 the reader has gone.
    """
    _open_streams()
    try:
        try:
            code = _run()
        finally:
            sys.stdout.flush()  # here a full disk can still be reported
    except HanlatticeError as error:
        code = _report(str(error))
    except BrokenPipeError:
        _mute()
        code = 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        _mute()
        code = _report(f"cannot write the output: {reason(error)}")
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    sys.exit(code)


def _open_streams() -> None:
    """Make the program work without standard streams, and with an encoding that lacks Chinese."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it stays open while the program runs
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run() -> int:
    """The exit code of the verb. A broken pipe, which rich and typer turn into exit code 1, is raised again."""
    try:
        return app(prog_name="hanlattice", standalone_mode=False) or 0
    except _USAGE_ERROR as error:
        error.show()
        return error.exit_code
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        raise


def _report(message: str) -> int:
    typer.echo("error: " + visible(message, "\n"), err=True)
    return 2


def _mute() -> None:
    """Send standard output to nowhere: Python would otherwise try to write its buffer again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
