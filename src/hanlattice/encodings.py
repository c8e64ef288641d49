"""Detect the encoding of a file: by its byte order mark, else UTF-8, GB18030 or Big5.

GB18030 and Big5 differ in how common the decoded characters are. Both put the characters in daily
use on a first level. Text that is decoded with the wrong one falls outside of that level, or onto
bytes without a character. docs/formats.md has the figures.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

from hanlattice.errors import InputError

AUTO = "auto"
UTF8 = "utf-8"
# UTF-32 stands before UTF-16, whose little-endian mark is the beginning of UTF-32's.
MARKS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
# Bytes that `guess` looks at, and bytes of lines with Chinese after which its answer is final.
SAMPLE = 1 << 16
ENOUGH = 1 << 12
# Each encoding is read as one that has the same characters and more.
_LARGER = {"gbk": "gb18030", "gb2312": "gb18030", "big5": "cp950", "utf-8-sig": UTF8}
_NAMES = {"gb18030": "GB18030", "cp950": "Big5", "big5hkscs": "Big5-HKSCS"}
# The lowest `_fit` of text; traditional text in GB18030, the hardest case, has about 0.2.
_LEAST = -0.8
_ASCII = "".join(map(chr, range(128)))


def find_encoding(name: str) -> str | None:
    """Return 'auto', or Python's name of an encoding, of GB18030 for GBK, of CP950 for Big5.

    Return None for a name that Python does not know, and for an encoding such as HZ, in which the
    byte of a line end may also be a part of a character.
    """
    if name.lower() == AUTO:
        return AUTO
    try:
        codec = codecs.lookup(name).name
        codec = _LARGER.get(codec, codec)
        is_usable = is_wide(codec) or _ASCII.encode(codec) == _ASCII.encode()
    # A codec of bytes, such as base64, is a LookupError when it has to encode text.
    except (LookupError, ValueError):
        return None
    return codec if is_usable else None


def check_encoding(name: str) -> str:
    """Return what `find_encoding` returns; an unknown encoding is an InputError."""
    if (codec := find_encoding(name)) is None:
        known = "auto, utf-8, gb18030, gbk, big5, utf-16 or another name"
        raise InputError(f"unknown encoding {name!r}: expected {known}")
    return codec


def is_wide(codec: str) -> bool:
    """Whether a line end has several bytes, so that text must be decoded before it is split."""
    return codec.startswith(("utf-16", "utf-32"))


def called(codec: str) -> str:
    """Return the name of an encoding for a message, such as Big5 for cp950."""
    return _NAMES.get(codec, codec.upper())


def guess(sample: bytes) -> str:
    """Return the most likely of UTF-8, GB18030 and Big5; the sample may end inside a character.

    The answer is UTF-8 if none of them fits, or if all bytes are ASCII.
    """
    lines = [line for line in sample.split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:SAMPLE]
    try:
        codecs.getincrementaldecoder(UTF8)().decode(sample)
    except UnicodeDecodeError:
        fits = {codec: _fit(sample, codec) for codec in (UTF8, "gb18030", "cp950")}
        best = max(fits, key=fits.__getitem__)
        # cp950 lacks the characters of Hong Kong.
        if best == "cp950" and _fit(sample, "big5hkscs") > fits[best]:
            return "big5hkscs"
        return best if fits[best] > _LEAST else UTF8
    return UTF8


def _fit(sample: bytes, codec: str) -> float:
    """Return 1 if all characters are in daily use, −1 if all are rare, −3 if none decodes."""
    decoded = codecs.getincrementaldecoder(codec)("replace").decode(sample)
    text = [character for character in decoded if character >= "\x80"]
    bad = text.count("\ufffd")
    common = sum(map(_usual(codec).__contains__, text))
    return (common - (len(text) - bad - common) - 3 * bad) / len(text) if text else -3.0


@lru_cache(maxsize=4)
def _usual(codec: str) -> frozenset[str]:
    """Return the punctuation and the characters of the first level of an encoding."""
    if codec == UTF8:
        return _usual("gb18030") | _usual("cp950")
    # The rows of the tables: punctuation at 0xA1, then the first level (of GB 2312 from 0xB0).
    trails = range(0xA1, 0xFF) if codec == "gb18030" else (*range(0x40, 0x7F), *range(0xA1, 0xFF))
    leads = (0xA1, 0xA3, *range(0xB0, 0xD8)) if codec == "gb18030" else range(0xA1, 0xC7)
    return frozenset(
        bytes((lead, trail)).decode(codec, "ignore") for lead in leads for trail in trails
    )
