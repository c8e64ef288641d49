"""`hanlattice pack`: a trained model in fewer bytes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hanlattice.cli.console import find_named
from hanlattice.cli.options import ModelArgument
from hanlattice.files import printable_path, read_text
from hanlattice.text.display import counted


class Precision(StrEnum):
    small = "small"
    half = "half"
    full = "full"


def pack(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write: new or empty.")],
    words: Annotated[
        int,
        typer.Option(
            min=0, help="Keep so many words, those that training met most first; 0 keeps all."
        ),
    ] = 0,
    precision: Annotated[
        Precision,
        typer.Option(
            help="Bytes of a number: small 1, and ½ after 40,000 words; half 2; full as trained."
        ),
    ] = Precision.small,
    test: Annotated[
        str, typer.Option(help="A corpus; the scores of the packed model on it go into its card.")
    ] = "",
    about: Annotated[
        Path | None,
        typer.Option(
            help="Markdown for the end of the model's card: what it is good for, what it is not. "
            "Without it, the text that MODEL was packed with is kept; an empty file leaves it out."
        ),
    ] = None,
) -> None:
    """Write a model with fewer words and smaller numbers, to be sent or shipped. It is used like
    any other.

    Its card has its own scores only with --test; other scores there are of the trained model, also
    when packed again.
    """
    from hanlattice.inference.device import use_threads
    from hanlattice.training.pack import pack as run

    use_threads(1)
    packed = run(
        find_named(model), out, words, precision.value, test, read_text(about) if about else None
    )
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    lexicon = packed.indexer.lexicon
    kept = "" if lexicon is None else f", {counted(len(lexicon), 'word')}"
    typer.echo(f"{printable_path(out)}: {size / 1e6:.2f} MB{kept}")
    if test:
        typer.echo(f"test F1 {100 * packed.scores['test']['overall']['f1']:.2f}")
