"""Document: a text and what was found in it. It iterates, becomes JSON, and shows itself in a
notebook.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from hanlattice.data.formats.jsonl import span_records, to_json
from hanlattice.text.display import rounded
from hanlattice.text.span import WORD, Span
from hanlattice.theme import TONES, escaped, tones


@dataclass(frozen=True)
class Document:
    """A text as it was given, and the spans found in it, from left to right; iterating gives the
    spans.

    `words` are its words where a segmenter read the text, else None. `cuts` says that the spans
    themselves are the words, as those of a segmenter are. `candidates`, if they were asked for, are
    its most probable spans, the best first. `score`, only in the documents of `Predictor.readings`,
    is the probability that the text has exactly these spans.
    """

    text: str
    spans: tuple[Span, ...]
    candidates: tuple[Span, ...] | None = None
    score: float | None = None
    words: tuple[Span, ...] | None = None
    cuts: bool = False

    def __post_init__(self) -> None:
        if self.cuts:
            object.__setattr__(self, "words", self.spans)

    def __iter__(self) -> Iterator[Span]:
        """The spans, from left to right."""
        return iter(self.spans)

    @property
    def entities(self) -> tuple[Span, ...]:
        """The spans, unless they are the words of a segmenter, which finds no entities."""
        return () if self.cuts else self.spans

    def to_dict(self) -> dict[str, Any]:
        """What `hanlattice tag` writes, as plain values: text, spans, and words, candidates and
        score if there are.
        """
        record: dict[str, Any] = {"text": self.text, "spans": span_records(self.text, self.spans)}
        if self.words is not None and not self.cuts:
            record["words"] = span_records(self.text, self.words)
        if self.candidates is not None:
            record["candidates"] = span_records(self.text, self.candidates)
        return record if self.score is None else record | {"score": rounded(self.score)}

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as JSON, Chinese not escaped; without `indent` it is one line that `train` and
        others read.
        """
        return to_json(self.to_dict(), indent)

    def _repr_html_(self) -> str:
        """For notebooks: the text, its spans in colours, with their scores as tool tips, and a
        space between words.
        """
        places = tones(span.label for span in self.spans)
        parts = (
            escaped(text) if span is None else _mark(text, span, places)
            for text, span in parts_of(self)
        )
        return f'<div dir="auto" style="line-height:2;white-space:pre-wrap">{"".join(parts)}</div>'


def _mark(text: str, span: Span, places: dict[str, int]) -> str:
    """A mark with its style inside, since notebooks drop style sheets; its tint is readable on
    light and on dark.
    """
    colour = TONES[places[span.label]].light
    label = escaped(span.label)
    title = label if span.score is None else f"{label} {span.score:.4f}"
    look = f"color:inherit;background:{colour}33;border-bottom:.12em solid {colour};border-radius:.25em;padding:.1em"
    name = (
        ""
        if span.label == WORD
        else f'<small style="margin-left:.35em;opacity:.75">{label}</small>'
    )
    return f'<mark title="{title}" style="{look}">{escaped(text)}{name}</mark>'


def parts_of(document: Document) -> Iterator[tuple[str, Span | None]]:
    """The text in parts from left to right, each with the span that it is, or None for what lies
    between.

    Where there are words beside the spans, a space stands between two of them, and `_LABEL` after
    one that has a label of its own: `长江_ns 大桥_n`.
    """
    text = document.text
    words = () if document.cuts else document.words or ()
    cells = list(text)
    gaps = _gaps(text, words)
    for word in words:
        if word.label != WORD:
            cells[word.end - 1] += f"_{word.label}"
    at = 0
    for start, end, span in [
        *((span.start, span.end, span) for span in document.spans),
        (len(text), len(text), None),
    ]:
        between = [" " * (place in gaps) + cells[place] for place in range(at, start)] + [" "] * (
            start in gaps
        )
        if between:
            yield "".join(between), None
        if span is not None:
            inside = (" " * (place in gaps) + cells[place] for place in range(start + 1, end))
            yield cells[start] + "".join(inside), span
        at = end


def _gaps(text: str, words: Sequence[Span]) -> set[int]:
    """Where one of these words begins or ends and there is no white space."""
    edges = {edge for word in words for edge in (word.start, word.end)} - {0, len(text)}
    return {edge for edge in edges if not (text[edge - 1].isspace() or text[edge].isspace())}


def keep_names(words: Sequence[Span], names: Sequence[Span]) -> tuple[Span, ...]:
    """The words, each name as one of them: 任正非 for 任 正非. A word that lies across a name's edge is
    cut there.

    A name has the label of its last word.
    """
    starts = [name.start for name in names]
    edges = [edge for name in names for edge in (name.start, name.end)]

    def name_at(part: Span) -> int:
        """Which name this part of a word belongs to; a number of its own if to none."""
        at = bisect_right(starts, part.start) - 1
        return at if at >= 0 and part.start < names[at].end else -1 - part.start

    parts = (part for word in words for part in _cut(word, edges))
    kept: list[Span] = []
    for at, group in groupby(parts, name_at):
        inside = list(group)
        if at < 0 or (inside[0].start, inside[0].end) == (names[at].start, names[at].end):
            kept += inside
        else:
            kept.append(
                Span(names[at].start, names[at].end, inside[-1].label, None, names[at].text)
            )
    return tuple(kept)


def _cut(word: Span, edges: Sequence[int]) -> list[Span]:
    """The word in parts that end at these places."""
    inner = edges[bisect_right(edges, word.start) : bisect_left(edges, word.end)]
    if not inner:
        return [word]
    cuts = pairwise([word.start, *dict.fromkeys(inner), word.end])
    return [
        Span(low, high, word.label, None, word.text[low - word.start : high - word.start])
        for low, high in cuts
    ]
