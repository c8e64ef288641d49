"""`hanlattice serve`: serve models over HTTP, with a page that shows the lattice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hanlattice.cli.console import find_named, note
from hanlattice.cli.options import DictionaryOptions, Lexicons, with_options
from hanlattice.cli.texts import add_words
from hanlattice.errors import InputError
from hanlattice.files import read_lines
from hanlattice.optional import require
from hanlattice.server.limits import Limits


@with_options
def serve(
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="Bundled model or model folder. Repeatable. Default: `ner` and `seg`.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. `0.0.0.0` is every address.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on. 0 takes any free port.")
    ] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Worker processes. Use at most one for each core.")
    ] = 1,
    lexicon: Lexicons = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first line is the token of every request.")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="Origin of another website whose pages may use this server. Repeatable."),
    ] = None,
    limits: Limits,
) -> None:
    """Serve models over HTTP, with a page that shows the lattice while you type."""
    if not hasattr(os, "fork"):
        raise InputError(
            "hanlattice serve forks its workers, which this system cannot do: use Linux or macOS"
        )
    token = ""
    if token_file is not None:
        token = next((line.strip() for _, line in read_lines(token_file, "utf-8")), "")
        if not token or not token.isascii() or not token.isprintable():
            raise InputError("the first line must be the token, in ASCII", token_file, 1)
    folders = {Path(name).name: find_named(name) for name in model or ["ner", "seg"]}
    if len(folders) < len(model or folders):
        raise InputError("two models have folders of the same name: rename one of them")
    for package in ("starlette", "uvicorn", "prometheus_client", "httptools", "msgspec"):
        require(package)
    from hanlattice.inference.device import use_threads
    from hanlattice.predict import load
    from hanlattice.server.process import ServerSettings
    from hanlattice.server.process import serve as run

    # Threads do not survive a fork, so none may start when the models are loaded.
    use_threads(1)
    models = {name: load(folder) for name, folder in folders.items()}
    for tagger in models.values():
        if tagger.model.indexer.lexicon is not None:
            add_words(tagger, DictionaryOptions(lexicon=lexicon))
    settings = ServerSettings(host, port, workers, token, tuple(cors or ()), limits)
    raise typer.Exit(run(models, settings, note))
