"""`hanlattice pack`: write a trained model with fewer bytes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hanlattice.cli.console import find_named
from hanlattice.cli.options import ModelArgument
from hanlattice.files import printable_path, read_text
from hanlattice.text.display import counted

Precision = StrEnum("Precision", "small half full")


def pack(
    model: ModelArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output folder, which must be new or empty.")
    ],
    words: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of words to keep. Words that training met most often are kept first. "
            "0 keeps all words.",
        ),
    ] = 0,
    precision: Annotated[
        Precision,
        typer.Option(
            help="Size of a number. `small`: 1 byte, and half a byte after the first 40,000 words. "
            "`half`: 2 bytes. `full`: as trained."
        ),
    ] = Precision.small,
    test: Annotated[
        str, typer.Option(help="Labelled file. The packed model's scores on it go into its card.")
    ] = "",
    about: Annotated[
        Path | None,
        typer.Option(
            help="Markdown file for the end of the model card. "
            "Default: the text of an earlier `pack`. An empty file leaves it out."
        ),
    ] = None,
) -> None:
    """Write a smaller copy of a model, with fewer words and smaller numbers.

    The copy is used like any other model. Without `--test`, its model card has only the scores of
    the trained model.
    """
    from hanlattice.inference.device import use_threads
    from hanlattice.training.pack import pack as run

    use_threads(1)
    card = read_text(about) if about else None
    packed = run(find_named(model), out, words, precision.value, test, card)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    lexicon = packed.indexer.lexicon
    kept = "" if lexicon is None else f", {counted(len(lexicon), 'word')}"
    typer.echo(f"{printable_path(out)}: {size / 1e6:.2f} MB{kept}")
    if test:
        typer.echo(f"test F1 {100 * packed.scores['test']['overall']['f1']:.2f}")
