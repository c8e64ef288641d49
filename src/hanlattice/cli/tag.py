"""`hanlattice tag`: text, files or standard input → JSONL, CoNLL columns or inline marks."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.texts import (
    BatchSize,
    Device,
    Inputs,
    IsText,
    ModelFolder,
    Out,
    as_jsonl,
    at_once,
    read_texts,
    write_results,
)

if TYPE_CHECKING:
    from hanlattice.predict import Document


class Format(StrEnum):
    jsonl = "jsonl"
    conll = "conll"
    inline = "inline"


class Scheme(StrEnum):
    BIO = "BIO"
    BMES = "BMES"
    BIOES = "BIOES"


def tag(
    inputs: Inputs,
    model: ModelFolder,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write the result.")] = Format.jsonl,
    out: Out = None,
    scheme: Annotated[Scheme, typer.Option(help="The tags of --format conll.")] = Scheme.BMES,
    text: IsText = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads; more help only on an idle machine.")] = 1,
) -> None:
    """Find the entities of a text, of files, or of standard input: one result for each line."""
    from hanlattice.models.device import use_threads
    from hanlattice.predict import load

    texts = read_texts(inputs, text)
    use_threads(threads)
    tagger = load(model, device)
    form = {
        Format.jsonl: as_jsonl,
        Format.conll: lambda document: _conll(document, scheme.value),
        Format.inline: _inline,
    }[format]
    write_results(inputs, map(form, tagger.pipe(texts, at_once(inputs, batch_size))), out)


def _conll(document: Document, scheme: str) -> str:
    from hanlattice.data.columns import format_columns

    return format_columns(document.text, document.spans, scheme) + "\n"


def _inline(document: Document) -> str:
    parts, at = [], 0
    for span in document.spans:
        parts += [document.text[at : span.start], f"[{span.text}/{span.label}]"]
        at = span.end
    return "".join([*parts, document.text[at:], "\n"])
