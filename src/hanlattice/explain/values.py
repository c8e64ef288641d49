"""`Explanation`: a text, the spans found in it, and the shares mixed into each character's cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hanlattice.text.display import rounded
from hanlattice.text.span import Span

# Decimal digits of the numbers in `to_dict`.
DIGITS = 6
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a cell, from 0 to 1, as its distribution over the hidden units.

    `spread` is the standard deviation; a tenth of the units is below `low`, a tenth above `high`.
    """

    mean: float
    spread: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return the four numbers, rounded, for JSON."""
        names = ("mean", "spread", "low", "high")
        return {name: round(getattr(self, name), DIGITS) for name in names}


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the lexicon at [start, end) of the text, as the lexicon spells it.

    `source` is words or subwords; `chosen` says whether a user added the word.
    """

    start: int
    end: int
    word: str
    source: str
    chosen: bool

    def at(self, direction: str) -> int:
        """Return the character whose cell it enters: its last, or its first if backward."""
        return self.end - 1 if direction == "forward" else self.start


@dataclass(frozen=True)
class Direction:
    """The shares of the cells of one direction, which sum to one at each character.

    `words` has the order of `Explanation.words`, each at the cell that it enters. `own` are the
    shares of a character's own input, None where the model reads nothing. `before` are the shares
    of the previous cell, None where words enter, since they replace it.
    """

    words: tuple[Share, ...]
    own: tuple[Share | None, ...]
    before: tuple[Share | None, ...]


@dataclass(frozen=True)
class Ablation:
    """What a model would find in a word's piece of the text without that word in its lattice.

    `first` is the index in `Explanation.spans` of the piece's first span, `scores` the probability
    of each span from there on, and `spans` what would be found instead.
    """

    first: int
    scores: tuple[float, ...]
    spans: tuple[Span, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        scores = [rounded(score, DIGITS) for score in self.scores]
        spans = [span.as_dict() for span in self.spans]
        return {"first": self.first, "scores": scores, "spans": spans}


@dataclass(frozen=True)
class Layer:
    forward: Direction
    backward: Direction


@dataclass(frozen=True)
class Explanation:
    """Why a model finds what it finds in a text.

    Offsets are code points of the text as given. Tuples by character have an entry for each of
    them; white space is not read, so its `tags` and `marginals` are None. The lowest layer is
    first. A model without a lexicon has neither words nor layers, and `has_lattice` is False.
    """

    text: str
    spans: tuple[Span, ...]
    tags: tuple[str | None, ...]
    words: tuple[Word, ...]
    layers: tuple[Layer, ...]
    tag_names: tuple[str, ...]
    # By character, in the order of tag_names.
    marginals: tuple[tuple[float, ...] | None, ...]
    # The parts of a long text, each read by itself.
    pieces: tuple[tuple[int, int], ...]
    has_lattice: bool
    # For each of `words`, if requested.
    without: tuple[Ablation, ...] = ()

    # What a notebook shows. explain/__init__ sets it: pictures are drawn above this module.
    _repr_svg_: ClassVar[Callable[[Explanation], str | None]]

    def into(self, at: int, direction: str) -> tuple[int, ...]:
        """Return the indices in `words` of the words that enter a character's cell."""
        return tuple(nth for nth, word in enumerate(self.words) if word.at(direction) == at)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers, for JSON."""
        words = []
        for index, word in enumerate(self.words):
            names = ("start", "end", "word", "source", "chosen")
            record = {name: getattr(word, name) for name in names}
            for name in DIRECTIONS:
                record[name] = [
                    getattr(layer, name).words[index].to_dict() for layer in self.layers
                ]
            if self.without:
                record["without"] = self.without[index].to_dict()
            words.append(record)
        return {
            "text": self.text,
            "spans": [span.as_dict() for span in self.spans],
            "words": words,
            "characters": [self._character(index) for index in range(len(self.text))],
            "pieces": [list(piece) for piece in self.pieces],
            "has_lattice": self.has_lattice,
        }

    def _character(self, index: int) -> dict[str, Any]:
        record: dict[str, Any] = {"at": index, "character": self.text[index]}
        record |= {"tag": self.tags[index], "marginals": None}
        chances = self.marginals[index]
        if chances is not None:
            rates = zip(self.tag_names, chances, strict=True)
            record["marginals"] = {tag: rounded(rate, DIGITS) for tag, rate in rates}
        for name in DIRECTIONS:
            record[name] = []
            for layer in self.layers if chances else ():
                direction = getattr(layer, name)
                own, before = direction.own[index], direction.before[index]
                shares = {"own": own and own.to_dict(), "before": before and before.to_dict()}
                record[name].append(shares)
        return record


def joined(
    text: str, parts: Sequence[Explanation], pieces: Sequence[tuple[int, int]]
) -> Explanation:
    """Join the explanations of all pieces into one, with the offsets of the whole text."""
    spans: list[Span] = []
    words: list[Word] = []
    without: list[Ablation] = []
    names = tuple(dict.fromkeys(name for part in parts for name in part.tag_names))
    marginals: list[tuple[float, ...] | None] = []
    for part, (offset, _) in zip(parts, pieces, strict=True):
        for change in part.without:
            shifted = tuple(span.shifted(offset) for span in change.spans)
            without.append(Ablation(len(spans), change.scores, shifted))
        spans += (span.shifted(offset) for span in part.spans)
        words += (replace(w, start=w.start + offset, end=w.end + offset) for w in part.words)
        marginals += _in_order(part, names)
    layers = zip(*(part.layers for part in parts), strict=True)
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
        marginals=tuple(marginals),
        pieces=tuple(pieces),
        has_lattice=parts[0].has_lattice,
        without=tuple(without),
    )


def _in_order(part: Explanation, names: tuple[str, ...]) -> Sequence[tuple[float, ...] | None]:
    """Return a piece's marginals for these tags; 0 for a dictionary's label that it lacks."""
    if part.tag_names == names:
        return part.marginals
    columns = {name: column for column, name in enumerate(part.tag_names)}
    order = [columns.get(name, -1) for name in names]
    return [
        None if row is None else tuple(row[column] if column >= 0 else 0.0 for column in order)
        for row in part.marginals
    ]


def _direction(parts: Sequence[Direction]) -> Direction:
    return Direction(
        words=tuple(share for part in parts for share in part.words),
        own=tuple(share for part in parts for share in part.own),
        before=tuple(share for part in parts for share in part.before),
    )


def percent(share: float) -> str:
    """Return a share as whole per cent."""
    return f"{100 * share:.0f}%"


def chance(probability: float) -> str:
    """Return a probability in per cent. Only 1 is 100%, and only 0 is 0%."""
    if 0 < probability < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= probability < 1 else percent(probability)
