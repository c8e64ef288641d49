"""What a caller asks of a model, checked before any work is done: a text, and what is wanted of it."""

from __future__ import annotations

import operator
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


def checked_score(value: float) -> float:
    if not isinstance(value, Real):
        raise TypeError(f"min_score must be a number, not {type(value).__name__}: {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"min_score must be from 0 to 1, not {value}")
    return float(value)


def checked_count(value: int, least: int = 1) -> int:
    what = "the number of candidates or readings must be"
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} an int, not {type(value).__name__}: {value!r}") from None
    if count < least:
        raise ValueError(f"{what} {least} or more, not {value}")
    return count
