"""A document by itself: a line of JSON, a block of columns, or a line with marks. Each ends with its line end."""

from __future__ import annotations

from collections.abc import Iterator

from hanlattice.data.columns import format_columns
from hanlattice.data.jsonl import to_json, to_json_line
from hanlattice.predict import Document
from hanlattice.text.spans import Span


def as_jsonl(document: Document) -> str:
    """`{"text": …, "spans": […]}`, and `"candidates"` where the document has them."""
    line = to_json_line(document.text, document.spans)
    if document.candidates is None:
        return line + "\n"
    candidates = to_json([span.as_dict() for span in document.candidates])
    return f'{line[:-1]}, "candidates": {candidates}}}\n'


def as_conll(document: Document, scheme: str = "BMES") -> str:
    """A character and its tag on each line, and an empty line after the last."""
    return format_columns(document.text, document.spans, scheme) + "\n"


def as_inline(document: Document) -> str:
    """`[南京市/LOC][长江大桥/LOC]`. Brackets of the text itself stay as they are: this is for people."""
    parts = (text if span is None else f"[{text}/{span.label}]" for text, span in parts_of(document))
    return "".join([*parts, "\n"])


def parts_of(document: Document) -> Iterator[tuple[str, Span | None]]:
    """The text in parts from left to right, each with the span that it is, or None for what lies between."""
    at = 0
    for span in document.spans:
        if at < span.start:
            yield document.text[at : span.start], None
        yield document.text[span.start : span.end], span
        at = span.end
    if at < len(document.text):
        yield document.text[at:], None
