"""An explanation as lines of text: the characters in a row, a line a word below them, its shares beside it.

Pieces carry the name of a style, in the words of rich, which the command line applies; without it nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hanlattice.explain.colours import TONES, tone
from hanlattice.explain.draw import choose_layer, kind, span_label
from hanlattice.explain.glyphs import columns, shown
from hanlattice.explain.layout import Interval, by_row, edges, rows
from hanlattice.explain.values import Explanation, Layer, Share, Word
from hanlattice.text.shown import visible
from hanlattice.text.spans import WORD, Span

BAR = 8  # columns of a share's bar
SHARE = BAR + 10  # with its numbers
LEAST, NAME = 12, 16  # the narrowest row of characters, and the widest column of words
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_STYLES = {"word": "blue", "subword": "cyan", "chosen": "bold yellow"}


class Piece(NamedTuple):
    text: str
    style: str = ""


Line = list[Piece]


def lines(explanation: Explanation, layer: int = 1, width: int = 100) -> Iterator[Line]:
    """The picture, in lines of about this many columns at most. A layer is counted from 1, the lowest."""
    chosen = choose_layer(explanation, layer)
    if not explanation.text:
        yield [Piece("this text is empty", "dim")]
        return
    name = min(NAME, max((columns(visible(word.word)) for word in explanation.words), default=0))
    room = max(LEAST, width - name - 2 * SHARE - 6)
    widths = [float(max(3, columns(shown(character)) + 1)) for character in explanation.text]
    spans, words = (
        [Interval(each.start, each.end) for each in all_] for all_ in (explanation.spans, explanation.words)
    )
    found = rows(widths, room, spans, words, [start for start, _ in explanation.pieces[1:]])
    room = max(int(edges(widths, row)[-1]) for row in found)
    in_rows = zip(found, by_row(spans, found), by_row(words, found), strict=True)
    for nth, (row, its_spans, its_words) in enumerate(in_rows):
        block = _Block(explanation, chosen, row, [int(edge) for edge in edges(widths, row)], room, name)
        if nth:
            yield []
        yield from block.lines([explanation.spans[at] for at in its_spans], its_words)
    yield from _notes(explanation, layer)


def _notes(explanation: Explanation, layer: int) -> Iterator[Line]:
    if not explanation.has_lattice:
        yield [Piece("this model has no lexicon: it reads characters alone", "dim")]
    elif not explanation.words:
        yield [Piece("no word of the lexicon stands in this text", "dim")]
    elif len(explanation.layers) > 1:
        yield [Piece(f"shares of layer {layer} of {len(explanation.layers)}", "dim")]


class _Block(NamedTuple):
    """A row of characters and what is said of it."""

    explanation: Explanation
    layer: Layer | None
    row: Interval
    lefts: list[int]  # the column of each character, and the one after the last
    room: int  # columns of the longest row
    name: int  # columns of the longest word

    def lines(self, spans: Sequence[Span], words: Sequence[int]) -> Iterator[Line]:
        yield self._characters(spans)
        if spans:
            yield self._brackets(spans)
        if any(span.label == WORD for span in spans):
            yield self._chances(spans)
        if self.layer is None:
            return
        if words:
            heads = f"{'forward →':<{SHARE}}  {'← backward':<{SHARE}}".rstrip()
            yield [Piece(" " * (self.room + self.name + 4)), Piece(heads, "dim")]
        for at in words:
            yield self._word(at, self.explanation.words[at])
        for direction in ("forward", "backward"):
            yield self._own(direction)

    def _characters(self, spans: Sequence[Span]) -> Line:
        styles = dict.fromkeys(range(self.row.start, self.row.end), "")
        for span in spans:
            styles.update(dict.fromkeys(range(span.start, span.end), f"bold {self._tone(span)}"))
        pieces = []
        for at in range(self.row.start, self.row.end):
            style = "dim" if self.explanation.tags[at] is None else styles[at]
            glyph = shown(self.explanation.text[at])
            pieces += [Piece(glyph, style), Piece(" " * (self._left(at + 1) - self._left(at) - columns(glyph)))]
        return pieces

    def _left(self, at: int) -> int:
        return self.lefts[min(max(at, self.row.start), self.row.end) - self.row.start]

    def _tone(self, span: Span) -> str:
        return TONES[tone(span.label, {each.label for each in self.explanation.spans})][2]

    def _brackets(self, spans: Sequence[Span]) -> Line:
        pieces, column, untold = [], 0, []
        for span in spans:
            left, right = self._left(span.start), self._left(span.end) - 1
            pieces.append(Piece(" " * (left - column)))
            first = "└" if span.start >= self.row.start else "─"
            last = "┘" if span.end <= self.row.end else "─"
            label, inside = "" if span.label == WORD else visible(span_label(span)), right - left - 2
            if columns(label) > inside:
                untold.append(f"{visible(span.text)} {label}")
            fitting = (each for each in (label, visible(span.label), "") if columns(each) <= inside)
            pieces.append(Piece(f"{first}{_centred(next(fitting, ''), inside)}{last}", self._tone(span)))
            column = right
        beside = [Piece(" " * (self.room + 2 - column)), Piece(" · ".join(untold), "dim")] if untold else []
        return [*pieces, *beside]

    def _chances(self, spans: Sequence[Span]) -> Line:
        """The probability of each word under its first character; two digits, since a word may have three columns."""
        text = ""
        for span in spans:
            if span.label == WORD and span.score is not None and span.start >= self.row.start:
                text = text.ljust(self._left(span.start)) + f"{min(99, 100 * span.score):.0f}"
        return [Piece(text.ljust(self.room + 2) + "each word's probability in %, 99 and more as 99", "dim")]

    def _word(self, at: int, word: Word) -> Line:
        left, right = self._left(word.start), self._left(word.end) - 1
        first = "├" if word.start >= self.row.start else "╌"
        last = "┤" if word.end <= self.row.end else "╌"
        style = _STYLES[kind(word)]
        arc = f"{first}{'─' * (right - left - 2)}{last}"
        assert self.layer is not None
        shares = (self.layer.forward.words[at], self.layer.backward.words[at])
        name = _fitted(visible(word.word), self.name)
        return [
            Piece(" " * left),
            Piece(arc, style),
            Piece(" " * (self.room + 2 - right) + name + "  ", style),
            Piece("  ".join(_share(share) for share in shares).rstrip()),
        ]

    def _own(self, direction: str) -> Line:
        assert self.layer is not None
        text = ""
        for at in range(self.row.start, self.row.end):
            share = getattr(self.layer, direction).own[at]
            number = "" if share is None else f"{100 * share.mean:.0f}"
            text += number.ljust(self._left(at + 1) - self._left(at))
        note = f"each character's own share in %, {direction}"
        return [Piece(text.ljust(self.room + 2) + note, "dim")]


def _centred(text: str, width: int) -> str:
    left = (width - columns(text)) // 2
    return "─" * left + text + "─" * (width - columns(text) - left)


def _fitted(text: str, width: int) -> str:
    """The text in so many columns, cut or filled."""
    if columns(text) <= width:
        return text + " " * (width - columns(text))
    while columns(text) > width - 1:
        text = text[:-1]
    return text + "…" + " " * (width - columns(text) - 1)


def _share(share: Share) -> str:
    eighths = round(share.mean * BAR * 8)
    bar = ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(BAR)
    return f"{bar} {100 * share.mean:3.0f}% ±{100 * share.spread:<3.0f}"
