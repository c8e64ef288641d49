"""An explanation as lines of text: the characters in a row, a line a word below them, its shares
beside or below it.

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
from hanlattice.explain.values import DIRECTIONS, Explanation, Layer, Share, Word
from hanlattice.text.display import visible
from hanlattice.text.span import WORD, Span
from hanlattice.theme import INKS, TONES

BAR = 8  # columns of a share's bar
SHARE = BAR + 10  # with its numbers
NARROWEST = 2 * SHARE + 4  # the least width: both shares below a word need it
# the shortest row of a long text beside shares, and the widest column of words
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
    """The picture, in lines of this many columns at most, or of NARROWEST. A layer is counted from
    1, the lowest.

    What changes without a word, or its shares, stand beside it where enough characters fit into a
    row, else below it.
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
    frame = _Frame(
        width,
        name,
        is_wide,
        label_tones(explanation),
        () if is_shares else tuple(largest(explanation)),
    )
    found = rows(
        widths,
        beside if is_wide else below,
        spans,
        words,
        [start for start, _ in explanation.pieces[1:]],
    )
    room = max(int(edges(widths, row)[-1]) for row in found)
    in_rows = zip(found, by_row(spans, found), by_row(words, found), strict=True)
    for nth, (row, its_spans, its_words) in enumerate(in_rows):
        block = _TextBlock(
            explanation, chosen, frame, row, [int(edge) for edge in edges(widths, row)], room
        )
        if nth:
            yield []
        yield from block.lines([spans[at] for at in its_spans], its_words)
    many = (
        f"shares of layer {layer} of {len(explanation.layers)}"
        if is_shares and len(explanation.layers) > 1
        else ""
    )
    yield from _dim(why_no_arcs(explanation) or many, frame.width)
    yield from _without(explanation, frame.width)


def _without(explanation: Explanation, width: int) -> Iterator[Line]:
    """A line for each word without which something changes."""
    changed = changes(explanation)
    names = Counter(word.word for word in explanation.words)
    for nth, what in changed.items():
        word = explanation.words[nth]
        which = (
            visible(word.word) if names[word.word] == 1 else f"{visible(word.word)} at {word.start}"
        )
        yield from ([StyledText(line)] for line in wrapped(f"without {which}: {what}", width))
    yield from _dim(others(explanation, len(changed)), width)


def _dim(text: str, width: int) -> Iterator[Line]:
    return ([StyledText(line, "dim")] for line in wrapped(text, width) if line)


class _Frame(NamedTuple):
    """What all rows of a picture share."""

    width: int  # of the whole
    name: int  # columns of the longest word
    is_wide: bool  # whether shares stand beside their words
    tones: Mapping[str, int]
    changes: tuple[Largest, ...]  # of each word; nothing where shares are shown


class _TextBlock(NamedTuple):
    """A row of characters and the lines below it."""

    explanation: Explanation
    layer: Layer | None
    frame: _Frame
    row: Interval
    lefts: list[int]  # the column of each character, and the one after the last
    room: int  # columns of the longest row

    def lines(self, spans: Sequence[Span], words: Sequence[int]) -> Iterator[Line]:
        yield self._characters(spans)
        if spans:
            yield from self._brackets(spans)
        if any(span.label == WORD for span in spans):
            yield from self._chances(spans)
        if self.layer is None:
            return
        changed = self.frame.changes
        if words:
            heads = (
                "without it"
                if changed
                else f"{'forward →':<{SHARE}}  {'← backward':<{SHARE}}".rstrip()
            )
            indent = self.room + self.frame.name + 4 if self.frame.is_wide else 2
            yield [StyledText(" " * indent), StyledText(heads, "dim")]
        for at in sorted(words, key=lambda at: -changed[at].weight) if changed else words:
            yield from self._word(at, self.explanation.words[at])
        for direction in () if changed else DIRECTIONS:
            yield from self._own(direction)

    def _noted(self, line: Line, note: str) -> Iterator[Line]:
        """A line and a note on it: to the right of all rows if it fits there, else below."""
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
            pieces += [
                StyledText(glyph, style),
                StyledText(" " * (self._left(at + 1) - self._left(at) - glyph_width(glyph))),
            ]
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
            fitting = (
                each for each in (label, visible(span.label), "") if cell_len(each) <= inside
            )
            pieces.append(
                StyledText(f"{first}{_centred(next(fitting, ''), inside)}{last}", self._tone(span))
            )
            column = right
        return self._noted(pieces, " · ".join(unfitting))

    def _chances(self, spans: Sequence[Span]) -> Iterator[Line]:
        """The probability of each word under its first character; two digits, since a word may have
        three columns.
        """
        text = ""
        for span in spans:
            if span.label == WORD and span.score is not None and span.start >= self.row.start:
                text = text.ljust(self._left(span.start)) + f"{min(99, 100 * span.score):.0f}"
        return self._noted([StyledText(text, "dim")], "a word's probability in %, at most 99")

    def _word(self, at: int, word: Word) -> Iterator[Line]:
        left = self._left(word.start)
        right = self._left(word.end) - 1
        first = "├" if word.start >= self.row.start else "╌"
        last = "┤" if word.end <= self.row.end else "╌"
        style = f"{'bold ' if word.chosen else ''}color({INKS[kind(word)].terminal})"
        arc = f"{first}{'─' * (right - left - 2)}{last}"
        assert self.layer is not None
        if self.frame.changes:
            most = self.frame.changes[at]
            numbers = StyledText(f"  {_bar(most.weight)} {most.text:>4}".rstrip())
        else:
            shares = (self.layer.forward.words[at], self.layer.backward.words[at])
            numbers = StyledText("  " + "  ".join(_share(share) for share in shares).rstrip())
        name = " " * (self.room + 2 - right) + _fitted(visible(word.word), self.frame.name)
        line = [StyledText(" " * left), StyledText(arc, style), StyledText(name, style)]
        yield from [[*line, numbers]] if self.frame.is_wide else [line, [numbers]]

    def _own(self, direction: str) -> Iterator[Line]:
        assert self.layer is not None
        text = ""
        for at in range(self.row.start, self.row.end):
            share = getattr(self.layer, direction).own[at]
            number = "" if share is None else f"{100 * share.mean:.0f}"
            text += number.ljust(self._left(at + 1) - self._left(at))
        return self._noted(
            [StyledText(text.rstrip(), "dim")], f"a character's own share in %, {direction}"
        )


def wrapped(text: str, most: int) -> Iterator[str]:
    """A visible text in lines of at most this many columns, broken at spaces; a longer word is cut."""
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


def _centred(text: str, width: int) -> str:
    left = (width - cell_len(text)) // 2
    return "─" * left + text + "─" * (width - cell_len(text) - left)


def _fitted(text: str, width: int) -> str:
    """The text in exactly this many columns, cut or padded."""
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    while cell_len(text) > width - 1:
        text = text[:-1]
    return text + "…" + " " * (width - cell_len(text) - 1)


def _bar(part: float) -> str:
    eighths = round(part * BAR * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(BAR)


def _share(share: Share) -> str:
    return f"{_bar(share.mean)} {100 * share.mean:3.0f}% ±{100 * share.spread:<3.0f}"
