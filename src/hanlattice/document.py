"""Document: a text with its spans, which iterates, becomes JSON, and shows itself in notebooks."""

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
    """A text and the spans that a model found in it; iterating gives the spans.

    Attributes:
        text: The text as it was given.
        spans: From left to right.
        candidates: The most probable spans, best first, if a caller asked for them.
        score: The probability that the text has exactly these spans, from `Predictor.readings`.
        words: The words of the text, if a segmenter read it.
        cuts: Whether the spans themselves are the words, as a segmenter finds them.
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
        """Iterate over the spans, from left to right."""
        return iter(self.spans)

    @property
    def entities(self) -> tuple[Span, ...]:
        """The spans, or nothing for a segmenter, whose spans are words."""
        return () if self.cuts else self.spans

    def to_dict(self) -> dict[str, Any]:
        """Return the record that `hanlattice tag` writes.

        It has `text` and `spans`, and `words`, `candidates` and `score` if they are known.
        """
        record: dict[str, Any] = {"text": self.text, "spans": span_records(self.text, self.spans)}
        if self.words is not None and not self.cuts:
            record["words"] = span_records(self.text, self.words)
        if self.candidates is not None:
            record["candidates"] = span_records(self.text, self.candidates)
        return record if self.score is None else record | {"score": rounded(self.score)}

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON, with Chinese not escaped.

        Args:
            indent: Spaces of each level. None gives one line, which `hanlattice train` can read.
        """
        return to_json(self.to_dict(), indent)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the text with coloured spans, and scores as tool tips."""
        tone_of = tones(span.label for span in self.spans)
        html = []
        for text, span in parts_of(self):
            if span is None:
                html.append(escaped(text))
                continue
            label = escaped(span.label)
            title = label if span.score is None else f"{label} {span.score:.4f}"
            name = f'<small style="margin-left:.35em;opacity:.75">{label}</small>'
            # Notebooks drop style sheets. A tint of 20 % (33 in hex) is readable on light and dark.
            colour = TONES[tone_of[span.label]].light
            look = (
                f"color:inherit;background:{colour}33;border-bottom:.12em solid {colour};"
                "border-radius:.25em;padding:.1em"
            )
            inside = escaped(text) + ("" if span.label == WORD else name)
            html.append(f'<mark title="{title}" style="{look}">{inside}</mark>')
        return f'<div dir="auto" style="line-height:2;white-space:pre-wrap">{"".join(html)}</div>'


def parts_of(document: Document) -> Iterator[tuple[str, Span | None]]:
    """Yield the text in parts from left to right: each span, and None with what lies between.

    If the document has words beside its spans, a space separates them, and `_LABEL` follows a word
    that has a label of its own: `长江_ns 大桥_n`.
    """
    text = document.text
    words = () if document.cuts else document.words or ()
    characters = list(text)
    edges = {edge for word in words for edge in (word.start, word.end)} - {0, len(text)}
    # A space goes before these characters, unless there is white space already.
    gaps = {edge for edge in edges if not (text[edge - 1].isspace() or text[edge].isspace())}
    for word in words:
        if word.label != WORD:
            characters[word.end - 1] += f"_{word.label}"
    spaced = [" " * (place in gaps) + shown for place, shown in enumerate(characters)]
    done = 0
    for span in document.spans:
        # The space before a span belongs to the text between spans.
        between = "".join(spaced[done : span.start]) + " " * (span.start in gaps)
        if between:
            yield between, None
        yield characters[span.start] + "".join(spaced[span.start + 1 : span.end]), span
        done = span.end
    if done < len(text):
        yield "".join(spaced[done:]), None


def keep_names(words: Sequence[Span], names: Sequence[Span]) -> tuple[Span, ...]:
    """Return the words with each name as one word: 任正非 for 任 正非.

    A word that lies across the edge of a name is cut there. A name has the label of its last word.
    """
    starts = [name.start for name in names]
    edges = [edge for name in names for edge in (name.start, name.end)]

    def name_at(part: Span) -> int:
        """Return the index of the name that has this part; else a number that no other part has."""
        index = bisect_right(starts, part.start) - 1
        return index if index >= 0 and part.start < names[index].end else -1 - part.start

    parts = (part for word in words for part in _cut(word, edges))
    kept: list[Span] = []
    for index, group in groupby(parts, name_at):
        inside = list(group)
        name = names[index] if index >= 0 else inside[0]
        if (inside[0].start, inside[0].end) == (name.start, name.end):
            kept += inside
        else:
            kept.append(Span(name.start, name.end, inside[-1].label, None, name.text))
    return tuple(kept)


def _cut(word: Span, edges: Sequence[int]) -> list[Span]:
    """Cut the word at these places, which are in ascending order."""
    inner = edges[bisect_right(edges, word.start) : bisect_left(edges, word.end)]
    if not inner:
        return [word]
    cuts = pairwise([word.start, *dict.fromkeys(inner), word.end])
    first = word.start
    return [
        Span(low, high, word.label, None, word.text[low - first : high - first])
        for low, high in cuts
    ]
