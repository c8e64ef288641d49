"""An explanation as lines of text: a row of characters, and below it a line for each word.

Pieces carry a rich style, which the command line applies; the text says everything without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from hanlattice.explain.changes import Largest, changes, largest, others
from hanlattice.explain.drawing import (
    Interval,
    by_row,
    choose_layer,
    choose_view,
    edges,
    glyph_width,
    kind,
    label_tones,
    rows,
    shown,
    span_label,
    why_no_arcs,
)
from hanlattice.explain.values import DIRECTIONS, Explanation, Layer, Word
from hanlattice.text.display import visible
from hanlattice.text.span import WORD, Span
from hanlattice.theme import INKS, TONES

# Columns of a share's bar, and of the bar with its numbers.
BAR = 8
SHARE = BAR + 10
# The least width: both shares below a word need it.
NARROWEST = 2 * SHARE + 4
# The shortest row of a long text beside shares, and the widest column of words.
LEAST = 18
NAME = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class StyledText(NamedTuple):
    text: str
    style: str = ""


Line = list[StyledText]


def lines(
    explanation: Explanation, layer: int = 1, width: int = 100, view: str | None = None
) -> Iterator[Line]:
    """Yield the lines of the picture.

    The effect of a word, or its shares, stand beside it where enough characters fit into a row,
    else below it.

    Args:
        layer: the layer whose shares are shown, counted from 1, the lowest.
        width: the most columns of a line, NARROWEST at least.
        view: a name from `VIEWS`.
    """
    chosen = choose_layer(explanation, layer)
    is_shares = choose_view(explanation, view) == "shares"
    if not explanation.text:
        yield [StyledText("this text is empty", "dim")]
        return
    widths = [float(max(3, glyph_width(shown(character)) + 1)) for character in explanation.text]
    spans = explanation.spans
    words = explanation.words
    width = max(width, NARROWEST)
    name = min(NAME, max((cell_len(visible(word.word)) for word in words), default=0))
    below = width - name - 2
    beside = below - 2 * SHARE - 4
    is_wide = beside >= min(LEAST, sum(widths))
    effects = () if is_shares else tuple(largest(explanation))
    frame = _Frame(width, name, is_wide, label_tones(explanation), effects)
    breaks = [start for start, _ in explanation.pieces[1:]]
    intervals = rows(widths, beside if is_wide else below, spans, words, breaks)
    room = max(int(edges(widths, row)[-1]) for row in intervals)
    in_rows = zip(intervals, by_row(spans, intervals), by_row(words, intervals), strict=True)
    for index, (row, its_spans, its_words) in enumerate(in_rows):
        lefts = [int(edge) for edge in edges(widths, row)]
        block = _TextBlock(explanation, chosen, frame, row, lefts, room)
        if index:
            yield []
        yield from block.lines([spans[number] for number in its_spans], its_words)
    layers = len(explanation.layers)
    many = f"shares of layer {layer} of {layers}" if is_shares and layers > 1 else ""
    yield from _dim(why_no_arcs(explanation) or many, frame.width)
    changed = changes(explanation)
    names = Counter(word.word for word in words)
    for number, what in changed.items():
        word = words[number]
        # A word that stands in the text twice is named with its offset.
        which = visible(word.word) + (f" at {word.start}" if names[word.word] > 1 else "")
        yield from ([StyledText(line)] for line in wrapped(f"without {which}: {what}", width))
    yield from _dim(others(explanation, len(changed)), width)


def _dim(text: str, width: int) -> Iterator[Line]:
    return ([StyledText(line, "dim")] for line in wrapped(text, width) if line)


class _Frame(NamedTuple):
    """What all rows of a picture share.

    `name` is the columns of the longest word, `is_wide` whether shares stand beside their words,
    `changes` the effect of each word, empty where shares are shown.
    """

    width: int
    name: int
    is_wide: bool
    tones: Mapping[str, int]
    changes: tuple[Largest, ...]


class _TextBlock(NamedTuple):
    """A row of characters and the lines below it."""

    explanation: Explanation
    layer: Layer | None
    frame: _Frame
    row: Interval
    # The column of each character, and the column after the last.
    lefts: list[int]
    # Columns of the longest row.
    room: int

    def lines(self, spans: Sequence[Span], words: Sequence[int]) -> Iterator[Line]:
        """Yield the characters, the brackets of spans, and the arcs of words with their numbers."""
        yield self._characters(spans)
        if spans:
            yield from self._brackets(spans)
        if any(span.label == WORD for span in spans):
            yield from self._chances(spans)
        if self.layer is None:
            return
        changed = self.frame.changes
        if words:
            shares = f"{'forward →':<{SHARE}}  {'← backward':<{SHARE}}".rstrip()
            heads = "without it" if changed else shares
            indent = self.room + self.frame.name + 4 if self.frame.is_wide else 2
            yield [StyledText(" " * indent), StyledText(heads, "dim")]
        for index in sorted(words, key=lambda n: -changed[n].weight) if changed else words:
            yield from self._word(index, self.explanation.words[index], self.layer)
        for name in () if changed else DIRECTIONS:
            # A character's own share stands under it.
            own = getattr(self.layer, name).own
            text = ""
            for at in range(self.row.start, self.row.end):
                number = "" if own[at] is None else f"{100 * own[at].mean:.0f}"
                text += number.ljust(self._left(at + 1) - self._left(at))
            line = [StyledText(text.rstrip(), "dim")]
            yield from self._noted(line, f"a character's own share in %, {name}")

    def _noted(self, line: Line, note: str) -> Iterator[Line]:
        """Yield a line with a note: to the right of all rows if it fits there, else below."""
        column = self.room + 2
        used = sum(cell_len(piece.text) for piece in line)
        if column + cell_len(note) <= self.frame.width:
            yield [*line, StyledText(" " * (column - used)), StyledText(note, "dim")]
        else:
            yield line
            yield from _dim(note, self.frame.width)

    def _characters(self, spans: Sequence[Span]) -> Line:
        styles = dict.fromkeys(range(self.row.start, self.row.end), "")
        for span in spans:
            styles.update(dict.fromkeys(range(span.start, span.end), f"bold {self._tone(span)}"))
        pieces = []
        for at in range(self.row.start, self.row.end):
            style = "dim" if self.explanation.tags[at] is None else styles[at]
            glyph = shown(self.explanation.text[at])
            space = self._left(at + 1) - self._left(at) - glyph_width(glyph)
            pieces += [StyledText(glyph, style), StyledText(" " * space)]
        return pieces

    def _left(self, at: int) -> int:
        return self.lefts[min(max(at, self.row.start), self.row.end) - self.row.start]

    def _tone(self, span: Span) -> str:
        return f"color({TONES[self.frame.tones[span.label]].terminal})"

    def _brackets(self, spans: Sequence[Span]) -> Iterator[Line]:
        pieces = []
        column = 0
        unfitting = []
        for span in spans:
            left = self._left(span.start)
            right = self._left(span.end) - 1
            pieces.append(StyledText(" " * (left - column)))
            first = "└" if span.start >= self.row.start else "─"
            last = "┘" if span.end <= self.row.end else "─"
            label = "" if span.label == WORD else visible(span_label(span))
            inside = right - left - 2
            if cell_len(label) > inside:
                unfitting.append(f"{visible(span.text)} {label}")
            texts = (label, visible(span.label))
            text = next((text for text in texts if cell_len(text) <= inside), "")
            # The text in the middle of the line.
            dashes = inside - cell_len(text)
            line = f"{first}{'─' * (dashes // 2)}{text}{'─' * (dashes - dashes // 2)}{last}"
            pieces.append(StyledText(line, self._tone(span)))
            column = right
        return self._noted(pieces, " · ".join(unfitting))

    def _chances(self, spans: Sequence[Span]) -> Iterator[Line]:
        """Write a word's probability under its first character, as two digits: they always fit."""
        text = ""
        for span in spans:
            if span.label == WORD and span.score is not None and span.start >= self.row.start:
                text = text.ljust(self._left(span.start)) + f"{min(99, 100 * span.score):.0f}"
        return self._noted([StyledText(text, "dim")], "a word's probability in %, at most 99")

    def _word(self, index: int, word: Word, layer: Layer) -> Iterator[Line]:
        left = self._left(word.start)
        right = self._left(word.end) - 1
        first = "├" if word.start >= self.row.start else "╌"
        last = "┤" if word.end <= self.row.end else "╌"
        style = f"{'bold ' if word.chosen else ''}color({INKS[kind(word)].terminal})"
        arc = f"{first}{'─' * (right - left - 2)}{last}"
        if self.frame.changes:
            most = self.frame.changes[index]
            numbers = StyledText(f"  {_bar(most.weight)} {most.text:>4}".rstrip())
        else:
            shares = (layer.forward.words[index], layer.backward.words[index])
            texts = (
                f"{_bar(share.mean)} {100 * share.mean:3.0f}% ±{100 * share.spread:<3.0f}"
                for share in shares
            )
            numbers = StyledText("  " + "  ".join(texts).rstrip())
        name = " " * (self.room + 2 - right) + _fitted(visible(word.word), self.frame.name)
        line = [StyledText(" " * left), StyledText(arc, style), StyledText(name, style)]
        yield from [[*line, numbers]] if self.frame.is_wide else [line, [numbers]]


def wrapped(text: str, most: int) -> Iterator[str]:
    """Break a visible text at spaces into lines of at most `most` columns; cut a longer word."""
    line = ""
    for word in text.split(" "):
        if line and cell_len(f"{line} {word}") > most:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while cell_len(line) > most:
            end = max(end for end in range(1, most + 1) if cell_len(line[:end]) <= most)
            yield line[:end]
            line = line[end:]
    yield line


def _fitted(text: str, width: int) -> str:
    """Cut or pad a text to exactly this many columns."""
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    while cell_len(text) > width - 1:
        text = text[:-1]
    return text + "…" + " " * (width - cell_len(text) - 1)


def _bar(part: float) -> str:
    eighths = round(part * BAR * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(BAR)
