"""Texts in groups of about so many characters, which bounds what working on many at a time needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

Text = TypeVar("Text", bound=Sized)


def groups(texts: Iterable[Text], characters: int) -> Iterator[list[Text]]:
    """Each has this many, with one for the end of each text, or more by less than its last text; the rest is last."""
    group: list[Text] = []
    size = 0
    for text in texts:
        group.append(text)
        size += len(text) + 1
        if size >= characters:
            yield group
            group, size = [], 0
    if group:
        yield group
