"""`hanlattice segment`: text, files or standard input → the same text with a space between words, or JSONL."""

from __future__ import annotations

import math
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
from hanlattice.files import shown

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
        float | None,
        typer.Option(min=0, max=1000, help="How much more their words count: 0 is no more than others; default 3."),
    ] = None,
    out: Out = None,
    text: IsText = False,
    batch_size: BatchSize = None,
    device: Device = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads that share the texts.")] = 2,
) -> None:
    """Cut a text, files, or standard input into words: one result for each line, its white space kept as it is."""
    from hanlattice.cli.shares import share_out
    from hanlattice.models.device import find_device, use_threads
    from hanlattice.predict import TEXTS

    check_trust(trust, lexicon)
    texts = read_texts(inputs, text)
    use_threads(1)
    segmenter = _load(model, device, lexicon or [])
    segmenter.trust = segmenter.trust if trust is None else trust
    form = {Format.text: _line, Format.jsonl: as_jsonl}[format]

    def work(share: list[str]) -> list[str]:
        return [form(document) for document in segmenter.pipe(share, len(share), scores=format is Format.jsonl)]

    size = at_once(inputs, batch_size) or TEXTS[find_device(device).type]
    busy = threads if device == "cpu" else 1
    write_results(inputs, share_out(work, texts, size, busy, ahead="-" not in inputs), out)


def check_trust(trust: float | None, dictionaries: list[Path] | None) -> None:
    """It counts for a user's words, so there must be some, and it must be a number."""
    if trust is not None and not dictionaries:
        raise InputError("--trust is for the words of --lexicon: give one")
    if trust is not None and math.isnan(trust):  # it passes the limits above in older typers
        raise InputError("--trust must be from 0 to 1000, not nan")


def _load(folder: Path, device: str, dictionaries: list[Path]) -> Predictor:
    from hanlattice.predict import load

    segmenter = load(folder, device)
    if not segmenter.model.indexer.cuts:
        raise InputError("this model does not cut text into words; use `hanlattice tag` with it", folder)
    for path in dictionaries:
        _add_words(segmenter, path)
    segmenter("一")  # what it makes when it first reads is there before threads share it
    return segmenter


def _add_words(segmenter: Predictor, path: Path) -> None:
    """Add the words of a dictionary; a note says how many of them no lattice can have, and so change nothing."""
    from hanlattice.text.lexicon import read_words

    words = list(read_words(path))
    segmenter.lexicon.update(words)
    if idle := sum(len(word) < 2 or len(word.split()) > 1 for word in words):
        has, is_ = ("has", "is") if idle == 1 else ("have", "are")
        count = f"{idle:,} of {len(words):,} words {has} one character or white space inside, and {is_} passed over"
        typer.echo(f"note: {shown(path)}: {count}", err=True)


def _line(document: Document) -> str:
    from hanlattice.data.segmented import segmented_line

    return segmented_line(document.text, document.spans) + "\n"
