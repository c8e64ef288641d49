"""The command line: one file a verb. Mistakes of the user end with exit code 2 and one line, never a traceback."""

from __future__ import annotations

import errno
import os
import sys

import typer

from hanlattice.cli import data
from hanlattice.cli.evaluate import evaluate
from hanlattice.cli.info import info
from hanlattice.cli.tag import tag
from hanlattice.cli.train import train
from hanlattice.errors import HanlatticeError
from hanlattice.files import reason

app = typer.Typer(
    help="Chinese named entities with the lattice LSTM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
for verb in (train, evaluate, tag, info):
    app.command()(verb)


def main() -> None:
    """The entry point: runs a verb, and turns what went wrong into a line and an exit code."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told; app() itself ends by SystemExit
    except HanlatticeError as error:
        _stop(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone: nothing left to flush
        sys.exit(141)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _stop(f"cannot write the output: {reason(error)}")
    except KeyboardInterrupt:
        sys.exit(130)


def _stop(message: str) -> None:
    typer.echo(f"error: {message}", err=True)
    sys.exit(2)
