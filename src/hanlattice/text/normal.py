"""How the model sees a character. Always one code point for one code point, so that offsets stay exact."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # UTF-8 cannot carry it


def fold(text: str) -> str:
    """Full-width forms and other one-to-one compatibility forms become plain; a lone surrogate becomes U+FFFD."""
    if text.isascii():
        return text
    return "".join(map(_fold_character, text))


def fold_digits(text: str) -> str:
    """`fold`, and every decimal digit becomes 0: what the character embedding looks up."""
    return "".join("0" if character.isdecimal() else character for character in fold(text))


@lru_cache(maxsize=1 << 16)
def _fold_character(character: str) -> str:
    if LONE_SURROGATE.match(character):
        return "\ufffd"
    plain = unicodedata.normalize("NFKC", character)
    return plain if len(plain) == 1 else character
