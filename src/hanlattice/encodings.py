"""Which encoding a file has: what a byte order mark says, UTF-8 where the bytes are that, else
GB18030 or Big5.

GB18030 and Big5 are told apart by how common the characters are that the bytes would be. Each order
of characters has a first level of those in daily use, and text read in the wrong one falls outside
of it, or onto bytes that are nothing. docs/formats.md has the figures.
"""

from __future__ import annotations

import codecs
from functools import lru_cache

from hanlattice.errors import InputError

AUTO = "auto"
UTF8 = "utf-8"
MARKS = (  # the longer ones first: UTF-16's little-endian one begins that of UTF-32
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
SAMPLE = 1 << 16  # bytes that are looked at
ENOUGH = 1 << 12  # bytes with Chinese in them after which more of them change nothing
_LARGER = {
    "gbk": "gb18030",
    "gb2312": "gb18030",
    "big5": "cp950",
    "utf-8-sig": UTF8,
}  # the same characters and more
_NAMES = {"gb18030": "GB18030", "cp950": "Big5", "big5hkscs": "Big5-HKSCS"}
_LEAST = -0.8  # of what fits; traditional text in GB18030 has about 0.2
_ASCII = "".join(map(chr, range(128)))


def find_encoding(name: str) -> str | None:
    """'auto', or Python's name of an encoding; where a larger one has all of its characters, that
    of the larger.

    None where Python knows no such encoding, or one whose lines cannot be found, as HZ's.
    """
    if name.lower() == AUTO:
        return AUTO
    try:
        found = codecs.lookup(name).name
        found = _LARGER.get(found, found)
        if not is_wide(found) and _ASCII.encode(found) != _ASCII.encode():
            return None
    except (LookupError, ValueError):  # also what encodes no text, such as base64
        return None
    return found


def check_encoding(name: str) -> str:
    """What `find_encoding` finds, which must be something."""
    if (found := find_encoding(name)) is None:
        raise InputError(
            f"unknown encoding {name!r}: expected auto, utf-8, gb18030, gbk, big5, utf-16 or another name"
        )
    return found


def is_wide(codec: str) -> bool:
    """Whether a line end takes more bytes than one, so that lines cannot be cut before they are
    decoded.
    """
    return codec.startswith(("utf-16", "utf-32"))


def called(codec: str) -> str:
    """The encoding's name for a message."""
    return _NAMES.get(codec, codec.upper())


def guess(sample: bytes) -> str:
    """UTF-8, GB18030 or Big5; UTF-8 where none of them fits, or all is ASCII. The sample may end
    inside a character.
    """
    lines = [line for line in sample.split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:SAMPLE]
    try:
        codecs.getincrementaldecoder(UTF8)().decode(sample)
    except UnicodeDecodeError:
        fits = {codec: _fit(sample, codec) for codec in (UTF8, "gb18030", "cp950")}
        best = max(fits, key=fits.__getitem__)
        if (
            best == "cp950" and _fit(sample, "big5hkscs") > fits[best]
        ):  # Hong Kong's characters, which cp950 lacks
            return "big5hkscs"
        return best if fits[best] > _LEAST else UTF8
    return UTF8


def _fit(sample: bytes, codec: str) -> float:
    """From −3, nothing can be read, through −1, all is rare, to 1, every character is one of daily
    use.
    """
    text = [
        each
        for each in codecs.getincrementaldecoder(codec)("replace").decode(sample)
        if each >= "\x80"
    ]
    usual = _usual(codec)
    bad = text.count("\ufffd")
    common = sum(map(usual.__contains__, text))
    return (common - (len(text) - bad - common) - 3 * bad) / len(text) if text else -3.0


@lru_cache(maxsize=4)
def _usual(codec: str) -> frozenset[str]:
    """The characters of the first level, and punctuation."""
    if codec == UTF8:
        return _usual("gb18030") | _usual("cp950")
    trails = range(0xA1, 0xFF) if codec == "gb18030" else (*range(0x40, 0x7F), *range(0xA1, 0xFF))
    leads = (0xA1, 0xA3, *range(0xB0, 0xD8)) if codec == "gb18030" else range(0xA1, 0xC7)
    return frozenset(
        bytes((lead, trail)).decode(codec, "ignore") for lead in leads for trail in trails
    )
