"""Cutting a long text into pieces that a model can take: at sentence ends where there are any, and only if it must."""

from __future__ import annotations

import re

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
    found, start = [], 0
    while len(text) - start > limit:
        end = start + limit
        end = _last(_STRONG, text, start, end) or _last(_WEAK, text, start, end) or end
        found.append((start, end))
        start = end
    return [*found, (start, len(text))]


def _last(pattern: re.Pattern[str], text: str, start: int, end: int) -> int | None:
    """Where the last match that lies in [start, end) ends, if there is one. One that goes on beyond `end` does not."""
    ends = (match.end() for match in pattern.finditer(text, start, end + 1))
    return max((at for at in ends if at <= end), default=None)
