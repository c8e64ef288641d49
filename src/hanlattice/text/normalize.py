"""How a model sees a character: one code point for one code point, so that offsets stay exact.

Traditional characters are seen as simplified ones, by the table in traditional.txt.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]

# UTF-8 cannot carry these.
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Almost all ideographs of this block are their own plain forms: see `_folded`.
_IDEOGRAPHS = 0x4E00, 0x9FFF


def fold(text: str) -> str:
    """Replace full-width and other one-to-one compatibility forms, and traditional characters.

    A lone surrogate becomes U+FFFD.
    """
    if text.isascii():
        return text
    # Below this length the cached function is quicker than calls into numpy.
    if len(text) > 100:
        return fold_code_points(code_points(text))
    return "".join(map(_fold_character, text))


def fold_digits(text: str) -> str:
    """Return `fold` of the text with every decimal digit as 0, as the embeddings see it."""
    return "".join("0" if character.isdecimal() else character for character in fold(text))


def has_traditional(text: str) -> bool:
    """Return whether folding simplifies a character of the text."""
    return not _simplified().keys().isdisjoint(text)


@lru_cache(maxsize=1 << 16)
def _fold_character(character: str) -> str:
    if LONE_SURROGATE.match(character):
        return "\ufffd"
    plain = unicodedata.normalize("NFKC", character)
    plain = plain if len(plain) == 1 else character
    return _simplified().get(plain, plain)


@lru_cache(maxsize=1)
def _simplified() -> dict[str, str]:
    """Read the table, without characters that simplified text has too, such as 乾 and 著."""
    lines = Path(__file__).with_name("traditional.txt").read_text("utf-8").splitlines()
    pairs = "".join(line for line in lines if not line.startswith("#"))
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def code_points(text: str) -> Codes:
    """Return [len(text)]: the code points of the text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<i4")


class CodeTable:
    """Apply a function from a character to a number, 0 or more, to arrays of code points.

    The function is called once for each new character; from then on a table answers.
    """

    def __init__(self, function: Callable[[str], int]) -> None:
        self._function = function
        self._known = np.full(sys.maxunicode + 1, -1, dtype=np.int32)

    def set_known(self, first: int, last: int, others: Mapping[str, str]) -> None:
        """Let these characters stand for themselves, except for the keys of `others`."""
        self._known[first : last + 1] = np.arange(first, last + 1)
        self._known[[ord(character) for character in others]] = list(map(ord, others.values()))

    def __call__(self, codes: Codes) -> npt.NDArray[np.int32]:
        values = self._known[codes]
        if values.size and values.min() < 0:
            # Not np.unique, which would import numpy.ma.
            for code in set(codes[values < 0].tolist()):
                self._known[code] = self._function(chr(code))
            values = self._known[codes]
        return values


def fold_code_points(codes: Codes) -> str:
    """Return `fold` of a text that is given as code points."""
    return _folded()(codes).tobytes().decode("utf-32-le")


@lru_cache(maxsize=1)
def _folded() -> CodeTable:
    table = CodeTable(lambda character: ord(_fold_character(character)))
    table.set_known(0, 0x7F, {})
    table.set_known(*_IDEOGRAPHS, _simplified())
    return table
