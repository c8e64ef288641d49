"""Explanations, and lattices without a model, as SVG: characters in boxes, words as arcs."""

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

# The widest picture.
WIDTH = 960.0
# Around all; left of each row, for the arrows; between rows.
MARGIN = 20.0
GUTTER = 30.0
BETWEEN = 34.0
# Heights inside a cell: of a bar, of the character, of the band of spans.
BAR = 7.0
GLYPH = 46.0
BAND = 20.0
CELL = 2 * BAR + GLYPH + BAND
# The height of a level of arcs; between the lowest and the cell.
LEVEL = 31.0
FOOT = 24.0
# The arc of a word that has all of a cell, and the thinnest arc.
THICK = 12.0
THIN = 0.8
# Fonts, by their size.
BIG = 30.0
SMALL = 13.0
TINY = 12.0
# The corners of an arc.
ROUND = 14.0
# The widths of cells.
WIDE = 64.0
NARROW = 44.0
# Between arcs of one level.
ROOM = 5.0
# The thickness of arcs that have no weight.
PLAIN = 0.22
# A narrow character's width, where a wide one has 1: digits of a broad font.
_NARROW_EM = 0.62
# Between entries of the legend.
APART = 18.0


def picture(
    explanation: Explanation,
    layer: int = 1,
    most: float = WIDTH,
    with_style: bool = True,
    view: str | None = None,
    legend: bool = True,
) -> str:
    """Return the lattice of a text as SVG.

    Args:
        layer: the layer whose shares are shown, counted from 1, the lowest.
        most: the width of the widest picture.
        with_style: include the CSS.
        view: `changes`, the default where they are known, or `shares`.
        legend: explain arcs and colours below the picture.
    """
    drawn = sketch(explanation, layer, view)
    return draw(drawn if legend else replace(drawn, legend=()), most, with_style)


def notebook_svg(explanation: Explanation) -> str | None:
    """Return the picture that a notebook shows, or None for an empty text."""
    return picture(explanation) if explanation.text else None


def lattice(text: str, words: Iterable[tuple[int, int, str]], most: float = WIDTH) -> str:
    """Draw the words of a text as arcs without weights, given as `Lexicon.match` returns them."""
    arcs = tuple(Arc(start, end, word, PLAIN, "word") for start, end, word in words)
    characters = enumerate(text)
    cells = (Cell(shown(glyph), f"character {at}", is_bare=True) for at, glyph in characters)
    return draw(Sketch(text, tuple(cells), arcs), most)


def draw(sketch: Sketch, most: float = WIDTH, with_style: bool = True) -> str:
    """Return one <svg> element; the same sketch gives the same bytes."""
    widths = [WIDE if glyph_width(cell.glyph) > 1 else NARROW for cell in sketch.cells]
    arcs = (*sketch.above, *sketch.below)
    intervals = rows(widths, most - 2 * MARGIN - GUTTER, sketch.bands, arcs, sketch.breaks)
    longest = max(edges(widths, row)[-1] for row in intervals)
    wide = max(longest, _least(sketch.legend, most)) + 2 * MARGIN + GUTTER
    x = MARGIN + GUTTER + (wide - 2 * MARGIN - GUTTER - longest) / 2
    y = MARGIN
    body: list[str] = []
    for row in _rows(sketch, widths, intervals):
        body += row.drawn(x, y)
        y += row.height + BETWEEN
    legend, y = _legend(sketch.legend, wide, y - BETWEEN + 22)
    width = _n(wide)
    height = _n(y + MARGIN - 8)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = f'font-family="{xml(FONTS)}" text-anchor="middle" role="img"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f"<title>{xml(sketch.title)}</title>",
        *([f"<style>{rules()}</style>"] if with_style else []),
        f'<rect class="f-page" width="{width}" height="{height}" rx="8"/>',
    ]
    return "\n".join([*head, *body, *legend, "</svg>\n"])


def _least(legend: Sequence[tuple[str, str]], most: float) -> float:
    """Return the width in which the meanings of colours fit on one line."""
    longest = max((ems(text) * TINY + 20 for _, text in legend), default=0.0)
    coloured = sum(_entry_width(*entry) + APART for entry in legend if entry[0])
    return min(max(longest, coloured, 420.0 if legend else 0.0), most - 2 * MARGIN - GUTTER)


def _entry_width(colour: str, text: str) -> float:
    return ems(text) * TINY + (18 if colour else 0)


def rules() -> str:
    """Return the CSS of a picture: only of classes, since a notebook has a page of its own."""
    return ".halo{stroke-width:4;stroke-linejoin:round}" + light_and_dark(_rules(0), _rules(1))


def _rules(side: int) -> str:
    ink = {name: colour[side] for name, colour in INKS.items()}
    parts = [f".f-{name}{{fill:{colour}}}" for name, colour in ink.items()]
    parts += (f".s-{name}{{stroke:{ink[name]};stroke-opacity:.85;fill:none}}" for name in KINDS)
    parts.append(f".s-edge{{stroke:{ink['edge']};fill:none}}")
    parts += (f".t{tone}{{fill:{colours[side]}}}" for tone, colours in enumerate(TONES))
    parts.append(f".halo{{fill:{ink['page']};stroke:{ink['page']}}}")
    return "".join(parts)


@dataclass(frozen=True)
class ArcSide:
    """The arcs of a row on one side: their ends, levels, and the middle of each label."""

    arcs: list[Arc]
    ends: list[tuple[float, float]]
    levels: list[int]
    labels: list[float]

    @property
    def height(self) -> float:
        """Return the height of the highest arc."""
        return FOOT + LEVEL * (max(self.levels) + 1) if self.arcs else 0.0


def _part(arcs: list[Arc], lefts: Sequence[float], first: int) -> ArcSide:
    ends = touches(arcs, lefts, first)
    middles = []
    reaches = []
    for arc, (low, high) in zip(arcs, ends, strict=True):
        half = ems(arc.label) * SMALL / 2
        # A label stays inside the row where it can.
        leftmost = lefts[0] + half - GUTTER / 2
        middle = min(max((low + high) / 2, leftmost), max(lefts[-1] - half, half))
        left, right = min(low, middle - half), max(high, middle + half)
        middles.append(middle)
        reaches.append(Reach(left, right, arc.end - arc.start))
    return ArcSide(arcs, ends, levels(reaches), middles)


@dataclass(frozen=True)
class CellRow:
    """A row of cells, from character `start` on, with its arcs and bands."""

    start: int
    lefts: list[float]
    cells: Sequence[Cell]
    above: ArcSide
    below: ArcSide
    bands: list[Band]

    @property
    def height(self) -> float:
        """Return the height of cells and arcs."""
        return self.above.height + CELL + self.below.height

    def drawn(self, x: float, y: float) -> Iterator[str]:
        """Yield the elements of the row, whose upper left corner is (x, y)."""
        top = y + self.above.height
        yield f'<g transform="translate({_n(x)} {_n(top)})">'
        for band in self.bands:
            left, right, _, _ = self._edges(band)
            place = f'x="{_n(left)}" y="{_n(BAR)}" width="{_n(right - left)}"'
            shape = f'{place} height="{_n(GLYPH + BAND)}" rx="5"'
            yield f'<rect class="t{band.tone}" {shape} fill-opacity="0.17"/>'
        for index, cell in enumerate(self.cells):
            yield from _cell(cell, self.lefts[index], self.lefts[index + 1])
        for band in self.bands:
            yield from self._name(band)
        yield from _side(self.above, -1, 0.0, self.lefts, self.start)
        yield from _side(self.below, 1, CELL, self.lefts, self.start)
        yield "</g>"

    def _edges(self, band: Band) -> tuple[float, float, bool, bool]:
        """Return left, right, and whether the span begins and ends in this row."""
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


def _rows(
    sketch: Sketch, widths: Sequence[float], intervals: Sequence[Interval]
) -> Iterator[CellRow]:
    sides = (by_row(placed, intervals) for placed in (sketch.above, sketch.below, sketch.bands))
    for row, above, below, bands in zip(intervals, *sides, strict=True):
        lefts = edges(widths, row)
        yield CellRow(
            row.start,
            lefts,
            sketch.cells[row.start : row.end],
            _part([sketch.above[index] for index in above], lefts, row.start),
            _part([sketch.below[index] for index in below], lefts, row.start),
            [sketch.bands[index] for index in bands],
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
            shape = f'width="{_n(wide)}" height="{_n(BAR - 1)}"'
            yield f'<rect class="f-{colour}" x="{_n(x)}" y="{_n(y)}" {shape}/>'
            x += wide
    yield "</g>"


def _side(side: ArcSide, up: int, base: float, lefts: Sequence[float], first: int) -> Iterator[str]:
    """Draw the arcs on one side, the furthest first, then their labels over all of them.

    `up` is −1 above the cells.
    """
    order = sorted(range(len(side.arcs)), key=lambda at: (-side.levels[at], at))
    beyond = first + len(lefts) - 1
    if side.arcs:
        arrow = "→" if up < 0 else "←"
        yield _text(-GUTTER / 2 - 4, base + up * (side.height / 2) + 6, 18, arrow, "f-faint")
    for index in order:
        y = base + up * (FOOT + LEVEL * side.levels[index] + 4)
        yield from _arc(side.arcs[index], side.ends[index], up, base, y, first, beyond)
    for index in order:
        arc = side.arcs[index]
        y = base + up * (FOOT + LEVEL * side.levels[index] + 4)
        away = _thick(arc) / 2 + 4
        y += -away if up < 0 else away + SMALL * 0.78
        # The halo is a text of its own: not every program that shows SVG knows `paint-order`.
        halo, text = (
            _text(side.labels[index], y, SMALL, arc.label, ink) for ink in ("halo", f"f-{arc.kind}")
        )
        yield f"<g><title>{xml(arc.title)}</title>{halo}{text}</g>"


def _thick(arc: Arc) -> float:
    return max(THIN, THICK * arc.share)


def _arc(
    arc: Arc, ends: tuple[float, float], up: int, base: float, y: float, first: int, beyond: int
) -> Iterator[str]:
    """Draw the line of a word, to the edge of a row in which it does not begin or end."""
    low, high = ends
    thick = _thick(arc)
    begins = arc.start >= first
    closes = arc.end <= beyond
    lands_right = up < 0
    head = 4 + thick * 0.75
    foot = base + up * 3
    bend = min(ROUND, (high - low) / 2, abs(y - base) - 2)
    # A line ends where its head begins.
    tips = {True: foot + up * head, False: foot}
    top, corner = _n(y), _n(y - up * bend)
    left, right = f"M{_n(low - 10)} {top}", f"H{_n(high + 10)}"
    if begins:
        left = f"M{_n(low)} {_n(tips[not lands_right])}V{corner}"
        left += f"Q{_n(low)} {top} {_n(low + bend)} {top}"
    if closes:
        right = f"H{_n(high - bend)}Q{_n(high)} {top} {_n(high)} {corner}"
        right += f"V{_n(tips[lands_right])}"
    dash = ' stroke-dasharray="7 3"' if arc.kind == "subword" else ""
    yield f"<g><title>{xml(arc.title)}</title>"
    yield f'<path class="s-{arc.kind}" d="{left}{right}" stroke-width="{_n(thick)}"{dash}/>'
    if closes if lands_right else begins:
        x = high if lands_right else low
        tip = base + up * 2
        half = 2.5 + thick * 0.75
        back = base + up * (3 + head)
        points = f"{_n(x)},{_n(tip)} {_n(x - half)},{_n(back)} {_n(x + half)},{_n(back)}"
        yield f'<polygon class="f-{arc.kind}" points="{points}"/>'
    yield "</g>"


class Reach(NamedTuple):
    """Where something begins and ends in a row, and its length for the order of levels."""

    left: float
    right: float
    length: float


def levels(reaches: Sequence[Reach]) -> list[int]:
    """Return the level of each, from 0: the shortest lie lowest; one level has no overlaps."""
    chosen: dict[int, int] = {}
    for index in sorted(range(len(reaches)), key=lambda n: (reaches[n].length, n)):
        left, right, _ = reaches[index]
        taken = {
            level
            for n, level in chosen.items()
            if left < reaches[n].right + ROOM and reaches[n].left < right + ROOM
        }
        chosen[index] = next(level for level in count() if level not in taken)
    return [chosen[index] for index in range(len(reaches))]


def touches(
    arcs: Sequence[Placed], lefts: Sequence[float], first: int
) -> list[tuple[float, float]]:
    """Return where each arc touches its first and its last cell; no two touch at one place.

    At one cell, arcs that come from the left stand left, the shortest outermost; arcs that go to
    the right stand right, the shortest outermost likewise. So arcs of one cell do not cross.

    Args:
        lefts: the edges of the cells of a row. An arc that begins or ends in another row goes to
            the edge of this one.
        first: the character of the first cell.
    """
    # Cell → (order, arc, 0 for its start or 1 for its end).
    ends: dict[int, list[tuple[tuple[int, int, int], int, int]]] = {}
    for index, arc in enumerate(arcs):
        length = arc.end - arc.start
        ends.setdefault(arc.end - 1, []).append(((0, length, index), index, 1))
        ends.setdefault(arc.start, []).append(((1, -length, -index), index, 0))
    places = [[lefts[0], lefts[-1]] for _ in arcs]
    for cell, touching in ends.items():
        if not first <= cell < first + len(lefts) - 1:
            continue
        left = lefts[cell - first]
        right = lefts[cell - first + 1]
        step = (right - left) / (len(touching) + 1)
        for number, (_, index, side) in enumerate(sorted(touching), start=1):
            places[index][side] = left + number * step
    return [(low, high) for low, high in places]


def _legend(entries: Sequence[tuple[str, str]], wide: float, y: float) -> tuple[list[str], float]:
    """Draw the meaning of arcs, then on a new line of colours; also return where it ends."""
    parts = []
    x = MARGIN
    y += TINY if entries else 0.0
    for index, (colour, text) in enumerate(entries):
        long = _entry_width(colour, text)
        turns = index > 0 and bool(colour) != bool(entries[index - 1][0])
        if x > MARGIN and (turns or x + long > wide - MARGIN):
            x = MARGIN
            y = y + TINY + 7
        if colour:
            place = f'x="{_n(x)}" y="{_n(y - 9)}"'
            parts.append(f'<rect class="f-{colour}" {place} width="11" height="9" rx="2"/>')
        parts.append(_text(x + (16 if colour else 0), y, TINY, text, "f-faint", anchor="start"))
        x += long + APART
    return parts, y


def _text(x: float, y: float, size: float, text: str, ink: str = "", anchor: str = "") -> str:
    look = f' class="{ink}"' if ink else ""
    look += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{look}>{xml(text)}</text>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0").replace("-0.0", "0")


def ems(text: str) -> float:
    """Return about how wide a visible text is, in the size of its font."""
    return sum((0.0, _NARROW_EM, 1.0)[cell_len(character)] for character in text)


def xml(text: str) -> str:
    """Escape any text for an element or a quoted attribute; what XML cannot hold stays visible."""
    return escape(visible(text, "\n"), {'"': "&quot;", "'": "&#39;"})
