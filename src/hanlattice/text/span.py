"""Span: a labelled piece of a text, half-open, in code points of the text as given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hanlattice.optional import require
from hanlattice.text.display import rounded

# The label of a word whose part of speech is not known.
WORD = "WORD"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The characters [start, end) of a text, with a label, and perhaps a probability and the text.

    The probability is `score`. Spans are compared, and sorted, by start, end and label.
    """

    start: int
    end: int
    label: str
    score: float | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span needs 0 <= start < end, not [{self.start}, {self.end})")

    def shifted(self, by: int) -> Span:
        """Return the same span `by` characters further right."""
        return Span(self.start + by, self.end + by, self.label, self.score, self.text)

    def as_dict(self) -> dict[str, object]:
        """Return the span as written to a line of JSONL."""
        place: dict[str, object] = {"start": self.start, "end": self.end}
        record = place | {"label": self.label, "text": self.text}
        return record if self.score is None else record | {"score": rounded(self.score)}


def arrow_type() -> Any:
    """Return the type of a column of spans in Arrow and Parquet."""
    arrow = require("pyarrow")
    place = [("start", arrow.int32()), ("end", arrow.int32())]
    texts = [("label", arrow.string()), ("text", arrow.string())]
    return arrow.list_(arrow.struct([*place, *texts, ("score", arrow.float64())]))
