"""Checks of what a caller or a file gives: numbers, counts and JSON; errors quote a little of it."""

from __future__ import annotations

import json
import math
import operator
from collections import Counter
from numbers import Real
from reprlib import Repr
from typing import Any

WHOLE_MOST = 2**31 - 1  # of a count: every array and every C library takes it
_QUOTED = 80  # characters

_short = Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxlong = _short.maxother = _QUOTED


def brief(value: object) -> str:
    """Return the value as Python writes it, shortened where it is long."""
    try:
        text = _short.repr(value)
    except ValueError:  # Python writes no whole number of more than some thousand digits
        return "a number of thousands of digits"
    return text if len(text) <= 2 * _QUOTED else f"{text[: 2 * _QUOTED]}…"


def check_number(value: object, name: str, least: float = 0.0, most: float = 1.0, or_infinite: bool = False) -> float:
    """Return the number as a float if it lies in these finite bounds.

    With `or_infinite` it may also be ∞ or −∞. Booleans, strings and the like are a TypeError, NaN
    and numbers outside a ValueError.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}: {brief(value)}")
    number: Any = value
    is_infinite = number in (math.inf, -math.inf)
    if not (least <= number <= most or (or_infinite and is_infinite)):
        infinite = ", inf or -inf" if or_infinite else ""
        expected = f"from {least:g} to {most:g}{infinite}"
        raise ValueError(f"{name} must be {expected}, not {brief(value)}")
    return float(number)


def check_count(value: object, name: str, least: int = 1, most: int = WHOLE_MOST) -> int:
    """Return the whole number as an int if it lies in these bounds.

    Booleans, floats, strings and the like are a TypeError, numbers outside a ValueError.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}: {brief(value)}") from None
    if count < least:
        raise ValueError(f"{name} must be {least} or more, not {brief(count)}")
    if count > most:
        raise ValueError(f"{name} must be {most} or less, not {brief(count)}")
    return count


def read_json(text: str) -> Any:
    """Return the value of a JSON text; whatever is wrong with it is a ValueError."""
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(json_problem(error)) from None


def read_json_part(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that begins at `start`, and where it ends; else a ValueError."""
    try:
        return _decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise ValueError(json_problem(error)) from None


def json_problem(error: Exception) -> str:
    """Return in words what was wrong with a JSON text."""
    if isinstance(error, RecursionError):
        return "not JSON: it is nested too deeply"
    if "integer string conversion" in str(error):
        return "not JSON that can be read: a number has thousands of digits"
    return f"not JSON: {error}"


def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object, none of whose keys may come twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        twin = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {brief(twin)} comes twice")
    return record


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


_decoder = json.JSONDecoder(object_pairs_hook=no_twins, parse_constant=_no_constant)
