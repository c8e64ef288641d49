"""`hanlattice gazetteer`: keep the words of a vector file that occur in some corpora."""

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
        str, typer.Argument(help="word2vec file, or `@name/file` from `hanlattice data get`.")
    ],
    corpora: Annotated[
        list[str], typer.Argument(metavar="CORPUS", help="Labelled files; with `--raw`, raw text.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output file: `.bin` is binary, `.vec` is text.")
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Read the corpora as raw text: plain, gz or xz.")
    ] = False,
    characters: Annotated[
        str,
        typer.Option(help="Single characters to keep: `met` (in the corpora), `all` or `none`."),
    ] = "met",
    format: CorpusFormat = "auto",
    scheme: CorpusScheme = "auto",
    encoding: Encoding = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a small vector file from the words that occur in some corpora.

    Training on these corpora gives the same model with the small file. If `chars.vectors` names
    the file too, use `--characters all`. Tables show how much of the corpora the words cover.
    """
    source = resolve(vectors)
    paths = [resolve(corpus) for corpus in corpora]
    check_request(out, [source, *paths], characters)
    named = list(zip(map(printable_path, corpora), paths, strict=True))
    # Opening raw text here reports an unreadable file before any work.
    texts = [(name, RawText([path])) for name, path in named if raw]
    lexicon = read_vectors(source)
    if raw:
        result = _match_raw(lexicon, texts, characters)
    else:

        def sentences(path: Path) -> Iterator[Sentence]:
            corpus = read_corpus(path, format=format, scheme=scheme)
            note(*corpus.notices)
            yield from corpus.sentences

        # Generators, so that only one corpus is in memory at a time
        labelled = ((name, sentences(path)) for name, path in named)
        result = make_gazetteer(lexicon, labelled, characters=characters)
    note(*result.notices)
    write_gazetteer(out, result)
    facts = {
        "vectors": {
            "file": printable_path(vectors),
            "words": result.lexicon,
            "bytes": source.stat().st_size,
            "mean_norm": result.norm,
            "width": result.vectors.width,
        },
        "out": {
            "file": printable_path(out),
            "words": result.words,
            "characters": result.characters,
            "bytes": out.stat().st_size,
            "mean_norm": result.norm_kept,
        },
        "corpora": [coverage.as_dict() for coverage in result.corpora],
        "all": result.overall.as_dict(),
    }
    if as_json:
        typer.echo(to_json(facts, indent=2))
    else:
        _show(facts)


def _match_raw(
    vectors: Vectors, texts: Sequence[tuple[str, RawText]], characters: str
) -> Gazetteer:
    """Match raw text, with a progress bar on a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("matching"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=sum(text.size for _, text in texts))

        def listen(_: Event) -> None:
            progress.update(task, completed=sum(text.done for _, text in texts))

        corpora = ((name, map(Sentence, text)) for name, text in texts)
        return make_gazetteer(vectors, corpora, characters=characters, listen=listen)


def _show(facts: dict[str, Any]) -> None:
    """Print how much of the corpora the words cover, and the sizes of both vector files."""
    console = Console(highlight=False)
    corpora = facts["corpora"]
    # Without the folder that all paths share, the tables are narrower.
    parts = [Path(coverage["name"]).parts for coverage in corpora]
    shared = 0
    while all(len(part) > shared + 1 and part[shared] == parts[0][shared] for part in parts):
        shared += 1
    named = [(str(Path(*part[shared:])), c) for part, c in zip(parts, corpora, strict=True)]
    if len(corpora) > 1:
        named.append(("all", facts["all"]))
    rows: list[tuple[str, ...]] = []
    for name, coverage in named:
        counts = [f"{coverage[what]:,}" for what in ("characters", "words", "positions")]
        share = percent(coverage["covered_share"])
        rows.append((name, *counts, f"{coverage['per_character']:.3f}", share))
    headings = ("corpus", "characters", "words", "positions", "per character", "covered %")
    table = Table("words of the lexicon in the text", headings, tuple(rows))
    # On a narrow terminal names are wrapped, and numbers are not.
    console.print(table.rich(no_wrap=range(1, len(headings))))
    if annotated := [pair for pair in named if pair[1]["entities"] is not None]:
        console.print(_entities_table(annotated))
    for verb, file in (("read", facts["vectors"]), ("wrote", facts["out"])):
        single = f" and {file['characters']:,} characters" if "characters" in file else ""
        size = f"{file['bytes']:,} bytes, mean norm of the words {file['mean_norm']:.4g}"
        line = f"{verb} {file['file']}: {file['words']:,} words{single}, {size}"
        console.print(line, markup=False, soft_wrap=True)


def _entities_table(named: Sequence[tuple[str, dict[str, Any]]]) -> RichTable:
    """Return a section for each corpus: a row for all labels together, then one for each label."""
    rows: list[tuple[str, ...]] = []
    ends = []
    for name, coverage in named:
        title = name
        for label, share in {"all": coverage["entities"], **coverage["by_label"]}.items():
            cells = [title, label]
            for what in ("tokens", "types"):
                count = share[what]
                known = share[f"{what}_in"]
                cells += [f"{count:,}", f"{known:,}", percent(known / count if count else None)]
            rows.append(tuple(cells))
            # Only the first row of a section has the name of the corpus.
            title = ""
        ends.append(len(rows) - 1)
    headings = ("corpus", "label", "tokens", "known", "%", "types", "known", "%")
    title = "gold entities that are words of the lexicon"
    table = Table(title, headings, tuple(rows), words=2).rich(no_wrap=range(2, len(headings)))
    for end in ends:
        table.rows[end].end_section = True
    return table
