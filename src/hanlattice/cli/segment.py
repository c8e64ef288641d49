"""`hanlattice segment`: text, files or standard input → the same text with a space between words, or JSONL."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanlattice.cli.dictionaries import Lexicons, Trust, add_words, check_trust
from hanlattice.cli.texts import (
    BatchSize,
    Device,
    Fast,
    Inputs,
    IsText,
    ModelFolder,
    Out,
    at_once,
    begin,
    for_screen,
    share_out,
    write_results,
)
from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.predict import Document, Predictor


class Format(StrEnum):
    text = "text"
    jsonl = "jsonl"


def segment(
    inputs: Inputs,
    model: ModelFolder = "seg",
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write the result.")] = Format.text,
    lexicon: Lexicons = None,
    trust: Trust = None,
    out: Out = None,
    text: IsText = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    fast: Fast = False,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads that share the texts.")] = 2,
) -> None:
    """Cut a text, files, or standard input into words: one result for each line, its white space kept as it is."""
    from hanlattice.models.device import find_device, use_threads
    from hanlattice.output import as_jsonl
    from hanlattice.predict import TEXTS, load

    check_trust(trust, lexicon)
    texts, folder = begin(inputs, text, out, lexicon, model)
    use_threads(1)
    segmenter = _ready(load(folder, device, fast), folder, lexicon or [], trust)
    form = {Format.text: _line, Format.jsonl: as_jsonl}[format]

    def work(share: list[str]) -> list[str]:
        return [form(document) for document in segmenter.pipe(share, len(share), scores=format is Format.jsonl)]

    size = at_once(inputs, batch_size) or TEXTS[find_device(device).type]
    busy = threads if device == "cpu" else 1
    results = share_out(work, texts, size, busy, ahead="-" not in inputs)
    write_results(inputs, for_screen(results, out) if format is Format.text else results, out)


def _ready(segmenter: Predictor, folder: Path, dictionaries: list[Path], trust: float | None) -> Predictor:
    if not segmenter.model.indexer.cuts:
        raise InputError("this model does not cut text into words; use `hanlattice tag` with it", folder)
    add_words(segmenter, dictionaries, trust)
    segmenter("一")  # what it builds on first use must be complete before threads share it
    return segmenter


def _line(document: Document) -> str:
    from hanlattice.data.segmented import segmented_line

    return segmented_line(document.text, document.spans) + "\n"
