"""`hanlattice gazetteer`: the words of a vector file that occur in some corpora, as a small vector file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanlattice.cli.console import note
from hanlattice.files import shown

if TYPE_CHECKING:
    from hanlattice.data.raw import RawText
    from hanlattice.events import Event
    from hanlattice.pretrain.gazetteer import Gazetteer
    from hanlattice.text.sentence import Sentence
    from hanlattice.text.vectors import Vectors


def gazetteer(
    vectors: Annotated[str, typer.Argument(help="A word2vec file, or @name/file from `hanlattice data get`.")],
    corpora: Annotated[list[str], typer.Argument(metavar="CORPUS", help="Labelled files; with --raw, raw text.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The small file: .bin is binary, .vec is text.")],
    raw: Annotated[bool, typer.Option("--raw", help="The corpora are raw text: plain, gz or xz.")] = False,
    characters: Annotated[
        str, typer.Option(help="Which single characters to keep: met (those that occur), all or none.")
    ] = "met",
    format: Annotated[str, typer.Option(help="auto, columns, segmented or jsonl.")] = "auto",
    scheme: Annotated[str, typer.Option(help="auto, BIO, IOB1, BMES or BIOES.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Keep the words of a vector file that occur in corpora, and say how much of the corpora they cover.

    Training on these corpora comes to the same with the small file; if chars.vectors names it too, --characters all.
    """
    from hanlattice.data.download import resolve
    from hanlattice.data.raw import RawText
    from hanlattice.pretrain.gazetteer import check_request, write_gazetteer
    from hanlattice.text.vectors import read_vectors

    source, paths = resolve(vectors), [resolve(corpus) for corpus in corpora]
    check_request(out, [source, *paths], characters)
    named = list(zip(map(shown, corpora), paths, strict=True))
    texts = [(name, RawText([path])) for name, path in named if raw]  # what is wrong with one is told at once
    known = read_vectors(source)
    made = _match_raw(known, texts, characters) if raw else _match(known, named, characters, format, scheme)
    for notice in made.notices:
        note(notice)
    write_gazetteer(out, made)
    facts = _facts(made, shown(vectors), source.stat().st_size, out)
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        _show(facts)


def _match(vectors: Vectors, named: Sequence[tuple[str, Path]], characters: str, format: str, scheme: str) -> Gazetteer:
    """Annotated corpora, one after the other, so that only one is in memory."""
    from hanlattice.data.corpus import read_corpus
    from hanlattice.pretrain.gazetteer import make_gazetteer

    def sentences(path: Path) -> Iterator[Sentence]:
        corpus = read_corpus(path, format=format, scheme=scheme)
        for notice in corpus.notices:
            note(notice)
        yield from corpus.sentences

    return make_gazetteer(vectors, ((name, sentences(path)) for name, path in named), characters=characters)


def _match_raw(vectors: Vectors, texts: Sequence[tuple[str, RawText]], characters: str) -> Gazetteer:
    """Raw text, with a bar of progress on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from hanlattice.pretrain.gazetteer import make_gazetteer

    console = Console(stderr=True)
    columns = TextColumn("matching"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(compact=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(text.size for _, text in texts))

        def listen(_: Event) -> None:
            progress.update(task, completed=sum(text.done for _, text in texts))

        corpora = ((name, _sentences(text)) for name, text in texts)
        return make_gazetteer(vectors, corpora, characters=characters, listen=listen)


def _sentences(lines: RawText) -> Iterator[Sentence]:
    from hanlattice.text.sentence import Sentence

    return map(Sentence, lines)


def _facts(made: Gazetteer, name: str, size: int, out: Path) -> dict[str, Any]:
    before = {"file": name, "words": made.lexicon, "bytes": size, "mean_norm": made.norm}
    after = {
        "file": shown(out),
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
    from rich.console import Console

    console = Console(highlight=False)
    corpora = [*facts["corpora"], *([facts["all"]] if len(facts["corpora"]) > 1 else [])]
    names = _short_names([coverage["name"] for coverage in facts["corpora"]])
    named = list(zip([*names, "all"], corpora, strict=False))
    console.print(_table("words of the lexicon in the text", _WORDS, [[_words_row(*pair) for pair in named]]))
    sections = [list(_entity_rows(*pair)) for pair in named if pair[1]["entities"] is not None]
    if sections:
        console.print(_table("gold entities that are words of the lexicon", _ENTITIES, sections))
    for what, side in (("read", facts["vectors"]), ("wrote", facts["out"])):
        single = f" and {side['characters']:,} characters" if "characters" in side else ""
        size = f"{side['bytes']:,} bytes, mean norm of the words {side['mean_norm']:.4g}"
        console.print(f"{what} {side['file']}: {side['words']:,} words{single}, {size}", markup=False, soft_wrap=True)


_WORDS = ("corpus", "characters", "words", "positions", "per character", "covered %")
_ENTITIES = ("corpus", "label", "tokens", "known", "%", "types", "known", "%")


def _table(title: str, headings: Sequence[str], sections: Iterable[Iterable[Sequence[str]]]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        is_text = heading in ("corpus", "label")
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for rows in sections:
        for row in rows:
            table.add_row(*map(escape, row))
        table.add_section()
    return table


def _short_names(names: Sequence[str]) -> list[str]:
    """Files without the folder that they share, so that a table stays narrow."""
    parts = [Path(name).parts for name in names]
    shared = 0
    while all(len(part) > shared + 1 and part[shared] == parts[0][shared] for part in parts):
        shared += 1
    return [str(Path(*part[shared:])) for part in parts]


def _words_row(name: str, coverage: dict[str, Any]) -> tuple[str, ...]:
    counts = [f"{coverage[what]:,}" for what in ("characters", "words", "positions")]
    return name, *counts, f"{coverage['per_character']:.3f}", f"{100 * coverage['covered_share']:.2f}"


def _entity_rows(name: str, coverage: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for all labels together, then one for each."""
    for label, share in {"all": coverage["entities"], **coverage["by_label"]}.items():
        cells: list[str] = []
        for what in ("tokens", "types"):
            count, inside = share[what], share[f"{what}_in"]
            cells += f"{count:,}", f"{inside:,}", f"{100 * inside / count:.2f}" if count else "–"
        yield name, label, *cells
        name = ""  # once is enough
