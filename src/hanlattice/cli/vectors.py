"""`hanlattice vectors`: the neighbours of a word, and a check of a vector file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
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
_RAW = (".txt", ".text", ".gz", ".xz")


@app.command("neighbours")
def neighbours(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Words or characters that have a vector in the file; + and - between two join them."
        ),
    ],
    vectors: Annotated[
        str, typer.Option("--vectors", "-v", help="A word2vec file, or @name/file.")
    ],
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="How many for each query.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """The nearest words of each word, or of a sum such as 国王 - 男人 + 女人, by the cosine of their
    vectors.
    """
    queries = read_queries(words)
    near = Neighbours(read_vectors(resolve(vectors)))
    found: dict[str, list[Neighbour]] = {}
    for query in queries:
        try:
            found[" ".join(query)] = near(query, count)
        except InputError as error:
            if len(queries) == 1:
                raise
            note(str(error))
    if not found:
        raise InputError("none of these words has a vector")
    if as_json:
        plain = {query: [row._asdict() for row in rows] for query, rows in found.items()}
        typer.echo(to_json(plain, indent=2))
        return
    for asked, rows in found.items():
        typer.echo(f"{asked}: " + "  ".join(f"{row.word} {row.cosine:.3f}" for row in rows))


@app.command("check")
def check(
    file: Annotated[str, typer.Argument(help="A word2vec file, text or binary, or @name/file.")],
    corpora: Annotated[
        list[str] | None,
        typer.Option(
            "--corpus", "-c", help="A corpus to cover, labelled or raw. May be given several times."
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="Of the corpora: auto (.txt, .gz and .xz are raw), raw, columns, segmented or jsonl."
        ),
    ] = "auto",
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Check a vector file: whether it is sound, what it contains, and how much of a corpus it
    covers.

    The exit code is 0 if the file can be used, without its broken rows, and 2 if it cannot.
    """
    named = [(printable_path(name), resolve(name)) for name in corpora or ()]
    check_readable(path for _, path in named)
    report, vectors = check_vectors(resolve(file))
    facts = {
        **report,
        "corpora": [cover(vectors, name, _sentences(path, format)) for name, path in named],
    }
    if as_json:
        typer.echo(to_json(facts, indent=2))
        return
    _show(_report_rows(facts), printable_path(file))
    for coverage in facts["corpora"]:
        _show(_coverage_rows(coverage), coverage["name"])
    typer.echo(
        "the file is sound"
        if report["sound"]
        else "the file can be used, but it is not sound: see above"
    )


def _sentences(path: Path, format: str) -> Iterable[Sentence]:
    if format == "raw" or (format == "auto" and path.suffix.lower() in _RAW):
        return map(Sentence, RawText([path]))
    return read_corpus(path, format=format).sentences


def _report_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    header = facts["header"]
    promised = "none" if header is None else f"{header[0]:,} rows of width {header[1]}"
    yield "form", facts["form"]
    yield (
        "header",
        promised
        + ("" if facts["header_is_right"] else f": wrong, there are {facts['rows']:,} rows"),
    )
    yield "words", f"{facts['words']:,}, of which {facts['single_characters']:,} single characters"
    yield "width", f"{facts['width']:,}"
    yield "norm", "mean {mean:.4g}, from {min:.4g} to {max:.4g}".format(**facts["norms"])
    yield "zero vectors", f"{facts['zero']:,}"
    yield "repeated words", f"{facts['repeated']:,}"
    yield "broken rows", f"{facts['skipped']:,}"
    for problem, count in facts["problems"].items():
        places = [str(place) for place, wrong in facts["broken"] if wrong == problem]
        what = "line" if facts["form"] == "text" else "row"
        yield (
            "",
            f"{problem}: {count:,}, {what} {', '.join(places[:20])}{' …' if len(places) > 20 else ''}",
        )
    if facts["form"] == "binary":  # its notices say at which byte a row begins
        yield from (("", notice) for notice in facts["notices"] if "skipped" in notice)


def _coverage_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "characters with a vector", _of(facts["positions_in"], facts["positions"])
    yield "different ones", _of(facts["types_in"], facts["types"])
    if facts["missing"]:
        yield "commonest without", " ".join(facts["missing"])
    words = facts["words"]
    if words is None:
        yield "words", "no word of two characters or more of the file occurs"
        return
    yield "different words found", _of(words["words"], words["lexicon"])
    yield "places of words", f"{words['positions']:,} ({words['per_character']:.2f} a character)"
    yield "characters in a word", _of(words["covered"], words["characters"])
    if words["entities"]:
        yield (
            "gold spans that are words",
            _of(words["entities"]["tokens_in"], words["entities"]["tokens"]),
        )
        yield (
            "different ones of them",
            _of(words["entities"]["types_in"], words["entities"]["types"]),
        )


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / max(1, whole):.1%})"


def _show(rows: Iterable[tuple[str, str]], title: str) -> None:
    Console().print(
        Table(title, ("", ""), tuple(rows), words=2).rich(no_wrap=(0,), show_header=False)
    )
