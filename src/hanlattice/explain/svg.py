"""Explanations, and lattices without a model, as SVG: characters in boxes, words as arcs, spans as
coloured bands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len

from hanlattice.explain.drawing import (
    KINDS,
    Arc,
    Band,
    Cell,
    Interval,
    Placed,
    Sketch,
    by_row,
    edges,
    glyph_width,
    rows,
    shown,
    sketch,
)
from hanlattice.explain.values import Explanation
from hanlattice.text.display import visible
from hanlattice.theme import FONTS, INKS, TONES, light_and_dark

WIDTH = 960.0  # of the widest picture
# around all; left of each row, for the arrows; between rows
MARGIN = 20.0
GUTTER = 30.0
BETWEEN = 34.0
# heights inside a cell: of a bar, of the character, of the band of spans
BAR = 7.0
GLYPH = 46.0
BAND = 20.0
CELL = 2 * BAR + GLYPH + BAND
# the height of a level of arcs; between the lowest and the cell
LEVEL = 31.0
FOOT = 24.0
# the arc of a word that has all of a cell, and the thinnest
THICK = 12.0
THIN = 0.8
# fonts
BIG = 30.0
SMALL = 13.0
TINY = 12.0
ROUND = 14.0  # the corners of an arc
# cells
WIDE = 64.0
NARROW = 44.0
ROOM = 5.0  # between arcs of one level
PLAIN = 0.22  # the thickness of arcs that have no weight
_NARROW_EM = 0.62  # the width of a narrow character, in that of a wide one: digits of a broad font
APART = 18.0  # between entries of the legend


def picture(
    explanation: Explanation,
    layer: int = 1,
    most: float = WIDTH,
    with_style: bool = True,
    view: str | None = None,
    legend: bool = True,
) -> str:
    """The lattice of a text as SVG: what changes without each word, if that is known, or, as the
    view `shares`, the shares of one layer, counted from 1, the lowest.
    """
    drawn = sketch(explanation, layer, view)
    return draw(drawn if legend else replace(drawn, legend=()), most, with_style)


def notebook_svg(explanation: Explanation) -> str | None:
    """What a notebook shows of an explanation: its picture, if there is anything to draw."""
    return picture(explanation) if explanation.text else None


def lattice(text: str, words: Iterable[tuple[int, int, str]], most: float = WIDTH) -> str:
    """The words of a text as arcs above it, without weights: (start, end, word), as `Lexicon.match`
    gives them.
    """
    arcs = tuple(Arc(start, end, word, PLAIN, "word") for start, end, word in words)
    cells = tuple(
        Cell(shown(character), f"character {at}", is_bare=True) for at, character in enumerate(text)
    )
    return draw(Sketch(text, cells, arcs), most)


def draw(sketch: Sketch, most: float = WIDTH, with_style: bool = True) -> str:
    """One <svg> element. The same sketch gives the same bytes."""
    widths = [WIDE if glyph_width(cell.glyph) > 1 else NARROW for cell in sketch.cells]
    found = rows(
        widths,
        most - 2 * MARGIN - GUTTER,
        sketch.bands,
        (*sketch.above, *sketch.below),
        sketch.breaks,
    )
    longest = max(edges(widths, row)[-1] for row in found)
    wide = max(longest, _least(sketch.legend, most)) + 2 * MARGIN + GUTTER
    x = MARGIN + GUTTER + (wide - 2 * MARGIN - GUTTER - longest) / 2
    y = MARGIN
    body: list[str] = []
    for row in _rows(sketch, widths, found):
        body += row.drawn(x, y)
        y += row.height + BETWEEN
    legend, y = _legend(sketch.legend, wide, y - BETWEEN + 22)
    width = _n(wide)
    height = _n(y + MARGIN - 8)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{xml(FONTS)}" text-anchor="middle" role="img">',
        f"<title>{xml(sketch.title)}</title>",
        *([f"<style>{rules()}</style>"] if with_style else []),
        f'<rect class="f-page" width="{width}" height="{height}" rx="8"/>',
    ]
    return "\n".join([*head, *body, *legend, "</svg>\n"])


def _least(legend: Sequence[tuple[str, str]], most: float) -> float:
    """The width that the legend needs to have the meanings of colours on one line."""
    longest = max((ems(text) * TINY + 20 for _, text in legend), default=0.0)
    coloured = sum(_entry_width(*entry) + APART for entry in legend if entry[0])
    return min(max(longest, coloured, 420.0 if legend else 0.0), most - 2 * MARGIN - GUTTER)


def _entry_width(colour: str, text: str) -> float:
    return ems(text) * TINY + (18 if colour else 0)


def rules() -> str:
    """The CSS of a picture: only of classes, since a notebook puts pictures into a page of its own."""
    return ".halo{stroke-width:4;stroke-linejoin:round}" + light_and_dark(_rules(0), _rules(1))


def _rules(side: int) -> str:
    ink = {name: colour[side] for name, colour in INKS.items()}
    fills = "".join(f".f-{name}{{fill:{colour}}}" for name, colour in ink.items())
    arcs = "".join(
        f".s-{name}{{stroke:{ink[name]};stroke-opacity:.85;fill:none}}" for name in KINDS
    )
    spans = "".join(f".t{at}{{fill:{tone[side]}}}" for at, tone in enumerate(TONES))
    edge = f".s-edge{{stroke:{ink['edge']};fill:none}}"
    halo = f".halo{{fill:{ink['page']};stroke:{ink['page']}}}"
    return f"{fills}{arcs}{edge}{spans}{halo}"


@dataclass(frozen=True)
class ArcSide:
    """The arcs of a row on one side."""

    arcs: list[Arc]
    ends: list[tuple[float, float]]
    levels: list[int]
    labels: list[float]  # the middle of each label

    @property
    def height(self) -> float:
        return FOOT + LEVEL * (max(self.levels) + 1) if self.arcs else 0.0


def _part(arcs: list[Arc], lefts: Sequence[float], first: int) -> ArcSide:
    ends = touches(arcs, lefts, first)
    middles = []
    reaches = []
    for arc, (low, high) in zip(arcs, ends, strict=True):
        half = ems(arc.label) * SMALL / 2
        middle = min(
            max((low + high) / 2, lefts[0] + half - GUTTER / 2), max(lefts[-1] - half, half)
        )
        middles.append(middle)
        reaches.append(
            Reach(min(low, middle - half), max(high, middle + half), arc.end - arc.start)
        )
    return ArcSide(arcs, ends, levels(reaches), middles)


@dataclass(frozen=True)
class CellRow:
    start: int
    lefts: list[float]
    cells: Sequence[Cell]
    above: ArcSide
    below: ArcSide
    bands: list[Band]

    @property
    def height(self) -> float:
        return self.above.height + CELL + self.below.height

    def drawn(self, x: float, y: float) -> Iterator[str]:
        top = y + self.above.height
        yield f'<g transform="translate({_n(x)} {_n(top)})">'
        for band in self.bands:
            left, right, _, _ = self._edges(band)
            shape = f'x="{_n(left)}" y="{_n(BAR)}" width="{_n(right - left)}" height="{_n(GLYPH + BAND)}" rx="5"'
            yield f'<rect class="t{band.tone}" {shape} fill-opacity="0.17"/>'
        for at, cell in enumerate(self.cells):
            yield from _cell(cell, self.lefts[at], self.lefts[at + 1])
        for band in self.bands:
            yield from self._name(band)
        yield from _side(self.above, -1, 0.0, self.lefts, self.start)
        yield from _side(self.below, 1, CELL, self.lefts, self.start)
        yield "</g>"

    def _edges(self, band: Band) -> tuple[float, float, bool, bool]:
        """Left, right, and whether the span begins and ends in this row."""
        low = band.start - self.start
        high = band.end - self.start
        begins = low >= 0
        ends = high <= len(self.cells)
        left = self.lefts[low] + 3 if begins else self.lefts[0] - 6
        return left, self.lefts[high] - 3 if ends else self.lefts[-1] + 6, begins, ends

    def _name(self, band: Band) -> Iterator[str]:
        left, right, begins, ends = self._edges(band)
        y = BAR + GLYPH + BAND - 3
        size = min(SMALL, SMALL * (right - left) / max(1.0, ems(band.label) * SMALL))
        yield f'<g class="t{band.tone}"><title>{xml(band.title)}</title>'
        yield f'<rect x="{_n(left)}" y="{_n(y)}" width="{_n(right - left)}" height="3" rx="1.5"/>'
        for x, is_edge in ((left, begins), (right - 3, ends)):
            if is_edge:
                yield f'<rect x="{_n(x)}" y="{_n(y - 5)}" width="3" height="8" rx="1.5"/>'
        yield _text((left + right) / 2, y - 4, size, band.label) + "</g>"


def _rows(sketch: Sketch, widths: Sequence[float], found: Sequence[Interval]) -> Iterator[CellRow]:
    sides = (by_row(placed, found) for placed in (sketch.above, sketch.below, sketch.bands))
    for row, above, below, bands in zip(found, *sides, strict=True):
        lefts = edges(widths, row)
        yield CellRow(
            row.start,
            lefts,
            sketch.cells[row.start : row.end],
            _part([sketch.above[at] for at in above], lefts, row.start),
            _part([sketch.below[at] for at in below], lefts, row.start),
            [sketch.bands[at] for at in bands],
        )


def _cell(cell: Cell, left: float, right: float) -> Iterator[str]:
    dash = "" if cell.is_read else ' stroke-dasharray="3 3"'
    box = f'x="{_n(left + 1)}" y="0" width="{_n(right - left - 2)}" height="{_n(CELL)}" rx="4"'
    yield f"<g><title>{xml(cell.title)}</title>"
    yield f'<rect class="f-cell" {box} fill-opacity="0.6"/><rect class="s-edge" {box}{dash}/>'
    size = min(BIG, (right - left - 8) / max(0.1, ems(cell.glyph)))
    ink = "f-ink" if cell.is_read else "f-faint"
    middle = CELL / 2 if cell.is_bare else BAR + GLYPH / 2
    yield _text((left + right) / 2, middle + size * 0.36, size, cell.glyph, ink)
    for parts, y in ((cell.above, 1.0), (cell.below, CELL - BAR)):
        x = left + 4
        for share, colour in parts:
            wide = share * (right - left - 8)
            yield f'<rect class="f-{colour}" x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(BAR - 1)}"/>'
            x += wide
    yield "</g>"


def _side(part: ArcSide, up: int, base: float, lefts: Sequence[float], first: int) -> Iterator[str]:
    """The arcs on one side, the furthest first, then their labels over all of them. `up` is −1
    above the cells.

    The halo of a label is a text of its own below it: not every program that shows SVG knows
    `paint-order`.
    """
    order = sorted(range(len(part.arcs)), key=lambda at: (-part.levels[at], at))
    if part.arcs:
        arrow = "→" if up < 0 else "←"
        yield _text(-GUTTER / 2 - 4, base + up * (part.height / 2) + 6, 18, arrow, "f-faint")
    for at in order:
        yield from _arc(
            part.arcs[at], part.ends[at], up, base, part.levels[at], first, first + len(lefts) - 1
        )
    for at in order:
        arc = part.arcs[at]
        y = base + up * (FOOT + LEVEL * part.levels[at] + 4)
        away = _thick(arc) / 2 + 4
        y += -away if up < 0 else away + SMALL * 0.78
        halo, text = (
            _text(part.labels[at], y, SMALL, arc.label, ink) for ink in ("halo", f"f-{arc.kind}")
        )
        yield f"<g><title>{xml(arc.title)}</title>{halo}{text}</g>"


def _thick(arc: Arc) -> float:
    return max(THIN, THICK * arc.share)


def _arc(
    arc: Arc, ends: tuple[float, float], up: int, base: float, level: int, first: int, beyond: int
) -> Iterator[str]:
    """The line of a word. It runs to the edge of a row in which it does not begin, or end."""
    low, high = ends
    thick = _thick(arc)
    begins = arc.start >= first
    closes = arc.end <= beyond
    y = base + up * (FOOT + LEVEL * level + 4)
    lands_right = up < 0
    head = 4 + thick * 0.75
    foot = base + up * 3
    bend = min(ROUND, (high - low) / 2, abs(y - base) - 2)
    tips = {True: foot + up * head, False: foot}  # a line ends where its head begins
    left = f"M{_n(low)} {_n(tips[not lands_right])}V{_n(y - up * bend)}Q{_n(low)} {_n(y)} {_n(low + bend)} {_n(y)}"
    right = f"H{_n(high - bend)}Q{_n(high)} {_n(y)} {_n(high)} {_n(y - up * bend)}V{_n(tips[lands_right])}"
    path = (left if begins else f"M{_n(low - 10)} {_n(y)}") + (
        right if closes else f"H{_n(high + 10)}"
    )
    dash = ' stroke-dasharray="7 3"' if arc.kind == "subword" else ""
    yield f"<g><title>{xml(arc.title)}</title>"
    yield f'<path class="s-{arc.kind}" d="{path}" stroke-width="{_n(thick)}"{dash}/>'
    if closes if lands_right else begins:
        x = high if lands_right else low
        tip = base + up * 2
        half = 2.5 + thick * 0.75
        back = base + up * (3 + head)
        points = f"{_n(x)},{_n(tip)} {_n(x - half)},{_n(back)} {_n(x + half)},{_n(back)}"
        yield f'<polygon class="f-{arc.kind}" points="{points}"/>'
    yield "</g>"


class Reach(NamedTuple):
    """From where to where something stands in a row, and how long it is for the order of levels."""

    left: float
    right: float
    length: float


def levels(reaches: Sequence[Reach]) -> list[int]:
    """The level of each, from 0: the shortest lie lowest, then the first; those of one level stand
    apart.
    """
    found: dict[int, int] = {}
    for at in sorted(range(len(reaches)), key=lambda at: (reaches[at].length, at)):
        left, right, _ = reaches[at]
        near = (
            n for n in found if left < reaches[n].right + ROOM and reaches[n].left < right + ROOM
        )
        taken = {found[n] for n in near}
        found[at] = next(level for level in count() if level not in taken)
    return [found[at] for at in range(len(reaches))]


def touches(
    arcs: Sequence[Placed], lefts: Sequence[float], first: int
) -> list[tuple[float, float]]:
    """Where each arc touches its first and its last cell, so that no two touch at the same place.

    At one cell those that come from the left stand left, the shortest outermost; those that go to
    the right stand right, the shortest outermost likewise: then arcs of one cell do not cross each
    other. `lefts` are the edges of the cells from character `first` on; an arc that begins or ends
    in another row goes to the edge of this one.
    """
    ends: dict[
        int, list[tuple[tuple[int, int, int], int, int]]
    ] = {}  # cell → (order, arc, 0 its start, 1 its end)
    for at, arc in enumerate(arcs):
        ends.setdefault(arc.end - 1, []).append(((0, arc.end - arc.start, at), at, 1))
        ends.setdefault(arc.start, []).append(((1, arc.start - arc.end, -at), at, 0))
    found = [[lefts[0], lefts[-1]] for _ in arcs]
    for cell, here in ends.items():
        if not first <= cell < first + len(lefts) - 1:
            continue
        left = lefts[cell - first]
        right = lefts[cell - first + 1]
        step = (right - left) / (len(here) + 1)
        for nth, (_, at, side) in enumerate(sorted(here), start=1):
            found[at][side] = left + nth * step
    return [(low, high) for low, high in found]


def _legend(entries: Sequence[tuple[str, str]], wide: float, y: float) -> tuple[list[str], float]:
    """The meaning of arcs and, from a new line on, of colours; and where the legend ends."""
    found = []
    x = MARGIN
    y += TINY if entries else 0.0
    for at, (colour, text) in enumerate(entries):
        long = _entry_width(colour, text)
        turns = at > 0 and bool(colour) != bool(entries[at - 1][0])
        if x > MARGIN and (turns or x + long > wide - MARGIN):
            x = MARGIN
            y = y + TINY + 7
        if colour:
            found.append(
                f'<rect class="f-{colour}" x="{_n(x)}" y="{_n(y - 9)}" width="11" height="9" rx="2"/>'
            )
        found.append(_text(x + (16 if colour else 0), y, TINY, text, "f-faint", anchor="start"))
        x += long + APART
    return found, y


def _text(x: float, y: float, size: float, text: str, ink: str = "", anchor: str = "") -> str:
    look = f' class="{ink}"' if ink else ""
    look += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{look}>{xml(text)}</text>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0").replace("-0.0", "0")


def ems(text: str) -> float:
    """About how wide a visible text is, in the size of its font."""
    return sum((0.0, _NARROW_EM, 1.0)[cell_len(character)] for character in text)


def xml(text: str) -> str:
    """Any text as the content of an element or a quoted attribute. What XML cannot hold becomes a
    visible escape.
    """
    return escape(visible(text, "\n"), {'"': "&quot;", "'": "&#39;"})
