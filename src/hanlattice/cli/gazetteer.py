"""`hanlattice gazetteer`: the words of a vector file that occur in some corpora, as a small vector
file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from hanlattice.cli.console import note
from hanlattice.cli.options import AsJson, CorpusFormat, CorpusScheme, Encoding
from hanlattice.data.corpus import read_corpus
from hanlattice.data.download import resolve
from hanlattice.data.formats.jsonl import to_json
from hanlattice.data.formats.raw import RawText
from hanlattice.evaluation.report import Table, percent
from hanlattice.events import Event
from hanlattice.files import printable_path
from hanlattice.lab.pretrain.gazetteer import (
    Gazetteer,
    check_request,
    make_gazetteer,
    write_gazetteer,
)
from hanlattice.text.sentence import Sentence
from hanlattice.text.vectors import Vectors, read_vectors


def gazetteer(
    vectors: Annotated[
        str, typer.Argument(help="A word2vec file, or @name/file from `hanlattice data get`.")
    ],
    corpora: Annotated[
        list[str], typer.Argument(metavar="CORPUS", help="Labelled files; with --raw, raw text.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The small file: .bin is binary, .vec is text.")
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="The corpora are raw text: plain, gz or xz.")
    ] = False,
    characters: Annotated[
        str,
        typer.Option(help="Which single characters to keep: met (those that occur), all or none."),
    ] = "met",
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Keep the words of a vector file that occur in corpora, and show how much of the corpora they
    cover.

    Training on these corpora gives the same model with the small file; if chars.vectors names it
    too, --characters all.
    """
    source = resolve(vectors)
    paths = [resolve(corpus) for corpus in corpora]
    check_request(out, [source, *paths], characters)
    named = list(zip(map(printable_path, corpora), paths, strict=True))
    texts = [
        (name, RawText([path])) for name, path in named if raw
    ]  # here an unreadable one is an error, before any work
    known = read_vectors(source)
    made = (
        _match_raw(known, texts, characters)
        if raw
        else _match(known, named, characters, format, scheme)
    )
    note(*made.notices)
    write_gazetteer(out, made)
    facts = _facts(made, printable_path(vectors), source.stat().st_size, out)
    if as_json:
        typer.echo(to_json(facts, indent=2))
    else:
        _show(facts)


def _match(
    vectors: Vectors, named: Sequence[tuple[str, Path]], characters: str, format: str, scheme: str
) -> Gazetteer:
    """Annotated corpora, one after the other, so that only one is in memory at a time."""

    def sentences(path: Path) -> Iterator[Sentence]:
        corpus = read_corpus(path, format=format, scheme=scheme)
        note(*corpus.notices)
        yield from corpus.sentences

    return make_gazetteer(
        vectors, ((name, sentences(path)) for name, path in named), characters=characters
    )


def _match_raw(
    vectors: Vectors, texts: Sequence[tuple[str, RawText]], characters: str
) -> Gazetteer:
    """Raw text, with a progress bar on a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("matching"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(text.size for _, text in texts))

        def listen(_: Event) -> None:
            progress.update(task, completed=sum(text.done for _, text in texts))

        corpora = ((name, map(Sentence, text)) for name, text in texts)
        return make_gazetteer(vectors, corpora, characters=characters, listen=listen)


def _facts(made: Gazetteer, name: str, size: int, out: Path) -> dict[str, Any]:
    before = {"file": name, "words": made.lexicon, "bytes": size, "mean_norm": made.norm}
    after = {
        "file": printable_path(out),
        "words": made.words,
        "characters": made.characters,
        "bytes": out.stat().st_size,
        "mean_norm": made.norm_kept,
    }
    return {
        "vectors": {**before, "width": made.vectors.width},
        "out": after,
        "corpora": [coverage.as_dict() for coverage in made.corpora],
        "all": made.overall.as_dict(),
    }


def _show(facts: dict[str, Any]) -> None:
    console = Console(highlight=False)
    corpora = [*facts["corpora"], *([facts["all"]] if len(facts["corpora"]) > 1 else [])]
    names = _short_names([coverage["name"] for coverage in facts["corpora"]])
    named = list(zip([*names, "all"], corpora, strict=False))
    console.print(_words_table(named))
    if annotated := [pair for pair in named if pair[1]["entities"] is not None]:
        console.print(_entities_table(annotated))
    for what, side in (("read", facts["vectors"]), ("wrote", facts["out"])):
        single = f" and {side['characters']:,} characters" if "characters" in side else ""
        size = f"{side['bytes']:,} bytes, mean norm of the words {side['mean_norm']:.4g}"
        console.print(
            f"{what} {side['file']}: {side['words']:,} words{single}, {size}",
            markup=False,
            soft_wrap=True,
        )


def _short_names(names: Sequence[str]) -> list[str]:
    """Paths without the folder that they share, which keeps the tables narrow."""
    parts = [Path(name).parts for name in names]
    shared = 0
    while all(len(part) > shared + 1 and part[shared] == parts[0][shared] for part in parts):
        shared += 1
    return [str(Path(*part[shared:])) for part in parts]


def _words_table(named: Sequence[tuple[str, dict[str, Any]]]) -> RichTable:
    headings = ("corpus", "characters", "words", "positions", "per character", "covered %")
    rows = []
    for name, coverage in named:
        counts = [f"{coverage[what]:,}" for what in ("characters", "words", "positions")]
        rows.append(
            (name, *counts, f"{coverage['per_character']:.3f}", percent(coverage["covered_share"]))
        )
    return _rich(Table("words of the lexicon in the text", headings, tuple(rows)))


def _entities_table(named: Sequence[tuple[str, dict[str, Any]]]) -> RichTable:
    """A section for each corpus: a row for all labels together, then one for each."""
    headings = ("corpus", "label", "tokens", "known", "%", "types", "known", "%")
    rows: list[tuple[str, ...]] = []
    ends = []
    for name, coverage in named:
        for at, (label, share) in enumerate(
            {"all": coverage["entities"], **coverage["by_label"]}.items()
        ):
            rows.append(
                ("" if at else name, label, *_counts(share, "tokens"), *_counts(share, "types"))
            )
        ends.append(len(rows) - 1)
    printable_path = _rich(
        Table("gold entities that are words of the lexicon", headings, tuple(rows), words=2)
    )
    for end in ends:
        printable_path.rows[end].end_section = True
    return printable_path


def _counts(share: dict[str, int], what: str) -> tuple[str, ...]:
    count = share[what]
    inside = share[f"{what}_in"]
    return f"{count:,}", f"{inside:,}", percent(inside / count if count else None)


def _rich(table: Table) -> RichTable:
    """On a narrow terminal names are wrapped, numbers are not."""
    return table.rich(no_wrap=range(table.words, len(table.headings)))
