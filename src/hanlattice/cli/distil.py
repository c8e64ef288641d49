"""`hanlattice distil`: raw text, tagged by teachers, for a student to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from hanlattice.cli.console import find_named, make_console
from hanlattice.cli.options import Device, Encoding, Fast, Seed
from hanlattice.files import printable_path
from hanlattice.text.display import counted, visible


def distil(
    files: Annotated[
        list[str],
        typer.Argument(help="Raw text (plain, gz or xz), a paragraph a line, or a corpus."),
    ],
    models: Annotated[
        list[str], typer.Option("--model", "-m", help="A teacher; give one or more.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The JSONL file to write, for data.more.")
    ],
    apart: Annotated[
        list[str] | None,
        typer.Option(
            help="A corpus for dev or test: sentences that share 13 consecutive characters with it are left out."
        ),
    ] = None,
    characters: Annotated[
        int, typer.Option(min=0, help="Draw so many from each file, at random; 0 is all.")
    ] = 0,
    seed: Seed = 1,
    hard: Annotated[
        bool,
        typer.Option("--hard", help="Write what the teachers find, and not how sure they are."),
    ] = False,
    encoding: Encoding = "auto",
    device: Device = "cpu",
    fast: Fast = False,
) -> None:
    """Tag raw text with one or more teachers, whose soft labels are kept, to train a student on."""
    from hanlattice.training.distill import Unlabelled
    from hanlattice.training.distill import distil as run

    folders = [find_named(model) for model in models]
    console = make_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("sentences")

        def listen(event: dict[str, Any]) -> None:
            progress.update(task, completed=event["done"], total=event["size"])

        text = Unlabelled(tuple(files), tuple(apart or ()), characters, seed)
        result = run(folders, text, out, device, hard, fast, listen)
    console.print(
        f"{visible(printable_path(out))}: {counted(result.sentences, 'sentence')}, {counted(result.characters, 'character')}, "
        f"{counted(result.spans, 'span')}; {counted(result.doubted, 'character')} in doubt"
    )
