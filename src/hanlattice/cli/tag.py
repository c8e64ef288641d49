"""`hanlattice tag`: find named entities in texts, files or standard input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.options import BatchOptions, Decode, MinScore, with_options
from hanlattice.cli.stream import Texts
from hanlattice.cli.texts import add_words, begin, for_screen, is_screen, write_results
from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.document import Document

TagFormat = StrEnum("TagFormat", "jsonl conll inline terminal html")
Scheme = StrEnum("Scheme", {"BIO": "BIO", "BMES": "BMES", "BIOES": "BIOES"})


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
        typer.Option(min=1, help="Also write this many likely spans as candidates. Needs `jsonl`."),
    ] = None,
) -> None:
    """Find named entities in texts, files or standard input. Each line gives one result."""
    format = choose_format(options, nbest)
    texts, folder = begin(options)
    # These imports take time, so wrong options are reported before them.
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
    """Return whether probabilities are computed: they take time, and few formats show them."""
    return format in (TagFormat.jsonl, TagFormat.html) or min_score > 0


def choose_format(options: TagOptions, nbest: int | None = None) -> TagFormat:
    """Return the format of the options; by default colours on a terminal, otherwise JSON lines."""
    if nbest is not None and options.format not in (None, TagFormat.jsonl):
        raise InputError(f"--nbest needs --format jsonl: {options.format} cannot show candidates")
    if options.format is not None:
        return options.format
    return TagFormat.terminal if nbest is None and is_screen(options.out) else TagFormat.jsonl


def write_documents(
    documents: Iterable[Document],
    texts: Texts,
    format: TagFormat,
    labels: tuple[str, ...],
    options: TagOptions,
) -> None:
    """Write documents in a format, to a file or to standard output."""
    from hanlattice.output import as_conll, as_inline, as_jsonl, html_page, terminal_lines

    results: Iterable[str]
    if format is TagFormat.jsonl:
        results = texts.placed(map(as_jsonl, documents))
    elif format is TagFormat.html:
        results = html_page(documents, labels)
    elif format is TagFormat.terminal:
        # https://no-color.org
        has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        results = terminal_lines(documents, labels, is_screen(options.out) and has_colours)
    elif format is TagFormat.conll:
        scheme = options.scheme.value
        results = for_screen((as_conll(d, scheme) for d in documents), options.out)
    else:
        results = for_screen(map(as_inline, documents), options.out)
    write_results(results, options.out, texts)
