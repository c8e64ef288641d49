"""The command line: one file for each command.

A user's mistake ends with exit code 2 and one line, never with a traceback.
"""

from __future__ import annotations

import errno
import io
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.main import get_command

from hanlattice import __version__
from hanlattice.checks import brief
from hanlattice.cli.console import note
from hanlattice.errors import HanlatticeError, InputWarning
from hanlattice.files import reason
from hanlattice.optional import how_to_install
from hanlattice.text.display import visible

GROUPS = ("corpus", "data", "pretrain", "vectors", "lm")
VERBS = (
    *("tag", "segment", "analyse", "explain", "serve"),
    *("init", "train", "evaluate", "calibrate", "info", "pack", "distil"),
    *("gazetteer", "bench", "compare", "mistakes", "score"),
)

# Typer has no public name for the error of a wrong command line.
_USAGE_ERROR = cast(type[typer.BadParameter], typer.BadParameter.__base__)


def _version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"hanlattice {__version__}")
        raise typer.Exit


def root_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Declare the options that come before the command."""


def make_app(only: str = "") -> typer.Typer:
    """Return the command line, or only the part with one command or group.

    A part starts faster, because the modules of the other commands are not imported.
    """
    app = typer.Typer(
        help="Chinese named entities and words with the lattice LSTM.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root_options)
    for name in [only] if only else [*GROUPS, *VERBS]:
        module = import_module(f"hanlattice.cli.{name}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command()(getattr(module, name))
    return app


def check_numbers(command: Any) -> None:
    """Make the options of a command, and of its subcommands, refuse NaN, infinity and huge numbers.

    Typer accepts them where an option has no bounds, and older versions accept NaN within bounds.
    """

    def convert(kind: Any, text: Any, option: Any, context: Any) -> Any:
        number = kind.convert(text, option, context)
        if isinstance(number, float) and not math.isfinite(number):
            kind.fail(f"{text!r} is not a finite number.", option, context)
        if isinstance(number, int) and abs(number) > sys.maxsize:
            kind.fail(f"{brief(text)} is too large a number.", option, context)
        return number

    for subcommand in getattr(command, "commands", {}).values():
        check_numbers(subcommand)
    for option in command.params:
        if option.type.name.startswith(("int", "float")):
            # Options share the objects of their types, so the copy changes this option alone.
            kind = copy(option.type)
            kind.convert = partial(convert, option.type)
            option.type = kind


def __getattr__(name: str) -> Any:
    # The whole app imports every command, so it is built only when somebody asks for it.
    if name == "app":
        return globals().setdefault("app", make_app())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run a command, and turn an error into one line and an exit code.

    Exit codes: 0 success; 2 a user's mistake, or an output that cannot be written; 130 Ctrl-C;
    141 the reader of a pipe has gone; 143 SIGTERM; 129 SIGHUP.
    """
    _open_streams()
    received = list[int]()
    message = None
    code = 2
    try:
        try:
            with _handled_signals(received), _printed_warnings():
                code = _run()
        finally:
            # At exit, Python would only print a traceback about a full disk.
            sys.stdout.flush()
    except HanlatticeError as error:
        message = str(error)
    except ModuleNotFoundError as error:
        if not (message := how_to_install(error.name or "")):
            raise
    except OSError as error:
        is_closed = isinstance(error, BrokenPipeError)
        if not is_closed and error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        # At exit, Python writes its buffer once more, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141 if is_closed else 2
        message = None if is_closed else f"cannot write the output: {reason(error)}"
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    if message is not None:
        typer.echo("error: " + visible(message, "\n"), err=True)
        code = 2
    sys.exit(128 + received[0] if received else code)


@contextmanager
def _handled_signals(received: list[int]) -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, so that no half-written file is left.

    A second signal ends the process at once. An ignored signal, as under nohup, stays ignored.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        raise KeyboardInterrupt

    # Python lets only the main thread handle signals, and Windows has no SIGHUP.
    is_main = threading.current_thread() is threading.main_thread()
    names = [name for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    numbers = [getattr(signal, name) for name in names]
    numbers = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _open_streams() -> None:
    """Let the program run without standard streams, and with an encoding that lacks Chinese."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The stream stays open as long as the program runs, so no `with` closes it.
            descriptor = os.open(os.devnull, os.O_RDWR)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _printed_warnings() -> Iterator[None]:
    """Print each different `InputWarning` once, as a note."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        show = warnings.showwarning
        printed = set[str]()

        def show_once(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, InputWarning):
                show(message, category, *place)
            elif str(message) not in printed:
                printed.add(str(message))
                note(str(message))

        warnings.showwarning = cast(Any, show_once)
        yield


def _run() -> int:
    """Run the command of `sys.argv`, and return its exit code."""
    try:
        first = sys.argv[1] if len(sys.argv) > 1 else ""
        command = get_command(make_app(first if first in (*GROUPS, *VERBS) else ""))
        check_numbers(command)
        return command(prog_name="hanlattice", standalone_mode=False) or 0
    except _USAGE_ERROR as error:
        error.show()
        return error.exit_code
    except SystemExit as end:
        # Rich and typer turn a broken pipe into exit code 1; `main` has its own code for it.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        raise
