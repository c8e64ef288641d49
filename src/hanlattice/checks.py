"""Check values that a caller or a file gives: numbers, JSON, settings. Errors quote them."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import operator
import types
import typing
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from numbers import Real
from reprlib import Repr
from typing import Any, NotRequired, get_args, get_origin

from hanlattice.encodings import find_encoding
from hanlattice.errors import one_line

Rules = Mapping[str, Any]

# The largest count, which every array and every C library takes.
WHOLE_MOST = 2**31 - 1
# The largest vector or state, so that a damaged folder cannot ask for all of the memory.
WIDEST = 1 << 16
MOST_LAYERS = 64
# What `check` in the metadata of a dataclass field stands for: a test, and what the value must be.
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "": (lambda v: True, ""),
    "positive": (lambda v: 0 < v < float("inf"), "above 0"),
    "size": (lambda v: 0 < v <= WIDEST, f"from 1 to {WIDEST:,}"),
    "layers": (lambda v: 0 < v <= MOST_LAYERS, f"from 1 to {MOST_LAYERS}"),
    "even": (lambda v: 0 < v <= WIDEST and v % 2 == 0, f"an even number from 2 to {WIDEST:,}"),
    "count": (lambda v: 0 <= v < float("inf"), "0 or more"),
    "share": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
    "factor": (lambda v: 0 < v <= 1, "above 0 and at most 1"),
    "half": (lambda v: 0 <= v <= 0.5, "at least 0 and at most 0.5"),
    "percent": (lambda v: 0 <= v <= 100, "from 0 to 100"),
    "encoding": (lambda v: bool(find_encoding(v)), "auto, or an encoding such as gb18030 or big5"),
    "slope": (lambda v: 0.01 <= v <= 100, "from 0.01 to 100"),
    "offset": (lambda v: -100 <= v <= 100, "from −100 to 100"),
    "segmenter": (bool, "rjieba, gold, seg or the folder of a segmentation model"),
    "seed": (lambda v: 0 <= v < 1 << 63, "from 0 to 2⁶³ − 1"),
    "names": (lambda v: all(type(name) is str for name in v.values()), "a table of names"),
}
_TYPES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
_TYPES |= {dict: "an object", list: "a list"}
# Characters of a string that an error quotes.
_QUOTED = 80
_NO_RULES: Rules = types.MappingProxyType({})

hints_of = cache(typing.get_type_hints)
_short = Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxlong = _short.maxother = _QUOTED


def brief(value: object) -> str:
    """Return the value as Python writes it, shortened where it is long."""
    try:
        text = _short.repr(value)
    # Python refuses to write a whole number of more than 4,300 digits.
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 2 * _QUOTED else f"{text[: 2 * _QUOTED]}…"


def check_number(
    value: object, name: str, least: float = 0.0, most: float = 1.0, or_infinite: bool = False
) -> float:
    """Return a number as a float, or raise if it does not lie from `least` to `most`.

    NaN and numbers outside are a ValueError, booleans, strings and the like a TypeError. With
    `or_infinite` the number may also be ∞ or −∞.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}: {brief(value)}")
    number: Any = value
    if not (least <= number <= most or (or_infinite and number in (math.inf, -math.inf))):
        bounds = f"from {least:g} to {most:g}{', inf or -inf' if or_infinite else ''}"
        raise ValueError(f"{name} must be {bounds}, not {brief(value)}")
    return float(number)


def check_count(value: object, name: str, least: int = 1, most: int = WHOLE_MOST) -> int:
    """Return a whole number as an int, or raise if it does not lie from `least` to `most`.

    Numbers outside are a ValueError, booleans, floats, strings and the like a TypeError.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        # NumPy's integers have `__index__`, floats have not.
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{name} must be an int, not {kind}: {brief(value)}") from None
    if not least <= count <= most:
        bound = f"{least} or more" if count < least else f"{most} or less"
        raise ValueError(f"{name} must be {bound}, not {brief(count)}")
    return count


def check_value(value: Any, kind: Any, name: str = "", rules: Rules = _NO_RULES) -> None:
    """Raise a ValueError if a value of JSON or TOML does not have this type, or breaks its rules.

    Args:
        kind: The type. An object is a dict, a dataclass or a TypedDict; in a TypedDict with
            `total=False` no key is required, and unknown keys are allowed.
        name: What the error calls the value.
        rules: The metadata of a dataclass field. `check` is a name in RULES, `choices` a tuple.
    """
    # Every union in the checked types is `X | None`.
    if isinstance(kind, types.UnionType):
        kind = types.NoneType if value is None else get_args(kind)[0]
    # A larger whole number is not the same number as a float.
    if kind is float and type(value) is int and abs(value) < 1 << 53:
        value = float(value)
    is_record = typing.is_typeddict(kind) or dataclasses.is_dataclass(kind)
    plain = dict if is_record else get_origin(kind) or kind
    if expected := _expected(value, plain, rules):
        raise ValueError(f"{name or 'it'} must be {expected}, not {brief(value)}")
    prefix = f"{name}." if name else ""
    if is_record:
        _check_keys(value, kind, prefix)
    elif plain is dict:
        for key, item in value.items():
            check_value(item, get_args(kind)[1], prefix + key)
    elif plain is list:
        for index, item in enumerate(value):
            check_value(item, get_args(kind)[0], f"{name}[{index}]")


def _expected(value: Any, plain: Any, rules: Rules) -> str:
    """Return what the value itself must be, "" if it is right; its items are not looked at."""
    is_good, words = RULES[rules.get("check", "")]
    if plain is not Any and type(value) is not plain:
        # The words of a rule for tables already say "a table of …".
        return (plain is dict and words) or _TYPES[plain]
    choices = rules.get("choices")
    if choices and value not in choices:
        close = difflib.get_close_matches(value, choices, 1)
        return f"one of {', '.join(choices)}" + (f" (did you mean {close[0]}?)" if close else "")
    return "" if is_good(value) else words


def _check_keys(record: Mapping[str, Any], kind: Any, prefix: str) -> None:
    is_dataclass = dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)} if is_dataclass else {}
    hints = hints_of(kind)
    is_open = not getattr(kind, "__total__", True)
    # Without the extras, `get_type_hints` drops the mark NotRequired.
    for key, hint in sorted(hints_of(kind, include_extras=True).items()):
        # Both are MISSING in a field without a default.
        has_default = key in fields and fields[key].default is not fields[key].default_factory
        if key not in record and not (is_open or has_default or get_origin(hint) is NotRequired):
            raise ValueError(f"{prefix}{key} is missing")
    for key, item in record.items():
        if key in hints:
            rules = fields[key].metadata if is_dataclass else _NO_RULES
            check_value(item, hints[key], prefix + key, rules)
        elif not is_open:
            raise ValueError(f"{one_line(prefix + key)} is unknown; known are {', '.join(hints)}")


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
    """Return in words why a text is not JSON."""
    if isinstance(error, RecursionError):
        return "not JSON: it is nested too deeply"
    if "integer string conversion" in str(error):
        return "not JSON that can be read: a number has thousands of digits"
    return f"not JSON: {error}"


def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict; a key that comes twice is a ValueError."""
    record = dict(pairs)
    if len(record) != len(pairs):
        twin = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {brief(twin)} comes twice")
    return record


def _no_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads though JSON has no such numbers."""
    raise ValueError(f"{name} is no number in JSON")


_decoder = json.JSONDecoder(object_pairs_hook=no_twins, parse_constant=_no_constant)
