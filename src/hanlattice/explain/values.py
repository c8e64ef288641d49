"""Explanation: a text, what was found in it, and the shares that were mixed into the cell of each
character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hanlattice.text.display import rounded
from hanlattice.text.span import Span

DIGITS = 6  # of the numbers in `to_dict`
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a cell, from 0 to 1: each hidden unit has its own, and this is their distribution."""

    mean: float
    spread: float  # standard deviation
    low: float  # a tenth of the units have less
    high: float  # a tenth have more

    def to_dict(self) -> dict[str, float]:
        """The four numbers, rounded, for JSON."""
        return {
            name: round(getattr(self, name), DIGITS) for name in ("mean", "spread", "low", "high")
        }


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the lexicon at [start, end) of the text, as the lexicon spells it."""

    start: int
    end: int
    word: str
    source: str  # words or subwords
    chosen: bool  # whether a user added it

    def at(self, direction: str) -> int:
        """The character whose cell it enters: its last; for the backward direction, its first."""
        return self.end - 1 if direction == "forward" else self.start


@dataclass(frozen=True)
class Direction:
    """Shares of the cells of one direction. At each character they sum to one."""

    words: tuple[Share, ...]  # in the order of `Explanation.words`, each at the cell that it enters
    own: tuple[
        Share | None, ...
    ]  # of each character's own input; None where the model reads nothing
    before: tuple[
        Share | None, ...
    ]  # of the previous cell; None where words enter, since they replace it


@dataclass(frozen=True)
class Ablation:
    """What would be found in a text, or in the word's piece of it, if one word were missing from
    its lattice.
    """

    first: int  # the index in `Explanation.spans` of the piece's first span
    scores: tuple[float, ...]  # how probable each span from there on would be
    spans: tuple[Span, ...]  # what would be found there

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        scores = [rounded(score, DIGITS) for score in self.scores]
        return {
            "first": self.first,
            "scores": scores,
            "spans": [span.as_dict() for span in self.spans],
        }


@dataclass(frozen=True)
class Layer:
    forward: Direction
    backward: Direction


@dataclass(frozen=True)
class Explanation:
    """All offsets are code points of the text as given; tuples by character have an entry for each
    of them.

    White space is not read: there `tags` and `marginals` are None. The lowest layer comes first. A
    model without a lexicon has neither words nor layers, and `has_lattice` is False.
    """

    text: str
    spans: tuple[Span, ...]
    tags: tuple[str | None, ...]
    words: tuple[Word, ...]
    layers: tuple[Layer, ...]
    tag_names: tuple[str, ...]
    marginals: tuple[tuple[float, ...] | None, ...]  # by character, in the order of tag_names
    pieces: tuple[tuple[int, int], ...]  # parts of a long text, each read by itself
    has_lattice: bool
    without: tuple[Ablation, ...] = ()  # for each of `words`, if requested

    # What a notebook shows. explain/__init__ sets it: pictures are drawn above this module.
    _repr_svg_: ClassVar[Callable[[Explanation], str | None]]

    def into(self, at: int, direction: str) -> tuple[int, ...]:
        """The indices in `words` of those that enter the cell of a character."""
        return tuple(nth for nth, word in enumerate(self.words) if word.at(direction) == at)

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers, for JSON."""
        return {
            "text": self.text,
            "spans": [span.as_dict() for span in self.spans],
            "words": [self._word(nth, word) for nth, word in enumerate(self.words)],
            "characters": [self._character(at) for at in range(len(self.text))],
            "pieces": [list(piece) for piece in self.pieces],
            "has_lattice": self.has_lattice,
        }

    def _word(self, nth: int, word: Word) -> dict[str, Any]:
        record = {
            name: getattr(word, name) for name in ("start", "end", "word", "source", "chosen")
        }
        for name in DIRECTIONS:
            record[name] = [getattr(layer, name).words[nth].to_dict() for layer in self.layers]
        if self.without:
            record["without"] = self.without[nth].to_dict()
        return record

    def _character(self, at: int) -> dict[str, Any]:
        chances = self.marginals[at]
        record: dict[str, Any] = {
            "at": at,
            "character": self.text[at],
            "tag": self.tags[at],
            "marginals": None,
        }
        if chances is not None:
            record["marginals"] = {
                tag: rounded(chance, DIGITS)
                for tag, chance in zip(self.tag_names, chances, strict=True)
            }
        for name in DIRECTIONS:
            record[name] = (
                [_shares(getattr(layer, name), at) for layer in self.layers] if chances else []
            )
        return record


def _shares(direction: Direction, at: int) -> dict[str, Any]:
    own = direction.own[at]
    before = direction.before[at]
    return {"own": own and own.to_dict(), "before": before and before.to_dict()}


def joined(
    text: str, parts: Sequence[Explanation], pieces: Sequence[tuple[int, int]]
) -> Explanation:
    """The explanations of all pieces as one, with the offsets of the whole text."""
    spans: list[Span] = []
    words: list[Word] = []
    without: list[Ablation] = []
    for part, (by, _) in zip(parts, pieces, strict=True):
        without += (
            Ablation(len(spans), each.scores, tuple(span.shifted(by) for span in each.spans))
            for each in part.without
        )
        spans += (span.shifted(by) for span in part.spans)
        words += (replace(word, start=word.start + by, end=word.end + by) for word in part.words)
    layers = zip(*(part.layers for part in parts), strict=True)
    names = tuple(dict.fromkeys(name for part in parts for name in part.tag_names))
    return Explanation(
        text=text,
        spans=tuple(spans),
        tags=tuple(tag for part in parts for tag in part.tags),
        words=tuple(words),
        layers=tuple(
            Layer(_direction([x.forward for x in row]), _direction([x.backward for x in row]))
            for row in layers
        ),
        tag_names=names,
        marginals=tuple(row for part in parts for row in _in_order(part, names)),
        pieces=tuple(pieces),
        has_lattice=parts[0].has_lattice,
        without=tuple(without),
    )


def _in_order(part: Explanation, names: tuple[str, ...]) -> Sequence[tuple[float, ...] | None]:
    """The probabilities of these tags at each character, 0 for a label of the dictionary that the
    piece has not.
    """
    if part.tag_names == names:
        return part.marginals
    places = {name: at for at, name in enumerate(part.tag_names)}
    order = [places.get(name, -1) for name in names]
    return [
        None if row is None else tuple(row[at] if at >= 0 else 0.0 for at in order)
        for row in part.marginals
    ]


def _direction(parts: Sequence[Direction]) -> Direction:
    return Direction(
        words=tuple(share for part in parts for share in part.words),
        own=tuple(share for part in parts for share in part.own),
        before=tuple(share for part in parts for share in part.before),
    )


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def chance(probability: float) -> str:
    """A probability in percent. Only 1 is 100%, and only 0 is 0%."""
    if 0 < probability < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= probability < 1 else percent(probability)
