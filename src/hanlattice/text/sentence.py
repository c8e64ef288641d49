"""Sentence: the text as given, the characters that the model sees, and its gold spans if it has any."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hanlattice.text.normal import fold, fold_digits
from hanlattice.text.spans import Span


@dataclass(frozen=True)
class Sentence:
    text: str
    spans: tuple[Span, ...] | None = None

    def __post_init__(self) -> None:
        ordered = None if self.spans is None else tuple(sorted(self.spans))
        for span in ordered or ():
            if span.end > len(self.text):
                raise ValueError(f"span [{span.start}, {span.end}) ends after the text ({len(self.text)} characters)")
        for left, right in zip(ordered or (), (ordered or ())[1:], strict=False):
            if right.start < left.end:
                raise ValueError(f"spans overlap: [{left.start}, {left.end}) and [{right.start}, {right.end})")
        object.__setattr__(self, "spans", ordered)

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def folded(self) -> str:
        """The text that the lexicon matches: widths folded, digits as they are."""
        return fold(self.text)

    @cached_property
    def characters(self) -> str:
        """The text that the character embedding looks up: widths folded, every digit a 0."""
        return fold_digits(self.text)
