"""Cutting a long text into pieces that a model can take: at sentence ends where there are any, and only if it must."""

from __future__ import annotations

import re
from bisect import bisect_right

_STRONG = re.compile(r"[。！？!?；;…\n]+[”’』」）)\]】》]*")
_WEAK = re.compile(r"[，,、：:\s]")


def pieces(text: str, limit: int) -> list[tuple[int, int]]:
    """Half-open pieces that cover the text in order, each of at most `limit` characters.

    A text within the limit is one piece. A longer one is cut after the last sentence end that fits, or else after the
    last comma or blank, or else at the limit.
    """
    if limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit}")
    if len(text) <= limit:
        return [(0, len(text))]
    strong = [match.end() for match in _STRONG.finditer(text)]
    weak = [match.end() for match in _WEAK.finditer(text)]
    found, start = [], 0
    while len(text) - start > limit:
        end = _last(strong, start, start + limit) or _last(weak, start, start + limit) or start + limit
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def _last(places: list[int], after: int, until: int) -> int | None:
    """The last of the sorted places in (after, until], if there is one."""
    at = bisect_right(places, until)
    return places[at - 1] if at and places[at - 1] > after else None
