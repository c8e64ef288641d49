"""What a caller asks of a model, checked before any work is done: a text, and what is wanted of it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import NamedTuple


class Asked(NamedTuple):
    """What is wanted of each text besides its spans."""

    scores: bool = True
    min_score: float = 0.0
    candidates: int = 0


def checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text must be a str, not {type(value).__name__}: {value!r}")
    return value


def checked_texts(value: Iterable[str]) -> Iterator[str]:
    """The texts of a stream, of which none is read yet; one text is no stream."""
    if isinstance(value, str):
        raise TypeError("pipe takes texts, such as a list or a file's lines; for one text call the tagger itself")
    is_stream = isinstance(value, Iterable) or hasattr(value, "__getitem__")
    if not is_stream or isinstance(value, (bytes, bytearray, memoryview)):  # which are streams of numbers
        raise TypeError(f"pipe takes texts, such as a list of str or a file's lines, not {type(value).__name__}")
    return iter(value)


def checked_number(value: float, name: str, most: float = 1.0) -> float:
    """A setting from 0 to `most`."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}: {value!r}")
    if not 0 <= value <= most:
        raise ValueError(f"{name} must be from 0 to {most:g}, not {value}")
    return float(value)


def checked_count(value: int, least: int = 1, name: str = "the number of candidates or readings") -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}: {value!r}") from None
    if count < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")
    return count
