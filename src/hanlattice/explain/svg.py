"""A sketch of a lattice as SVG: characters in boxes, words as arcs above and below them, spans as coloured bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hanlattice.explain.colours import FONTS, style
from hanlattice.explain.glyphs import columns, ems, is_wide, xml
from hanlattice.explain.layout import NARROW, WIDE, Interval, Reach, by_row, edges, levels, rows, touches
from hanlattice.explain.sketch import Arc, Band, Cell, Sketch

WIDTH = 960.0  # of the widest picture
MARGIN, GUTTER, BETWEEN = 20.0, 30.0, 34.0  # around all; left of each row, for the arrows; between rows
BAR, GLYPH, BAND = 7.0, 46.0, 20.0  # heights inside a cell: of a bar, of the character, of the band of spans
CELL = 2 * BAR + GLYPH + BAND
LEVEL, FOOT = 31.0, 24.0  # the height of a level of arcs; between the lowest and the cell
THICK, THIN = 12.0, 0.8  # the arc of a word that has all of a cell, and the thinnest
BIG, SMALL, TINY = 30.0, 13.0, 12.0  # fonts
ROUND = 14.0  # the corners of an arc
APART = 18.0  # between entries of the legend


def svg(sketch: Sketch, most: float = WIDTH, with_style: bool = True) -> str:
    """One <svg> element. The same sketch gives the same bytes."""
    widths = [WIDE if is_wide(cell.glyph[0]) or columns(cell.glyph) > 1 else NARROW for cell in sketch.cells]
    arcs = [Interval(arc.start, arc.end) for arc in (*sketch.above, *sketch.below)]
    bands = [Interval(band.start, band.end) for band in sketch.bands]
    found = rows(widths, most - 2 * MARGIN - GUTTER, bands, arcs, sketch.breaks)
    longest = max(edges(widths, row)[-1] for row in found)
    wide = max(longest, _least(sketch.legend, most)) + 2 * MARGIN + GUTTER
    x, y = MARGIN + GUTTER + (wide - 2 * MARGIN - GUTTER - longest) / 2, MARGIN
    body: list[str] = []
    for row in _rows(sketch, widths, found):
        body += row.drawn(x, y)
        y += row.height + BETWEEN
    y += -BETWEEN + 22
    legend, y = _legend(sketch.legend, wide, y)
    return "\n".join([*_head(sketch.title, wide, y + MARGIN - 8, with_style), *body, *legend, "</svg>\n"])


def _least(legend: Sequence[tuple[str, str]], most: float) -> float:
    """A width in which the legend is no tower: what colours mean fits on one line."""
    longest = max((ems(text) * TINY + 20 for _, text in legend), default=0.0)
    coloured = sum(_long(*entry) + APART for entry in legend if entry[0])
    return min(max(longest, coloured, 420.0 if legend else 0.0), most - 2 * MARGIN - GUTTER)


def _long(colour: str, text: str) -> float:
    """The width of an entry of the legend."""
    return ems(text) * TINY + (18 if colour else 0)


def _head(title: str, width: float, height: float, with_style: bool) -> Iterator[str]:
    size = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{xml(FONTS)}" text-anchor="middle" role="img">'
    yield f"<title>{xml(title)}</title>"
    if with_style:
        yield f"<style>{style()}</style>"
    yield f'<rect class="f-page" width="{_n(width)}" height="{_n(height)}" rx="8"/>'


@dataclass(frozen=True)
class Part:
    """What a row has of the arcs on one side."""

    arcs: list[Arc]
    ends: list[tuple[float, float]]
    levels: list[int]
    labels: list[float]  # the middle of each label

    @property
    def height(self) -> float:
        return FOOT + LEVEL * (max(self.levels) + 1) if self.arcs else 0.0


def _part(arcs: list[Arc], lefts: Sequence[float], first: int) -> Part:
    ends = touches([Interval(arc.start, arc.end) for arc in arcs], lefts, first)
    middles, reaches = [], []
    for arc, (low, high) in zip(arcs, ends, strict=True):
        half = ems(arc.label) * SMALL / 2
        middle = min(max((low + high) / 2, lefts[0] + half - GUTTER / 2), max(lefts[-1] - half, half))
        middles.append(middle)
        reaches.append(Reach(min(low, middle - half), max(high, middle + half), arc.end - arc.start))
    return Part(arcs, ends, levels(reaches), middles)


@dataclass(frozen=True)
class Row:
    start: int
    lefts: list[float]
    cells: Sequence[Cell]
    above: Part
    below: Part
    bands: list[Band]

    @property
    def height(self) -> float:
        return self.above.height + CELL + self.below.height

    def drawn(self, x: float, y: float) -> Iterator[str]:
        top = y + self.above.height
        yield f'<g transform="translate({_n(x)} {_n(top)})">'
        for band in self.bands:
            yield from self._tint(band)
        for at, cell in enumerate(self.cells):
            yield from _cell(cell, self.lefts[at], self.lefts[at + 1])
        for band in self.bands:
            yield from self._name(band)
        yield from _side(self.above, -1, 0.0, self.lefts, self.start)
        yield from _side(self.below, 1, CELL, self.lefts, self.start)
        yield "</g>"

    def _edges(self, band: Band) -> tuple[float, float, bool, bool]:
        """Left, right, and whether the span begins and ends in this row."""
        low, high = band.start - self.start, band.end - self.start
        begins, ends = low >= 0, high <= len(self.cells)
        left = self.lefts[low] + 3 if begins else self.lefts[0] - 6
        return left, self.lefts[high] - 3 if ends else self.lefts[-1] + 6, begins, ends

    def _tint(self, band: Band) -> Iterator[str]:
        left, right, _, _ = self._edges(band)
        shape = f'x="{_n(left)}" y="{_n(BAR)}" width="{_n(right - left)}" height="{_n(GLYPH + BAND)}" rx="5"'
        yield f'<rect class="t{band.tone}" {shape} fill-opacity="0.17"/>'

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


def _rows(sketch: Sketch, widths: Sequence[float], found: Sequence[Interval]) -> Iterator[Row]:
    sides = [
        by_row([Interval(each.start, each.end) for each in all_], found)
        for all_ in (sketch.above, sketch.below, sketch.bands)
    ]
    for nth, row in enumerate(found):
        lefts = edges(widths, row)
        above, below = (
            _part([arcs[at] for at in side[nth]], lefts, row.start)
            for arcs, side in ((sketch.above, sides[0]), (sketch.below, sides[1]))
        )
        bands = [sketch.bands[at] for at in sides[2][nth]]
        yield Row(row.start, lefts, sketch.cells[row.start : row.end], above, below, bands)


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


def _side(part: Part, up: int, base: float, lefts: Sequence[float], first: int) -> Iterator[str]:
    """The arcs on one side, the furthest first, then their labels over all of them. `up` is −1 above the cells.

    The halo of a label is a text of its own below it: not every program that shows SVG knows `paint-order`.
    """
    order = sorted(range(len(part.arcs)), key=lambda at: (-part.levels[at], at))
    if part.arcs:
        arrow = "→" if up < 0 else "←"
        yield _text(-GUTTER / 2 - 4, base + up * (part.height / 2) + 6, 18, arrow, "f-faint")
    for at in order:
        yield from _arc(part.arcs[at], part.ends[at], up, base, part.levels[at], first, first + len(lefts) - 1)
    for at in order:
        arc = part.arcs[at]
        y = base + up * (FOOT + LEVEL * part.levels[at] + 4)
        away = _thick(arc) / 2 + 4
        y += -away if up < 0 else away + SMALL * 0.78
        halo, text = (_text(part.labels[at], y, SMALL, arc.label, ink) for ink in ("halo", f"f-{arc.kind}"))
        yield f"<g><title>{xml(arc.title)}</title>{halo}{text}</g>"


def _thick(arc: Arc) -> float:
    return max(THIN, THICK * arc.share)


def _arc(
    arc: Arc, ends: tuple[float, float], up: int, base: float, level: int, first: int, beyond: int
) -> Iterator[str]:
    """The line of a word. In a row where it does not begin, or end, it runs to the edge."""
    (low, high), thick = ends, _thick(arc)
    begins, closes = arc.start >= first, arc.end <= beyond
    y = base + up * (FOOT + LEVEL * level + 4)
    lands_right = up < 0
    head = 4 + thick * 0.75
    foot = base + up * 3
    bend = min(ROUND, (high - low) / 2, abs(y - base) - 2)
    tips = {True: foot + up * head, False: foot}  # a line ends where its head begins
    left = f"M{_n(low)} {_n(tips[not lands_right])}V{_n(y - up * bend)}Q{_n(low)} {_n(y)} {_n(low + bend)} {_n(y)}"
    right = f"H{_n(high - bend)}Q{_n(high)} {_n(y)} {_n(high)} {_n(y - up * bend)}V{_n(tips[lands_right])}"
    path = (left if begins else f"M{_n(low - 10)} {_n(y)}") + (right if closes else f"H{_n(high + 10)}")
    dash = ' stroke-dasharray="7 3"' if arc.kind == "subword" else ""
    yield f"<g><title>{xml(arc.title)}</title>"
    yield f'<path class="s-{arc.kind}" d="{path}" stroke-width="{_n(thick)}"{dash}/>'
    if closes if lands_right else begins:
        x, tip = (high if lands_right else low), base + up * 2
        half, back = 2.5 + thick * 0.75, base + up * (3 + head)
        points = f"{_n(x)},{_n(tip)} {_n(x - half)},{_n(back)} {_n(x + half)},{_n(back)}"
        yield f'<polygon class="f-{arc.kind}" points="{points}"/>'
    yield "</g>"


def _legend(entries: Sequence[tuple[str, str]], wide: float, y: float) -> tuple[list[str], float]:
    """What arcs mean and, on a new line, what colours do; in as many lines as it takes. And where it ends."""
    found, x = [], MARGIN
    y += TINY if entries else 0.0
    for at, (colour, text) in enumerate(entries):
        long = _long(colour, text)
        turns = at > 0 and bool(colour) != bool(entries[at - 1][0])
        if x > MARGIN and (turns or x + long > wide - MARGIN):
            x, y = MARGIN, y + TINY + 7
        if colour:
            found.append(f'<rect class="f-{colour}" x="{_n(x)}" y="{_n(y - 9)}" width="11" height="9" rx="2"/>')
        found.append(_text(x + (16 if colour else 0), y, TINY, text, "f-faint", anchor="start"))
        x += long + APART
    return found, y


def _text(x: float, y: float, size: float, text: str, ink: str = "", anchor: str = "") -> str:
    look = f' class="{ink}"' if ink else ""
    look += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{look}>{xml(text)}</text>'


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0").replace("-0.0", "0")
