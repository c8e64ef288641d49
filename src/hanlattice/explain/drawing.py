"""What a picture of a lattice shows, before it is SVG or lines of a terminal."""

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
# What changes without a word; its share of the cells.
VIEWS = ("changes", "shares")
# The colours of arcs.
KINDS = ("word", "subword", "chosen")
# A row may be this much longer than rows of equal length.
LOOSE = 1.2
_BARS = (
    ("own", "share of the character itself"),
    ("word", "of words"),
    ("before", "of the cell before"),
)


@dataclass(frozen=True)
class Arc:
    """A word over [start, end), as thick as its share; `kind` is its colour."""

    start: int
    end: int
    label: str
    share: float
    kind: str
    title: str = ""


@dataclass(frozen=True)
class Cell:
    """A character in its box.

    The bars above and below it have parts (share, colour) that fill them from left to right. A
    bare cell has neither bars nor bands, so its character stands in the middle.
    """

    glyph: str
    title: str = ""
    above: tuple[tuple[float, str], ...] = ()
    below: tuple[tuple[float, str], ...] = ()
    is_read: bool = True
    is_bare: bool = False


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
    """Everything in a picture.

    Arcs above lead to the last cell of a word, arcs below to its first. A new row begins at each of
    `breaks`. The legend has pairs: a colour or "", and its meaning.
    """

    title: str
    cells: tuple[Cell, ...]
    above: tuple[Arc, ...] = ()
    below: tuple[Arc, ...] = ()
    bands: tuple[Band, ...] = ()
    breaks: tuple[int, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()


def choose_view(explanation: Explanation, view: str | None) -> str:
    """Return the view that is drawn; by default `changes`, if they are known."""
    return view or VIEWS[0 if explanation.without else 1]


def sketch(explanation: Explanation, layer: int = 1, view: str | None = None) -> Sketch:
    """Return the picture of an explanation.

    Args:
        layer: the layer whose shares are shown, counted from 1, the lowest.
        view: a name from `VIEWS`.
    """
    chosen = choose_layer(explanation, layer)
    is_shares = choose_view(explanation, view) == "shares"
    shares = chosen if is_shares else None
    above: tuple[Arc, ...]
    below: tuple[Arc, ...] = ()
    if shares is None:
        above = _changing_arcs(explanation)
    else:
        above = _arcs(explanation, shares.forward, "forward")
        below = _arcs(explanation, shares.backward, "backward")
    tone = label_tones(explanation)
    bands = []
    for span in explanation.spans:
        label = span_label(span)
        bands.append(Band(span.start, span.end, label, tone[span.label], f"{span.text}: {label}"))
    return Sketch(
        title=explanation.text,
        cells=tuple(_cell(explanation, shares, at) for at in range(len(explanation.text))),
        above=above,
        below=below,
        bands=tuple(bands),
        breaks=tuple(start for start, _ in explanation.pieces[1:]),
        legend=_legend(explanation, layer, is_shares),
    )


def choose_layer(explanation: Explanation, layer: int) -> Layer | None:
    """Return the layer of this number; None for a model without a lattice."""
    if not explanation.has_lattice:
        return None
    count = len(explanation.layers)
    if not 1 <= layer <= count:
        layers = "one layer, 1" if count == 1 else f"layers 1 to {count}"
        raise InputError(f"the model has {layers}; there is no layer {layer}")
    return explanation.layers[layer - 1]


def label_tones(explanation: Explanation) -> dict[str, int]:
    """Return the tones of the labels that the model knows, found in this text or not."""
    return tones({*labels_of(explanation.tag_names), *(span.label for span in explanation.spans)})


def span_label(span: Span) -> str:
    """Return label and probability; only the probability for the words of a segmenter."""
    number = "" if span.score is None else chance(span.score)
    return number if span.label == WORD and number else f"{span.label} {number}".strip()


def kind(word: Word) -> str:
    """Return the colour of a word."""
    return "chosen" if word.chosen else word.source.removesuffix("s")


def why_no_arcs(explanation: Explanation) -> str:
    """Return what to say of a text without arcs; empty where there are some."""
    if not explanation.has_lattice:
        return "this model has no lexicon: it reads characters alone"
    return "" if explanation.words else "no word of the lexicon stands in this text"


def _arcs(explanation: Explanation, direction: Direction, name: str) -> tuple[Arc, ...]:
    # The number of words that enter each cell.
    sharers = Counter(word.at(name) for word in explanation.words)
    changed = changes(explanation)
    arcs = []
    for index, (word, share) in enumerate(zip(explanation.words, direction.words, strict=True)):
        mean, spread, low, high = map(percent, (share.mean, share.spread, share.low, share.high))
        title = (
            f"{word.word}, {name}: {mean} ± {spread} (most units {low} to {high}) of the cell of "
            f"{explanation.text[word.at(name)]}; an even share would be "
            f"{percent(1 / (1 + sharers[word.at(name)]))}"
        )
        if index in changed:
            title += f"; without it: {changed[index]}"
        label = labelled(word.word, mean)
        arcs.append(Arc(word.start, word.end, label, share.mean, kind(word), title))
    return tuple(arcs)


def _changing_arcs(explanation: Explanation) -> tuple[Arc, ...]:
    """Return all words, each as thick as what changes without it."""
    changed = changes(explanation)
    arcs = []
    effects = zip(explanation.words, largest(explanation), strict=False)
    for index, (word, most) in enumerate(effects):
        title = f"without {word.word}: {changed.get(index, 'no change of 1% or more')}"
        label = labelled(word.word, most.text).strip()
        arcs.append(Arc(word.start, word.end, label, most.weight, kind(word), title))
    return tuple(arcs)


def _cell(explanation: Explanation, layer: Layer | None, at: int) -> Cell:
    glyph = shown(explanation.text[at])
    tag = explanation.tags[at]
    title = f"{glyph}, character {at}: "
    if tag is None:
        return Cell(glyph, title + "white space, which the model does not read", is_read=False)
    chances = dict(zip(explanation.tag_names, explanation.marginals[at] or (), strict=True))
    title += f"{tag} {chance(chances[tag])}"
    if layer is None:
        return Cell(glyph, title)
    above, below = (_bar(direction, at) for direction in (layer.forward, layer.backward))
    title += f"; own share {percent(above[0][0])} forward, {percent(below[0][0])} backward"
    return Cell(glyph, title, above, below)


def _bar(direction: Direction, at: int) -> tuple[tuple[float, str], ...]:
    """Return a character's bar: its own input first; the rest is of words or of the cell before."""
    own = direction.own[at]
    before = direction.before[at]
    assert own is not None
    return (own.mean, "own"), (1 - own.mean, "word" if before is None else "before")


def _legend(explanation: Explanation, layer: int, is_shares: bool) -> tuple[tuple[str, str], ...]:
    if why := why_no_arcs(explanation):
        return (("", why), *(_BARS if is_shares and explanation.has_lattice else ()))
    layers = len(explanation.layers)
    of_layer = f"layer {layer} of {layers}; " if layers > 1 else ""
    if is_shares:
        texts = [
            "above: read from left to right, words pour into their last character",
            "below: read from right to left, words pour into their first",
            f"{of_layer}% and thickness: the share of that character's cell",
        ]
    else:
        texts = [
            "numbers and thickness: without the word, so many points more or less for a span that "
            "was found",
            "!: other spans would be found",
        ]
    entries = [("", text) for text in texts]
    kinds = {kind(word) for word in explanation.words}
    for name, text in (("chosen", "words that were added"), ("subword", "subwords")):
        if name in kinds:
            entries.append((name, text))
    return (*entries, *(_BARS if is_shares else ()))


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
    """Break cells into rows of about equal length.

    In the last third of a full row, it ends where it cuts the fewest of `keep`, then of `soft`,
    and then furthest right.

    Args:
        widths: the width of each cell.
        most: the widest that a row may be; it has one cell at least.
        keep: what should stay in one row.
        soft: what should stay in one row, if that cuts no more of `keep`.
        breaks: where a new row must begin.
    """
    intervals = []
    kept = _crossings(keep, len(widths))
    softly = _crossings(soft, len(widths))
    for low, high in pairwise(sorted({0, len(widths), *breaks})):
        start = low
        while start < high:
            left = sum(widths[start:high])
            # Rows of this width leave no short one at the end.
            even = left / math.ceil(left / most)
            fitting = min(most, even * LOOSE)
            end = start + 1
            while end < high and sum(widths[start : end + 1]) <= fitting:
                end += 1
            if end < high:
                least = start + max(1, (end - start) * 2 // 3)
                end = min(range(least, end + 1), key=lambda at: (kept[at], softly[at], -at))
            intervals.append(Interval(start, end))
            start = end
    return intervals or [Interval(0, 0)]


def _crossings(placed: Iterable[Placed], length: int) -> list[int]:
    """Return how many intervals a cut would part, for each gap from 0 to `length`."""
    steps = [0] * (length + 2)
    for interval in placed:
        steps[interval.start + 1] += 1
        steps[interval.end] -= 1
    return list(accumulate(steps))[: length + 1]


def by_row(placed: Iterable[Placed], intervals: Sequence[Interval]) -> list[list[int]]:
    """Return for interval row the indices of what has a part in it."""
    starts = [row.start for row in intervals]
    indices: list[list[int]] = [[] for _ in intervals]
    for index, interval in enumerate(placed):
        for row in range(
            bisect_right(starts, interval.start) - 1, bisect_left(starts, interval.end)
        ):
            indices[row].append(index)
    return indices


def edges(widths: Sequence[float], row: Interval) -> list[float]:
    """Return the left edge of each cell of a row, and the right edge of the last."""
    return [0.0, *accumulate(widths[row.start : row.end])]


# ---- texts


def shown(character: str) -> str:
    """Return a character by itself: a sign for a space, an escape for what cannot be seen."""
    if character in (" ", "\u3000"):
        return SPACE
    # A combining mark needs something to stand on.
    if unicodedata.category(character) in ("Mn", "Me", "Mc"):
        return CIRCLE + character
    return visible(character)


def glyph_width(glyph: str) -> int:
    """Return the columns of a character by itself."""
    # An emoji's skin tone has no width after its emoji, but takes two columns alone.
    return cell_len(glyph) or 2


def labelled(word: str, number: str) -> str:
    """Return a word and a number after it, also after a word that is written from right to left."""
    turns = any(unicodedata.bidirectional(character) in ("R", "AL") for character in word)
    return f"{visible(word)}{LEFT_TO_RIGHT if turns else ''} {number}"
