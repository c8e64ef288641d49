"""What became of every span: found, nearly found, missed or invented, by each of two models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from hanlattice.errors import InputError
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span

CORRECT = "correct"
NEAR = ("boundary", "label", "boundary and label")
MISSED = (*NEAR, "missed")  # of an entity that was not found
WRONG = (*NEAR, "invented")  # of a span that is no entity


@dataclass(frozen=True, slots=True)
class Judged:
    """A span of the gold labels or of a model, and a word for each model.

    Of an entity: 'correct', or how it was missed. Of a wrong span: how it is wrong, or None for a model without it.
    """

    span: Span
    gold: bool
    a: str | None
    b: str | None

    @property
    def in_a(self) -> bool:
        return self.a == CORRECT if self.gold else self.a is not None

    @property
    def in_b(self) -> bool:
        return self.b == CORRECT if self.gold else self.b is not None


@dataclass(frozen=True)
class Compared:
    """A sentence (`index` counts from 0) with all that its labels or a model say of it, from left to right."""

    index: int
    text: str
    spans: tuple[Judged, ...]

    @cached_property
    def differences(self) -> int:
        """How many spans one of the models has and the other has not."""
        return sum(each.in_a != each.in_b for each in self.spans)

    @cached_property
    def mistakes(self) -> int:
        """How many entities a model missed, and how many wrong spans a model has; of both models, once."""
        return sum(not (each.gold and each.in_a and each.in_b) for each in self.spans)

    def as_dict(self) -> dict[str, object]:
        """Offsets are code points of `text`, half-open."""
        spans = [{**_named(each.span, self.text), "gold": each.gold, "a": each.a, "b": each.b} for each in self.spans]
        return {"index": self.index, "text": self.text, "differences": self.differences, "spans": spans}


def _named(span: Span, text: str) -> dict[str, object]:
    return {"start": span.start, "end": span.end, "label": span.label, "text": text[span.start : span.end]}


def judge(index: int, sentence: Sentence, a: Iterable[Span], b: Iterable[Span]) -> Compared:
    """A sentence with its labels, and the spans that each model found in it."""
    if sentence.spans is None:
        raise InputError(f"sentence {index + 1} has no labels: expected spans, or an empty list of them")
    gold = set(sentence.spans)
    found_a, found_b = (_checked(index, sentence.text, spans) for spans in (a, b))
    spans = [Judged(span, True, _fate(span, found_a), _fate(span, found_b)) for span in gold]
    for span in (found_a | found_b) - gold:
        kind = kind_of(span, gold, "invented")
        spans.append(Judged(span, False, kind if span in found_a else None, kind if span in found_b else None))
    return Compared(index, sentence.text, tuple(sorted(spans, key=lambda each: each.span)))


def _fate(entity: Span, found: set[Span]) -> str:
    return CORRECT if entity in found else kind_of(entity, found, "missed")


def kind_of(span: Span, others: Iterable[Span], alone: str) -> str:
    """How near the other side comes to a span that it has not: `alone` where nothing of it overlaps the span."""
    near = [other for other in others if other.start < span.end and span.start < other.end]
    if any((other.start, other.end) == (span.start, span.end) for other in near):
        return "label"
    if any(other.label == span.label for other in near):
        return "boundary"
    return "boundary and label" if near else alone


def _checked(index: int, text: str, spans: Iterable[Span]) -> set[Span]:
    """The spans as a set, if they lie in the text and apart from each other, as a Sentence wants them."""
    found = set(spans)
    try:
        Sentence(text, tuple(found))
    except ValueError as error:
        raise ValueError(f"a model's spans of sentence {index + 1}: {error}") from None
    return found
