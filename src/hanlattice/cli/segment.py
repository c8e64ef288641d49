"""`hanlattice segment`: text, files or standard input → the same text with a space between words, or JSONL."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from hanlattice.cli.console import Encoding
from hanlattice.cli.texts import (
    BatchSize,
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
    share_out,
    write_results,
)
from hanlattice.data.segmented import segmented_line
from hanlattice.errors import InputError


class Format(StrEnum):
    text = "text"
    tagged = "tagged"
    jsonl = "jsonl"


def segment(
    inputs: Inputs,
    model: ModelFolder = "seg",
    format: Annotated[
        Format, typer.Option("--format", "-f", help="text: words; tagged: word/label; or jsonl.")
    ] = Format.text,
    lexicon: Lexicons = None,
    trust: Trust = None,
    out: Out = None,
    text: IsText = False,
    encoding: Encoding = "auto",
    unbuffered: Unbuffered = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    fast: Fast = False,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads that share the texts.")] = 2,
) -> None:
    """Cut a text, files, or standard input into words: one result for each line, its white space kept as it is."""
    from hanlattice.models.device import use_threads
    from hanlattice.output import as_jsonl
    from hanlattice.predict import TEXTS, load

    check_trust(trust, lexicon)
    texts, folder = begin(inputs, text, out, lexicon, model, unbuffered)
    use_threads(1)
    segmenter = load(folder, device, fast)
    if not segmenter.model.indexer.cuts:
        raise InputError("this model does not cut text into words; use `hanlattice tag` with it", folder)
    add_words(segmenter, lexicon, trust)
    segmenter("一")  # what it builds on first use must be complete before threads share it

    def work(share: list[str]) -> list[str]:
        if format is Format.jsonl:
            return [as_jsonl(document) for document in segmenter.pipe(share, len(share))]
        documents = segmenter.pipe(share, len(share), scores=False)
        marks = format is Format.tagged
        return [segmented_line(document.text, document.spans, marks) + "\n" for document in documents]

    size = at_once(inputs, batch_size) or TEXTS[segmenter.model.tagger.device_kind]
    busy = threads if device == "cpu" else 1
    results: Iterable[str] = share_out(work, texts, size, busy, ahead="-" not in inputs)
    results = texts.placed(results) if format is Format.jsonl else for_screen(results, out)
    write_results(inputs, results, out, texts)
