"""`hanlattice tag`: text, files or standard input → JSONL, CoNLL columns, marks, colours, or a
page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.options import BatchOptions, Decode, MinScore, with_options
from hanlattice.cli.stream import Texts
from hanlattice.cli.texts import add_words, begin, for_screen, is_screen, write_results
from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.document import Document


class TagFormat(StrEnum):
    jsonl = "jsonl"
    conll = "conll"
    inline = "inline"
    terminal = "terminal"
    html = "html"


class Scheme(StrEnum):
    BIO = "BIO"
    BMES = "BMES"
    BIOES = "BIOES"


@dataclass(frozen=True, kw_only=True)
class TagOptions(BatchOptions):
    """The options of `tag` and `analyse`, which write documents."""

    format: Annotated[
        TagFormat | None,
        typer.Option(
            "--format",
            "-f",
            help="Output format. Default: `terminal` on a terminal, otherwise `jsonl`.",
        ),
    ] = None
    scheme: Annotated[Scheme, typer.Option(help="Tag scheme of `--format conll`.")] = Scheme.BMES
    min_score: MinScore = 0.0
    decode: Decode = None


@with_options
def tag(
    options: TagOptions,
    nbest: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Also write this many of the most probable spans, as candidates. Needs `jsonl`.",
        ),
    ] = None,
) -> None:
    """Find named entities in texts, files or standard input. Each line gives one result."""
    format = choose_format(options, nbest)
    texts, folder = begin(options)
    # These imports take time, so they come after what can be wrong.
    from hanlattice.inference.device import use_threads
    from hanlattice.predict import load

    use_threads(options.threads)
    tagger = load(folder, options.device, options.fast, options.decode)
    add_words(tagger, options)
    documents = tagger.pipe(
        texts,
        texts.group_size(options.batch_size),
        scores=needs_scores(format, options.min_score),
        min_score=options.min_score,
        candidates=nbest or 0,
    )
    write_documents(documents, texts, format, tagger.model.indexer.labels, options)


def needs_scores(format: TagFormat, min_score: float) -> bool:
    """Probabilities take time, and only these formats show them."""
    return format in (TagFormat.jsonl, TagFormat.html) or min_score > 0


def choose_format(options: TagOptions, nbest: int | None = None) -> TagFormat:
    """Return the format asked for; by default colours at a terminal, otherwise JSON lines."""
    asked = options.format
    if nbest is not None and asked not in (None, TagFormat.jsonl):
        raise InputError(
            f"--nbest is for --format jsonl, which has a place for candidates, not for {asked}"
        )
    if asked is not None:
        return asked
    return TagFormat.terminal if nbest is None and is_screen(options.out) else TagFormat.jsonl


def write_documents(
    documents: Iterable[Document],
    texts: Texts,
    format: TagFormat,
    labels: tuple[str, ...],
    options: TagOptions,
) -> None:
    """Write documents in a format, to a file or to standard output."""
    results = written(documents, format, options.scheme.value, labels, options.out)
    if format is TagFormat.jsonl:
        results = texts.placed(results)
    write_results(results, options.out, texts)


def written(
    documents: Iterable[Document],
    format: TagFormat,
    scheme: str,
    labels: tuple[str, ...],
    out: Path | None,
) -> Iterable[str]:
    """The documents as this format writes them."""
    from hanlattice.output import as_conll, as_inline, as_jsonl, html_page, terminal_lines

    if format is TagFormat.html:
        return html_page(documents, labels)
    if format is TagFormat.terminal:
        return terminal_lines(documents, labels, is_screen(out) and _has_colours())
    if format is TagFormat.jsonl:
        return map(as_jsonl, documents)
    as_columns = format is TagFormat.conll
    return for_screen(
        (as_conll(each, scheme) if as_columns else as_inline(each) for each in documents), out
    )


def _has_colours() -> bool:
    """Unless the environment says no; see no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
