"""`hanlattice vectors`: show the neighbours of a word, and check a vector file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from hanlattice.cli.console import note
from hanlattice.cli.options import AsJson, Encoding
from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.data.formats.jsonl import to_json
from hanlattice.data.formats.raw import RawText
from hanlattice.errors import InputError
from hanlattice.evaluation.report import Table
from hanlattice.files import printable_path
from hanlattice.lab.pretrain.inspection import (
    Neighbour,
    Neighbours,
    check_vectors,
    cover,
    read_queries,
)
from hanlattice.lab.pretrain.outputs import check_readable
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import read_vectors

app = typer.Typer(help="Inspect a vector file.", no_args_is_help=True)
# Suffixes of raw text
_RAW = (".txt", ".text", ".gz", ".xz")


@app.command("neighbours")
def neighbours(
    words: Annotated[
        list[str], typer.Argument(help="Words or characters; `+` and `-` join several in a query.")
    ],
    vectors: Annotated[
        str, typer.Option("--vectors", "-v", help="word2vec file, or `@name/file`.")
    ],
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Number of neighbours of each query.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the nearest words of each word, or of a sum such as 国王 - 男人 + 女人.

    Near means a high cosine of the vectors.
    """
    queries = read_queries(words)
    near = Neighbours(read_vectors(resolve(vectors)))
    results: dict[str, list[Neighbour]] = {}
    for query in queries:
        try:
            results[" ".join(query)] = near(query, count)
        except InputError as error:
            if len(queries) == 1:
                raise
            note(str(error))
    if not results:
        raise InputError("none of these words has a vector")
    if as_json:
        plain = {query: [row._asdict() for row in rows] for query, rows in results.items()}
        typer.echo(to_json(plain, indent=2))
        return
    for asked, rows in results.items():
        typer.echo(f"{asked}: " + "  ".join(f"{row.word} {row.cosine:.3f}" for row in rows))


@app.command("check")
def check(
    file: Annotated[str, typer.Argument(help="word2vec file, text or binary, or `@name/file`.")],
    corpora: Annotated[
        list[str] | None, typer.Option("--corpus", "-c", help="Corpus to cover. Repeatable.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="Format of the corpora: `auto`, `raw`, `columns`, `segmented` or `jsonl`. "
            "With `auto`, .txt, .gz and .xz are raw text."
        ),
    ] = "auto",
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Check a vector file: whether it has errors, and how much of a corpus its words cover.

    The exit code is 0 if the file can be used, even without its broken rows, and 2 if it cannot.
    """
    named = [(printable_path(name), resolve(name)) for name in corpora or ()]
    check_readable(path for _, path in named)
    report, vectors = check_vectors(resolve(file))
    coverages = []
    for name, path in named:
        is_raw = format == "raw" or (format == "auto" and path.suffix.lower() in _RAW)
        sentences: Iterable[Sentence] = (
            map(Sentence, RawText([path])) if is_raw else read_corpus(path, format=format).sentences
        )
        coverages.append(cover(vectors, name, sentences))
    if as_json:
        typer.echo(to_json({**report, "corpora": coverages}, indent=2))
        return
    for title, rows in [
        (printable_path(file), _report_rows(report)),
        *((coverage["name"], _coverage_rows(coverage)) for coverage in coverages),
    ]:
        table = Table(title, ("", ""), tuple(rows), words=2)
        Console().print(table.rich(no_wrap=(0,), show_header=False))
    usable = "the file can be used, but it is not sound: see above"
    typer.echo("the file is sound" if report["sound"] else usable)


def _report_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    header = "none"
    if facts["header"] is not None:
        rows, width = facts["header"]
        header = f"{rows:,} rows of width {width}"
    if not facts["header_is_right"]:
        header += f": wrong, there are {facts['rows']:,} rows"
    yield "form", facts["form"]
    yield "header", header
    yield "words", f"{facts['words']:,}, of which {facts['single_characters']:,} single characters"
    yield "width", f"{facts['width']:,}"
    yield "norm", "mean {mean:.4g}, from {min:.4g} to {max:.4g}".format(**facts["norms"])
    yield "zero vectors", f"{facts['zero']:,}"
    yield "repeated words", f"{facts['repeated']:,}"
    yield "broken rows", f"{facts['skipped']:,}"
    unit = "line" if facts["form"] == "text" else "row"
    for problem, count in facts["problems"].items():
        places = [str(place) for place, reason in facts["broken"] if reason == problem]
        more = " …" if len(places) > 20 else ""
        yield "", f"{problem}: {count:,}, {unit} {', '.join(places[:20])}{more}"
    # In a binary file, notices say at which byte a broken row begins.
    if facts["form"] == "binary":
        yield from (("", notice) for notice in facts["notices"] if "skipped" in notice)


def _coverage_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    def share(part: int, whole: int) -> str:
        return f"{part:,} of {whole:,} ({part / max(1, whole):.1%})"

    yield "characters with a vector", share(facts["positions_in"], facts["positions"])
    yield "different ones", share(facts["types_in"], facts["types"])
    if facts["missing"]:
        yield "commonest without", " ".join(facts["missing"])
    words = facts["words"]
    if words is None:
        yield "words", "no word of two characters or more of the file occurs"
        return
    yield "different words found", share(words["words"], words["lexicon"])
    yield "places of words", f"{words['positions']:,} ({words['per_character']:.2f} a character)"
    yield "characters in a word", share(words["covered"], words["characters"])
    if spans := words["entities"]:
        yield "gold spans that are words", share(spans["tokens_in"], spans["tokens"])
        yield "different ones of them", share(spans["types_in"], spans["types"])
