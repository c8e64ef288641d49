"""`hanlattice vote`: raw text, labelled by the majority of several models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from hanlattice.cli.console import Encoding, find_named, make_console
from hanlattice.cli.texts import Device
from hanlattice.files import shown
from hanlattice.text.display import counted, visible


def vote(
    files: Annotated[list[str], typer.Argument(help="Raw text (plain, gz or xz), a paragraph a line, or a corpus.")],
    models: Annotated[list[str], typer.Option("--model", "-m", help="A model that votes; give two or more.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The JSONL file to write, for data.more.")],
    apart: Annotated[
        list[str] | None,
        typer.Option(
            help="A corpus for dev or test: sentences that share 13 consecutive characters with it are left out."
        ),
    ] = None,
    characters: Annotated[int, typer.Option(min=0, help="Draw so many from each file, at random; 0 is all.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of that draw.")] = 1,
    encoding: Encoding = "auto",
    device: Device = "cpu",
) -> None:
    """Label raw text with the spans that more than half of several models find, to train one model on."""
    from hanlattice.pretrain.vote import VoteText
    from hanlattice.pretrain.vote import vote as run

    folders = [find_named(model) for model in models]
    console = make_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("models", total=len(models))

        def listen(event: dict[str, Any]) -> None:
            progress.update(task, completed=event["number"] - 1 + event["done"] / event["size"])

        result = run(folders, VoteText(tuple(files), tuple(apart or ()), characters, seed), out, device, listen)
    console.print(
        f"{visible(shown(out))}: {counted(result.sentences, 'sentence')}, {counted(result.characters, 'character')}, "
        f"{counted(result.spans, 'span')}; in {counted(result.agreed, 'sentence')} all models find the same"
    )
