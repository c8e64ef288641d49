"""Cutting a long text into pieces that a model can take: at sentence ends where there are any, and only if it must."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hanlattice.text.joints import JOIN, joints

_STRONG = re.compile(r"[。！？!?；;…\n]+[”’』」）)\]】》]*")
_WEAK = re.compile(r"[，,、：:\s]")


def pieces(text: str, limit: int) -> list[tuple[int, int]]:
    """Half-open pieces that cover the text in order, each of at most `limit` characters.

    A text within the limit is one piece. A longer one is cut after the last sentence end that fits, or else after the
    last comma or blank, or else at the limit; inside an address, a number or an emoji only if nothing else is left.
    """
    if limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit}")
    if len(text) <= limit:
        return [(0, len(text))]
    whole = joints(text) == JOIN
    found, start = [], 0
    while len(text) - start > limit:
        end = start + limit
        ends = (_last(_ends(pattern, text, start, end), end, whole) for pattern in (_STRONG, _WEAK))
        end = next(filter(None, ends), None) or _last(range(start + 1, end + 1), end, whole) or end
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def sentences(text: str) -> Iterator[str]:
    """The text cut after every sentence end, without white space around each; what is blank is left out."""
    start = 0
    for end in (*(match.end() for match in _STRONG.finditer(text)), len(text)):
        if sentence := text[start:end].strip():
            yield sentence
        start = end


def _ends(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    return (match.end() for match in pattern.finditer(text, start, end + 1))


def _last(places: Iterable[int], end: int, whole: npt.NDArray[np.bool_]) -> int | None:
    """The last of the places up to `end` where the text may be cut, if there is one."""
    return max((at for at in places if at <= end and not whole[at]), default=None)
