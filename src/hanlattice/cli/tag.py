"""`hanlattice tag`: text, files or standard input → JSONL, CoNLL columns, marks, colours, or a page."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.console import Encoding
from hanlattice.cli.texts import (
    BatchSize,
    Decode,
    Device,
    Fast,
    Inputs,
    IsText,
    Lexicons,
    ModelFolder,
    Out,
    Trust,
    Unbuffered,
    add_words,
    at_once,
    begin,
    check_trust,
    for_screen,
    is_screen,
    write_results,
)
from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.document import Document


class Format(StrEnum):
    jsonl = "jsonl"
    conll = "conll"
    inline = "inline"
    terminal = "terminal"
    html = "html"


class Scheme(StrEnum):
    BIO = "BIO"
    BMES = "BMES"
    BIOES = "BIOES"


FormatOption = Annotated[
    Format | None,
    typer.Option("--format", "-f", help="How to write the result. [default: terminal on a terminal, else jsonl]"),
]
SchemeOption = Annotated[Scheme, typer.Option(help="The tags of --format conll.")]
MinScore = Annotated[float, typer.Option(min=0, max=1, help="Leave out entities that are less probable than this.")]
Threads = Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")]


def tag(
    inputs: Inputs,
    model: ModelFolder = "ner",
    format: FormatOption = None,
    out: Out = None,
    scheme: SchemeOption = Scheme.BMES,
    min_score: MinScore = 0.0,
    nbest: Annotated[
        int | None,
        typer.Option(min=1, help="Also this many of each text's most probable spans, as candidates (jsonl)."),
    ] = None,
    decode: Decode = None,
    lexicon: Lexicons = None,
    trust: Trust = None,
    text: IsText = False,
    encoding: Encoding = "auto",
    unbuffered: Unbuffered = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    fast: Fast = False,
    threads: Threads = 1,
) -> None:
    """Find the entities of a text, of files, or of standard input: one result for each line."""
    chosen = choose_format(format, out, nbest)
    check_min_score(min_score)
    check_trust(trust, lexicon)
    texts, folder = begin(inputs, text, out, lexicon, model, unbuffered)
    from hanlattice.models.device import use_threads  # after what can be wrong
    from hanlattice.predict import load

    use_threads(threads)
    tagger = load(folder, device, fast, decode)
    add_words(tagger, lexicon, trust)
    scores, size = needs_scores(chosen, min_score), at_once(inputs, batch_size)
    documents = tagger.pipe(texts, size, scores=scores, min_score=min_score, candidates=nbest or 0)
    results = written(documents, chosen, scheme.value, tagger.model.indexer.labels, out)
    write_results(inputs, texts.placed(results) if chosen is Format.jsonl else results, out, texts)


def check_min_score(min_score: float) -> None:
    if math.isnan(min_score):  # older typers let it pass the limits of the option
        raise InputError("--min-score must be from 0 to 1, not nan")


def needs_scores(format: Format, min_score: float) -> bool:
    """Probabilities take time, and only these formats show them."""
    return format in (Format.jsonl, Format.html) or min_score > 0


def choose_format(asked: Format | None, out: Path | None, nbest: int | None = None) -> Format:
    """What was asked for; without that, colours for a person at a terminal, and JSON lines for a program."""
    if nbest is not None and asked not in (None, Format.jsonl):
        raise InputError(f"--nbest is for --format jsonl, which has a place for candidates, not for {asked}")
    if asked is not None:
        return asked
    return Format.terminal if nbest is None and is_screen(out) else Format.jsonl


def written(
    documents: Iterable[Document], format: Format, scheme: str, labels: tuple[str, ...], out: Path | None
) -> Iterable[str]:
    """The documents as this format writes them."""
    from hanlattice.output import as_conll, as_inline, as_jsonl, html_page, terminal_lines

    if format is Format.html:
        return html_page(documents, labels)
    if format is Format.terminal:
        return terminal_lines(documents, labels, is_screen(out) and _has_colours())
    if format is Format.jsonl:
        return map(as_jsonl, documents)
    as_columns = format is Format.conll
    return for_screen((as_conll(each, scheme) if as_columns else as_inline(each) for each in documents), out)


def _has_colours() -> bool:
    """Unless the environment says no; see no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
