"""What a picture of a lattice shows, before it is SVG or lines of a terminal: its parts, their
rows, their texts.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from rich.cells import cell_len

from hanlattice.errors import InputError
from hanlattice.explain.changes import changes, largest
from hanlattice.explain.values import Direction, Explanation, Layer, Word, chance, percent
from hanlattice.text.display import visible
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import labels_of
from hanlattice.theme import tones

SPACE = "␣"
CIRCLE = "◌"
LEFT_TO_RIGHT = "\u200e"
VIEWS = ("changes", "shares")  # what changes without a word; its share of the cells
KINDS = ("word", "subword", "chosen")  # the colours of arcs
LOOSE = 1.2  # how much longer than even a row may be
_BARS = (
    ("own", "share of the character itself"),
    ("word", "of words"),
    ("before", "of the cell before"),
)


@dataclass(frozen=True)
class Arc:
    """A word over [start, end), as thick as its share; `kind` is a colour."""

    start: int
    end: int
    label: str
    share: float
    kind: str
    title: str = ""


@dataclass(frozen=True)
class Cell:
    """A character; the bars above and below it have parts (share, colour) that fill them from left
    to right.
    """

    glyph: str
    title: str = ""
    above: tuple[tuple[float, str], ...] = ()
    below: tuple[tuple[float, str], ...] = ()
    is_read: bool = True
    is_bare: bool = (
        False  # it has neither bars nor bands, so that the character stands in the middle
    )


@dataclass(frozen=True)
class Band:
    """A span over [start, end)."""

    start: int
    end: int
    label: str
    tone: int
    title: str = ""


@dataclass(frozen=True)
class Sketch:
    """Everything in a picture. Arcs above lead to the last cell of a word, arcs below to its first."""

    title: str
    cells: tuple[Cell, ...]
    above: tuple[Arc, ...] = ()
    below: tuple[Arc, ...] = ()
    bands: tuple[Band, ...] = ()
    breaks: tuple[int, ...] = ()  # where a new row must begin
    legend: tuple[tuple[str, str], ...] = ()  # (a colour or "", its meaning)


def choose_view(explanation: Explanation, view: str | None) -> str:
    """What is drawn: what changes without each word, if that is known and nothing else was asked
    for.
    """
    return view or VIEWS[0 if explanation.without else 1]


def sketch(explanation: Explanation, layer: int = 1, view: str | None = None) -> Sketch:
    """The picture of an explanation: of what changes, or of the shares of one layer, counted from
    1, the lowest.
    """
    chosen = choose_layer(explanation, layer)
    tone = label_tones(explanation)
    is_shares = choose_view(explanation, view) == "shares"
    shares = chosen if is_shares else None
    return Sketch(
        title=explanation.text,
        cells=tuple(_cell(explanation, shares, at) for at in range(len(explanation.text))),
        above=_changing_arcs(explanation)
        if shares is None
        else _arcs(explanation, shares.forward, "forward"),
        below=() if shares is None else _arcs(explanation, shares.backward, "backward"),
        bands=tuple(
            Band(
                span.start,
                span.end,
                span_label(span),
                tone[span.label],
                f"{span.text}: {span_label(span)}",
            )
            for span in explanation.spans
        ),
        breaks=tuple(start for start, _ in explanation.pieces[1:]),
        legend=_legend(explanation, layer) if is_shares else _legend_of_changes(explanation),
    )


def choose_layer(explanation: Explanation, layer: int) -> Layer | None:
    """The layer of this number; None for a model without a lattice, which has no layers with words."""
    if not explanation.has_lattice:
        return None
    count = len(explanation.layers)
    if not 1 <= layer <= count:
        layers = "one layer, 1" if count == 1 else f"layers 1 to {count}"
        raise InputError(f"the model has {layers}; there is no layer {layer}")
    return explanation.layers[layer - 1]


def label_tones(explanation: Explanation) -> dict[str, int]:
    """The tones of the labels that the model knows, found in this text or not."""
    return tones({*labels_of(explanation.tag_names), *(span.label for span in explanation.spans)})


def span_label(span: Span) -> str:
    """Label and probability; only the probability for the words of a segmenter, which all have the
    same label.
    """
    number = "" if span.score is None else chance(span.score)
    return number if span.label == WORD and number else f"{span.label} {number}".strip()


def kind(word: Word) -> str:
    """The colour of a word."""
    return "chosen" if word.chosen else word.source.removesuffix("s")


def why_no_arcs(explanation: Explanation) -> str:
    """What to say of a text without arcs; empty where there are some."""
    if not explanation.has_lattice:
        return "this model has no lexicon: it reads characters alone"
    return "" if explanation.words else "no word of the lexicon stands in this text"


def _arcs(explanation: Explanation, direction: Direction, name: str) -> tuple[Arc, ...]:
    sharers = Counter(word.at(name) for word in explanation.words)
    without = {nth: f"; without it: {what}" for nth, what in changes(explanation).items()}
    arcs = []
    for nth, (word, share) in enumerate(zip(explanation.words, direction.words, strict=True)):
        mean, spread, low, high = map(percent, (share.mean, share.spread, share.low, share.high))
        title = (
            f"{word.word}, {name}: {mean} ± {spread} (most units {low} to {high}) of the cell of "
            f"{explanation.text[word.at(name)]}; an even share would be "
            f"{percent(1 / (1 + sharers[word.at(name)]))}{without.get(nth, '')}"
        )
        arcs.append(
            Arc(word.start, word.end, labelled(word.word, mean), share.mean, kind(word), title)
        )
    return tuple(arcs)


def _changing_arcs(explanation: Explanation) -> tuple[Arc, ...]:
    """All words, each as thick as what changes without it."""
    told = changes(explanation)
    arcs = []
    for nth, (word, most) in enumerate(zip(explanation.words, largest(explanation), strict=False)):
        title = f"without {word.word}: {told.get(nth, 'no change of 1% or more')}"
        arcs.append(
            Arc(
                word.start,
                word.end,
                labelled(word.word, most.text).strip(),
                most.weight,
                kind(word),
                title,
            )
        )
    return tuple(arcs)


def _legend_of_changes(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    if why := why_no_arcs(explanation):
        return (("", why),)
    kinds = {kind(word) for word in explanation.words}
    return (
        (
            "",
            "numbers and thickness: without the word, so many points more or less for a span that was found",
        ),
        ("", "!: other spans would be found"),
        *(("chosen", "words that were added"),) * ("chosen" in kinds),
        *(("subword", "subwords"),) * ("subword" in kinds),
    )


def _cell(explanation: Explanation, layer: Layer | None, at: int) -> Cell:
    glyph = shown(explanation.text[at])
    tag = explanation.tags[at]
    title = f"{glyph}, character {at}: "
    if tag is None:
        return Cell(glyph, title + "white space, which the model does not read", is_read=False)
    title += f"{tag} {chance(dict(zip(explanation.tag_names, explanation.marginals[at] or (), strict=True))[tag])}"
    if layer is None:
        return Cell(glyph, title)
    above, below = (_bar(direction, at) for direction in (layer.forward, layer.backward))
    title += f"; own share {percent(above[0][0])} forward, {percent(below[0][0])} backward"
    return Cell(glyph, title, above, below)


def _bar(direction: Direction, at: int) -> tuple[tuple[float, str], ...]:
    """Own input first; the rest is either of words or of the cell before."""
    own = direction.own[at]
    before = direction.before[at]
    assert own is not None
    return (own.mean, "own"), (1 - own.mean, "word" if before is None else "before")


def _legend(explanation: Explanation, layer: int) -> tuple[tuple[str, str], ...]:
    if why := why_no_arcs(explanation):
        return (("", why), *(_BARS if explanation.has_lattice else ()))
    of = f"layer {layer} of {len(explanation.layers)}; " if len(explanation.layers) > 1 else ""
    kinds = {kind(word) for word in explanation.words}
    entries = [
        ("", "above: read from left to right, words pour into their last character"),
        ("", "below: read from right to left, words pour into their first"),
        ("", f"{of}% and thickness: the share of that character's cell"),
        *(("chosen", "words that were added"),) * ("chosen" in kinds),
        *(("subword", "subwords"),) * ("subword" in kinds),
    ]
    return (*entries, *_BARS)


# ---- rows


class Interval(NamedTuple):
    """Characters [start, end)."""

    start: int
    end: int


class Placed(Protocol):
    """Anything over characters [start, end): an interval, a span, a word, an arc, a band."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def rows(
    widths: Sequence[float],
    most: float,
    keep: Iterable[Placed],
    soft: Iterable[Placed],
    breaks: Iterable[int],
) -> list[Interval]:
    """Runs of cells of at most this width, about equally long, never across one of `breaks`.

    In the last third of a full row it ends where it cuts the fewest of `keep`, then of `soft`, and
    then furthest right.
    """
    found = []
    kept = _crossings(keep, len(widths))
    softly = _crossings(soft, len(widths))
    for low, high in pairwise(sorted({0, len(widths), *breaks})):
        start = low
        while start < high:
            left = sum(widths[start:high])
            even = left / math.ceil(left / most)  # rows of this width leave no short one at the end
            # one cell at least
            fitting = min(most, even * LOOSE)
            end = start + 1
            while end < high and sum(widths[start : end + 1]) <= fitting:
                end += 1
            if end < high:
                least = start + max(1, (end - start) * 2 // 3)
                end = min(range(least, end + 1), key=lambda at: (kept[at], softly[at], -at))
            found.append(Interval(start, end))
            start = end
    return found or [Interval(0, 0)]


def _crossings(placed: Iterable[Placed], length: int) -> list[int]:
    """For each gap between characters, from 0 to `length`, how many of them a cut there would part."""
    steps = [0] * (length + 2)
    for each in placed:
        steps[each.start + 1] += 1
        steps[each.end] -= 1
    return list(accumulate(steps))[: length + 1]


def by_row(placed: Iterable[Placed], found: Sequence[Interval]) -> list[list[int]]:
    """For each row the indices of those that it has a part of."""
    starts = [row.start for row in found]
    indices: list[list[int]] = [[] for _ in found]
    for at, each in enumerate(placed):
        for row in range(bisect_right(starts, each.start) - 1, bisect_left(starts, each.end)):
            indices[row].append(at)
    return indices


def edges(widths: Sequence[float], row: Interval) -> list[float]:
    """The left edge of each cell of a row, and the right edge of the last."""
    return [0.0, *accumulate(widths[row.start : row.end])]


# ---- texts


def shown(character: str) -> str:
    """A character by itself: a sign for a space, a circle under a combining mark, an escape for
    what cannot be seen.
    """
    if character in (" ", "\u3000"):
        return SPACE
    if unicodedata.category(character) in ("Mn", "Me", "Mc"):
        return CIRCLE + character
    return visible(character)


def glyph_width(glyph: str) -> int:
    """The columns of a character by itself: an emoji's skin tone, which has no width after its
    emoji, takes two.
    """
    return cell_len(glyph) or 2


def labelled(word: str, number: str) -> str:
    """A word and a number after it; also after a word that is written from right to left."""
    turns = any(unicodedata.bidirectional(character) in ("R", "AL") for character in word)
    return f"{visible(word)}{LEFT_TO_RIGHT if turns else ''} {number}"
