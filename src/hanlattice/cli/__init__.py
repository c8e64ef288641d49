"""The command line: one file a verb. Mistakes of the user end with exit code 2 and one line, never
a traceback.
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

_USAGE_ERROR = cast(
    type[typer.BadParameter], typer.BadParameter.__base__
)  # typer has no public name for it


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hanlattice {__version__}")
        raise typer.Exit


def root_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the verb."""


def make_app(only: str = "") -> typer.Typer:
    """The command line; of `only` one verb or group if it is named, since others take time to
    import.
    """
    app = typer.Typer(
        help="Chinese named entities and words with the lattice LSTM.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root_options)
    for name in (name for name in (*GROUPS, *VERBS) if only in ("", name)):
        module = import_module(f"hanlattice.cli.{name}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command()(getattr(module, name))
    return app


def check_numbers(command: Any) -> None:
    """Make every option of a command, and of those below it, refuse NaN, infinities and huge
    numbers.

    Typer takes them where an option has no bounds, and older ones take NaN within bounds too.
    """
    for each in getattr(command, "commands", {}).values():
        check_numbers(each)
    for option in command.params:
        if option.type.name.startswith(("int", "float")):
            kind = copy(option.type)
            kind.convert = partial(_convert, option.type)
            option.type = kind


def _convert(kind: Any, text: Any, option: Any, context: Any) -> Any:
    """Return the number that a text is, or fail as the type of the option does."""
    number = kind.convert(text, option, context)
    if isinstance(number, float) and not math.isfinite(number):
        kind.fail(f"{text!r} is not a finite number.", option, context)
    if isinstance(number, int) and abs(number) > sys.maxsize:
        kind.fail(f"{brief(text)} is too large a number.", option, context)
    return number


def __getattr__(name: str) -> Any:
    """`app`, with everything in it, is made when it is asked for."""
    if name == "app":
        return globals().setdefault("app", make_app())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """The entry point: runs a verb, and turns an error into one line and an exit code.

    0 done; 2 a mistake of the user, or an output that cannot be written; 130 Ctrl-C; 141 the reader
    has gone; 143 SIGTERM, 129 SIGHUP.
    """
    _open_streams()
    got = list[int]()
    try:
        try:
            with _stopped_by(got), _noted_warnings():
                code = _run()
        finally:
            sys.stdout.flush()  # here a full disk can still be reported
    except HanlatticeError as error:
        code = _report(str(error))
    except ModuleNotFoundError as error:
        if not (message := how_to_install(error.name or "")):
            raise
        code = _report(message)
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
    sys.exit(128 + got[0] if got else code)


@contextmanager
def _stopped_by(got: list[int]) -> Iterator[None]:
    """SIGTERM and SIGHUP end what is done as Ctrl-C does, so that nothing half is left; the next
    one ends it at once.

    Who ignores one, as nohup does, goes on to do so. A thread that is not the first hears no
    signals.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        got.append(number)
        raise KeyboardInterrupt

    is_first = threading.current_thread() is threading.main_thread()
    known = [
        getattr(signal, name)
        for name in ("SIGTERM", "SIGHUP")
        if is_first and hasattr(signal, name)
    ]
    ours = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _open_streams() -> None:
    """Make the program work without standard streams, and with an encoding that lacks Chinese."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it stays open while the program runs
            descriptor = os.open(os.devnull, os.O_RDWR)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _noted_warnings() -> Iterator[None]:
    """What is noticed in a file is printed as a note, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        show = warnings.showwarning
        seen = set[str]()

        def shown(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not issubclass(category, InputWarning):
                show(message, category, *place)
            elif str(message) not in seen:
                seen.add(str(message))
                note(str(message))

        warnings.showwarning = cast(Any, shown)
        yield


def _run() -> int:
    """The exit code of the verb. A broken pipe, which rich and typer turn into exit code 1, is
    raised again.
    """
    try:
        first = sys.argv[1] if len(sys.argv) > 1 else ""
        command = get_command(make_app(first if first in (*GROUPS, *VERBS) else ""))
        check_numbers(command)
        return command(prog_name="hanlattice", standalone_mode=False) or 0
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
    """Send standard output to nowhere: Python would otherwise try to write its buffer again at the
    end.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
