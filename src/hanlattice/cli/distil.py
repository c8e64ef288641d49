"""`hanlattice distil`: label raw text with trained models, to train a smaller model on it."""

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
        typer.Argument(help="Raw text, one paragraph a line (plain, gz or xz), or labelled files."),
    ],
    models: Annotated[
        list[str], typer.Option("--model", "-m", help="Bundled model or model folder. Repeatable.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Output file (JSONL). The setting `data.more` reads it."),
    ],
    apart: Annotated[
        list[str] | None,
        typer.Option(
            help="Dev or test corpus. Sentences that share 13 characters in a row with it "
            "are left out. Repeatable."
        ),
    ] = None,
    characters: Annotated[
        int, typer.Option(min=0, help="Characters to draw at random from each file. 0 takes all.")
    ] = 0,
    seed: Seed = 1,
    hard: Annotated[
        bool, typer.Option("--hard", help="Write only labels, without their probabilities.")
    ] = False,
    encoding: Encoding = "auto",
    device: Device = "cpu",
    fast: Fast = False,
) -> None:
    """Label raw text with one or more models (the teachers), to train another model on it.

    The output has soft labels: the probability that the teachers give each label.
    """
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
        f"{visible(printable_path(out))}: {counted(result.sentences, 'sentence')}, "
        f"{counted(result.characters, 'character')}, {counted(result.spans, 'span')}; "
        f"{counted(result.doubted, 'character')} in doubt"
    )
