"""Sentence: the text as given, the characters that the model sees, and gold spans and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from hanlattice.checks import brief, check_number
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.span import WORD, Span

# What rounding may change of a sum of shares.
_ROUNDED = 0.01


class SoftLabel(NamedTuple):
    """The share of a tag at a character of which the teachers of a model were not sure."""

    place: int
    tag: str
    share: float


@dataclass(frozen=True)
class Sentence:
    """A text, with gold spans, gold words and soft labels if it has any.

    Words cover the text, and are labelled with a part of speech, or WORD. Where a character has
    soft labels, a model learns them instead of its tag in `spans`; their shares add up to 1.
    """

    text: str
    spans: tuple[Span, ...] | None = None
    words: tuple[Span, ...] | None = None
    soft_labels: tuple[SoftLabel, ...] = ()

    def __post_init__(self) -> None:
        length = len(self.text)
        if self.spans is not None:
            object.__setattr__(self, "spans", tuple(sorted(self.spans)))
            for span in self.spans:
                if span.end > length:
                    place = f"[{span.start}, {span.end})"
                    raise ValueError(f"span {place} ends after the text ({length} characters)")
            for left, right in pairwise(self.spans):
                if right.start < left.end:
                    places = f"[{left.start}, {left.end}) and [{right.start}, {right.end})"
                    raise ValueError(f"spans overlap: {places}")
        if self.words is not None:
            object.__setattr__(self, "words", tuple(sorted(self.words)))
            check_words(self.words, length)
        if self.soft_labels:
            object.__setattr__(self, "soft_labels", tuple(sorted(self.soft_labels)))
            _check_soft_labels(self.soft_labels, self.text)

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def folded(self) -> str:
        """Return the text that the lexicon matches: widths and script folded, digits unchanged."""
        return fold(self.text)

    @cached_property
    def characters(self) -> str:
        """Return the text that the embedding looks up: also with every digit as 0."""
        return fold_digits(self.text)


def _check_soft_labels(soft_labels: Sequence[SoftLabel], text: str) -> None:
    for place, group in groupby(soft_labels, key=lambda label: label.place):
        shares: dict[str, float] = {}
        for _, tag, share in group:
            if tag in shares:
                raise ValueError(f"the tag {tag!r} comes twice at character {place}")
            shares[tag] = share
        if not 0 <= place < len(text) or text[place].isspace():
            character = f"character {brief(place)} of {len(text)}"
            raise ValueError(f"there can be no doubt about {character}, or it is white space")
        try:
            for tag, share in shares.items():
                check_number(share, f"the share of {brief(tag)}", 0.0, 1.0 + _ROUNDED)
            is_whole = abs(sum(shares.values()) - 1) <= _ROUNDED and min(shares.values()) > 0
        except ValueError:
            is_whole = False
        if not is_whole:
            message = f"the shares of tags at character {place} must be above 0 and add up to 1"
            raise ValueError(f"{message}: {brief(shares)}")


def check_words(words: Sequence[Span], length: int) -> None:
    """Raise a ValueError unless words in their order cover a text of this length exactly."""
    end = 0
    for word in words:
        if word.start < end:
            place = f"[{word.start}, {word.end}) begins before {end}"
            raise ValueError(f"words overlap: {place}, where the last one ends")
        if word.start > end:
            raise ValueError(f"words leave a gap: none covers [{end}, {word.start})")
        end = word.end
    if end < length:
        raise ValueError(f"words leave a gap: none covers [{end}, {length})")
    if end > length:
        place = f"[{words[-1].start}, {end})"
        raise ValueError(f"word {place} ends after the text ({length} characters)")


def cover_space(words: Iterable[Span], text: str) -> list[Span]:
    """Return the words in order, with a word for each run of white space between them."""
    covering: list[Span] = []
    end = 0
    # None stands for the end of the text.
    for word in [*sorted(words), None]:
        start = len(text) if word is None else word.start
        if text[end:start].isspace():
            covering.append(Span(end, start, WORD, None, text[end:start]))
        if word is not None:
            covering.append(word)
            end = word.end
    return covering


@dataclass(frozen=True)
class Corpus:
    """Sentences of a file, with its tags as written.

    The scorer needs the tags, illegal ones included; a file without tags has None. `scheme` is the
    scheme of the tags, and `notices` report what is unusual in the file.
    """

    sentences: tuple[Sentence, ...]
    scheme: str | None = None
    tags: tuple[tuple[str, ...], ...] | None = None
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)

    def at(self, places: Sequence[int]) -> Corpus:
        """Return the sentences at these indices, with their tags."""
        tags = None if self.tags is None else tuple(self.tags[index] for index in places)
        return replace(self, sentences=tuple(self.sentences[index] for index in places), tags=tags)
