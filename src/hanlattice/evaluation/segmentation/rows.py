"""A report of segmentation, as JSON has it, line by line: what tables and cards show of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

NONE = "–"


def rows(segmentation: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What each way of counting is called, and its figures; OOV and IV words have a recall and no precision."""
    yield "bakeoff", segmentation["bakeoff"]
    if (oov := segmentation["oov"]) is not None:
        yield f"- OOV ({percent(oov['rate'])} %)", oov
        yield "- IV", segmentation["iv"]
    yield "spans", segmentation["spans"]
    for length, score in segmentation["by_length"].items():
        yield f"- {length} character{'' if length == '1' else 's'}", score
    yield "boundaries", segmentation["boundaries"]


def percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.2f}"
