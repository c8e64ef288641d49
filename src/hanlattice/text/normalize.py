"""How the model sees a character. Always one code point for one code point, so that offsets stay
exact.

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

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # UTF-8 cannot carry it


_IDEOGRAPHS = 0x4E00, 0x9FFF  # which are their own plain forms


def fold(text: str) -> str:
    """Full-width forms and other one-to-one compatibility forms become plain, traditional
    characters simplified.

    A lone surrogate becomes U+FFFD.
    """
    if text.isascii():
        return text
    if len(text) > 100:
        return fold_code_points(code_points(text))
    return "".join(map(_fold_character, text))


def fold_digits(text: str) -> str:
    """`fold`, and every decimal digit becomes 0: what the character embedding looks up."""
    return "".join("0" if character.isdecimal() else character for character in fold(text))


def has_traditional(text: str) -> bool:
    """Whether folding makes a character of the text another because it is traditional."""
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
    """From traditional characters and variants; those that simplified text has too, as 乾 and 著, are
    not in it.
    """
    lines = Path(__file__).with_name("traditional.txt").read_text("utf-8").splitlines()
    pairs = "".join(line for line in lines if not line.startswith("#"))
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def code_points(text: str) -> Codes:
    """[len(text)]: the text as numbers."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<i4")


class CodeTable:
    """A function from a character to a number, 0 or more, over arrays of code points.

    It is asked once for each character that comes up; from then on a table answers.
    """

    def __init__(self, function: Callable[[str], int]) -> None:
        self._function = function
        self._known = np.full(sys.maxunicode + 1, -1, dtype=np.int32)

    def set_known(self, first: int, last: int, others: Mapping[str, str]) -> None:
        """These characters stand for themselves, but for others, which stand for what they are
        mapped to.
        """
        self._known[first : last + 1] = np.arange(first, last + 1)
        self._known[[ord(other) for other in others]] = [ord(plain) for plain in others.values()]

    def __call__(self, codes: Codes) -> npt.NDArray[np.int32]:
        values = self._known[codes]
        if values.size and values.min() < 0:
            for code in set(codes[values < 0].tolist()):  # np.unique would import numpy.ma
                self._known[code] = self._function(chr(code))
            values = self._known[codes]
        return values


def fold_code_points(codes: Codes) -> str:
    """`fold` of a text that is given as code points."""
    return fold_codes(codes).tobytes().decode("utf-32-le")


def fold_codes(codes: Codes) -> Codes:
    """The same as code points."""
    return _folded()(codes)


@lru_cache(maxsize=1)
def _folded() -> CodeTable:
    table = CodeTable(lambda character: ord(_fold_character(character)))
    table.set_known(0, 0x7F, {})  # ASCII
    table.set_known(*_IDEOGRAPHS, _simplified())
    return table
