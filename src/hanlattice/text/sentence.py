"""Sentence: the text as given, the characters that the model sees, and its gold spans and words if
it has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from hanlattice.checks import brief, check_number
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.normalize import fold, fold_digits
from hanlattice.text.span import WORD, Span

_ROUNDED = 0.01  # what rounding may change of the sum of shares


class SoftLabel(NamedTuple):
    """The share of a tag at a character of which the teachers of a model were not sure."""

    place: int
    tag: str
    share: float


@dataclass(frozen=True)
class Sentence:
    """`words` are the gold segmentation: they cover the text, and a label is a part of speech, or
    WORD.

    Where there are `soft_labels` about a character, they are learnt in place of its tag in `spans`;
    they add up to 1.
    """

    text: str
    spans: tuple[Span, ...] | None = None
    words: tuple[Span, ...] | None = None
    soft_labels: tuple[SoftLabel, ...] = ()

    def __post_init__(self) -> None:
        if self.spans is not None:
            object.__setattr__(self, "spans", tuple(sorted(self.spans)))
            _check_spans(self.spans, len(self.text))
        if self.words is not None:
            object.__setattr__(self, "words", tuple(sorted(self.words)))
            check_words(self.words, len(self.text))
        if self.soft_labels:
            object.__setattr__(self, "soft_labels", tuple(sorted(self.soft_labels)))
            _check_doubts(self.soft_labels, self.text)

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def folded(self) -> str:
        """The text that the lexicon matches: widths and script folded, digits as they are."""
        return fold(self.text)

    @cached_property
    def characters(self) -> str:
        """The text that the character embedding looks up: widths and script folded, every digit a
        0.
        """
        return fold_digits(self.text)


def _check_spans(spans: Sequence[Span], length: int) -> None:
    for span in spans:
        if span.end > length:
            raise ValueError(
                f"span [{span.start}, {span.end}) ends after the text ({length} characters)"
            )
    for left, right in pairwise(spans):
        if right.start < left.end:
            raise ValueError(
                f"spans overlap: [{left.start}, {left.end}) and [{right.start}, {right.end})"
            )


def _check_doubts(soft_labels: Sequence[SoftLabel], text: str) -> None:
    for place, group in groupby(soft_labels, key=lambda doubt: doubt.place):
        shares: dict[str, float] = {}
        for _, tag, share in group:
            if tag in shares:
                raise ValueError(f"the tag {tag!r} comes twice at character {place}")
            shares[tag] = share
        if not 0 <= place < len(text) or text[place].isspace():
            raise ValueError(
                f"there can be no doubt about character {brief(place)} of {len(text)}, or it is white space"
            )
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
    """Words in their order must cover a text of this length without gap or overlap, or it is a
    ValueError.
    """
    at = 0
    for word in words:
        if word.start < at:
            raise ValueError(
                f"words overlap: [{word.start}, {word.end}) begins before {at}, where the last one ends"
            )
        if word.start > at:
            raise ValueError(f"words leave a gap: none covers [{at}, {word.start})")
        at = word.end
    if at < length:
        raise ValueError(f"words leave a gap: none covers [{at}, {length})")
    if at > length:
        raise ValueError(
            f"word [{words[-1].start}, {at}) ends after the text ({length} characters)"
        )


def cover_space(words: Iterable[Span], text: str) -> list[Span]:
    """The words in their order, and between them a word of its own for each run of white space that
    none covers.
    """
    covering: list[Span] = []
    at = 0
    for word in [*sorted(words), None]:
        start = len(text) if word is None else word.start
        if text[at:start].isspace():
            covering.append(Span(at, start, WORD, None, text[at:start]))
        if word is not None:
            covering.append(word)
            at = word.end
    return covering


@dataclass(frozen=True)
class Corpus:
    """`tags` are those of the file as written, illegal ones included, for the scorer; None for a
    file without tags.

    `scheme` is the scheme of `tags`; `notices` report what was unusual in the file.
    """

    sentences: tuple[Sentence, ...]
    scheme: str | None = None
    tags: tuple[tuple[str, ...], ...] | None = None
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)

    def at(self, places: Sequence[int]) -> Corpus:
        """The sentences at these places, with their tags."""
        tags = None if self.tags is None else tuple(self.tags[at] for at in places)
        return replace(self, sentences=tuple(self.sentences[at] for at in places), tags=tags)
