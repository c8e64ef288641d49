"""Documents as lines: JSON, columns, or marks in the text, which have colours at a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hanlattice.data.columns import format_columns
from hanlattice.data.jsonl import to_json, to_json_line
from hanlattice.predict import Document
from hanlattice.style import TONES, tones
from hanlattice.text.display import counted, visible
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


def terminal_lines(documents: Iterable[Document], labels: Sequence[str], colour: bool = True) -> Iterator[str]:
    """A line for each document, as soon as it comes, and a legend at the end. `labels` are those of the model.

    What a terminal would obey, or could not show, is an escape. Without `colour` the same marks stand in plain text.
    """
    inks = {label: f"38;5;{TONES[at].terminal}" for label, at in tones(labels).items()} if colour else {}
    counts: Counter[str] = Counter()
    texts = 0
    for document in documents:
        parts = (visible(text) if span is None else _mark(text, span.label, inks) for text, span in parts_of(document))
        yield "".join(parts) + "\n"
        counts.update(span.label for span in document.spans)
        texts += 1
    yield _legend(counts, labels, inks, texts)


def _mark(text: str, label: str, inks: dict[str, str]) -> str:
    if label not in inks:
        return f"[{visible(text)}/{visible(label)}]"
    return f"\x1b[{inks[label]}m[\x1b[1m{visible(text)}\x1b[22m/{visible(label)}]\x1b[0m"


def _legend(counts: Counter[str], labels: Sequence[str], inks: dict[str, str], texts: int) -> str:
    """A line under an empty one; labels that were not found stay in it, so that the colours are explained."""
    each = [_named(label, inks) + f" {counts[label]:,}" for label in (*labels, *sorted(counts.keys() - set(labels)))]
    return "\n" + " · ".join([*each, counted(texts, "text")]) + "\n"


def _named(label: str, inks: dict[str, str]) -> str:
    return f"\x1b[1;{inks[label]}m{visible(label)}\x1b[0m" if label in inks else visible(label)
