"""`hanlattice segment`: text, files or standard input → the same text with a space between words, or JSONL."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
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
from hanlattice.errors import InputError

if TYPE_CHECKING:
    from hanlattice.predict import Document, Predictor


class Format(StrEnum):
    text = "text"
    jsonl = "jsonl"


def segment(
    inputs: Inputs,
    model: ModelFolder,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write the result.")] = Format.text,
    lexicon: Annotated[
        list[Path] | None, typer.Option("--lexicon", "-l", help="A dictionary whose words are added; may be repeated.")
    ] = None,
    trust: Annotated[
        float | None, typer.Option(min=0, help="How much more their words count: 0 is no more than others; default 3.")
    ] = None,
    out: Out = None,
    text: IsText = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads that share the texts.")] = 2,
) -> None:
    """Cut a text, files, or standard input into words: one result for each line, its white space kept as it is."""
    from hanlattice.cli.shares import share_out
    from hanlattice.models.device import use_threads

    texts = read_texts(inputs, text)
    use_threads(1)
    segmenter = _load(model, device, lexicon or [])
    segmenter.trust = segmenter.trust if trust is None else trust
    form = {Format.text: _line, Format.jsonl: as_jsonl}[format]

    def work(share: list[str]) -> list[str]:
        return [form(document) for document in segmenter.pipe(share, len(share), scores=format is Format.jsonl)]

    busy = threads if device == "cpu" else 1
    write_results(inputs, share_out(work, texts, at_once(inputs, batch_size), busy, ahead="-" not in inputs), out)


def _load(folder: Path, device: str, dictionaries: list[Path]) -> Predictor:
    from hanlattice.predict import load

    segmenter = load(folder, device)
    if not segmenter.model.indexer.cuts:
        raise InputError("this model does not cut text into words; use `hanlattice tag` with it", folder)
    for path in dictionaries:
        segmenter.lexicon.load(path)
    segmenter("一")  # what it makes when it first reads is there before threads share it
    return segmenter


def _line(document: Document) -> str:
    from hanlattice.data.segmented import segmented_line

    return segmented_line(document.text, document.spans) + "\n"
