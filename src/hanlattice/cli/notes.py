"""What verbs say beside their results, on standard error, and the model that a name stands for."""

from __future__ import annotations

from pathlib import Path

import typer

from hanlattice.text.display import visible


def note(text: str) -> None:
    typer.echo(f"note: {visible(text)}", err=True)


def find_named(model: str) -> Path:
    """The folder of a model; a note says so where a model's folder here has the name of one that comes along."""
    from hanlattice.models.shipped import find_model

    folder, here = find_model(model), Path(model)
    if folder != here and (here / "config.json").is_file() and not here.samefile(folder):
        note(f"{model} is the model that comes along; the folder here is ./{model}")
    return folder
