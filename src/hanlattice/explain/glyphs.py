"""Characters as they are shown: every one visible, none that a terminal or a file of XML could trip over."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from xml.sax.saxutils import escape

from hanlattice.text.display import visible

SPACE, CIRCLE, LEFT_TO_RIGHT = "␣", "◌", "\u200e"
_NARROW = 0.62  # the width of a narrow character, in that of a wide one: digits of a broad font


def shown(character: str) -> str:
    """One character alone: white space has a sign, a mark that needs a letter has a circle, the rest may be escaped."""
    if character in (" ", "\u3000"):
        return SPACE
    if unicodedata.category(character) in ("Mn", "Me", "Mc"):
        return CIRCLE + character
    return visible(character)


def columns(text: str) -> int:
    """How many columns of a terminal a visible text takes."""
    return sum(_columns(character) for character in text)


def wrapped(text: str, most: int) -> Iterator[str]:
    """A visible text in lines of so many columns at most, parted at spaces; a word that is longer is cut."""
    line = ""
    for word in text.split(" "):
        if line and columns(f"{line} {word}") > most:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while columns(line) > most:
            end = max(end for end in range(1, most + 1) if columns(line[:end]) <= most)
            yield line[:end]
            line = line[end:]
    yield line


def ems(text: str) -> float:
    """About how wide a visible text is, in the size of its font."""
    return sum((0.0, _NARROW, 1.0)[_columns(character)] for character in text)


def is_wide(character: str) -> bool:
    return _columns(character) == 2


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def xml(text: str) -> str:
    """Any text as the content of an element or a quoted attribute. What XML cannot hold becomes a visible escape."""
    return escape("\n".join(map(visible, text.split("\n"))), {'"': "&quot;", "'": "&#39;"})


def labelled(word: str, number: str) -> str:
    """A word and a number after it; also after a word that is written from right to left."""
    turns = any(unicodedata.bidirectional(character) in ("R", "AL") for character in word)
    return f"{visible(word)}{LEFT_TO_RIGHT if turns else ''} {number}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def chance(probability: float) -> str:
    """A probability. Only one that is 1 says 100%, and only one that is 0 says 0%."""
    if 0 < probability < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= probability < 1 else percent(probability)
