"""From plain dicts to a configuration: what is unknown, of the wrong type or out of bounds is told, all of it."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_origin

from hanlattice.config.settings import Config
from hanlattice.errors import ConfigError

BASE = "base"  # the one key of a file that is no section
TYPES = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "positive": (lambda v: 0 < v < float("inf"), "above 0"),
    "even": (lambda v: v > 0 and v % 2 == 0, "an even number above 0"),
    "count": (lambda v: 0 <= v < float("inf"), "0 or more"),
    "share": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
    "half": (lambda v: 0 <= v <= 0.5, "at least 0 and at most 0.5"),
    "percent": (lambda v: 0 <= v <= 100, "from 0 to 100"),
    "seed": (lambda v: 0 <= v < 1 << 63, "from 0 to 2⁶³ − 1"),
}


def make_config(tree: Mapping[str, Any], source: str = "") -> Config:
    """A configuration from plain dicts; a ConfigError lists everything that is wrong with it."""
    problems: list[str] = []
    config = fill(tree, problems)
    if problems:
        raise ConfigError(problems, source)
    return config


def fill(tree: Mapping[str, Any], problems: list[str]) -> Config:
    """The configuration that is left when everything wrong is passed over, which goes to `problems`."""
    sections = [section.name for section in dataclasses.fields(Config)]
    kinds = typing.get_type_hints(Config)
    made = {}
    for name, value in tree.items():
        if name in sections and isinstance(value, Mapping):
            made[name] = _make_section(kinds[name], name, value, problems)
        elif name in sections:
            problems.append(f"{name} must be a section, [{name}], not {value!r}")
        elif isinstance(value, Mapping):
            problems.append(f"unknown section [{name}]{_nearest(name, sections)}")
        else:
            problems.append(f"unknown key {name}: outside of the sections there is only {BASE}")
    return Config(**made)


def _make_section(kind: type, section: str, values: Mapping[str, Any], problems: list[str]) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    kinds = typing.get_type_hints(kind)
    good = {}
    for name, value in values.items():
        where = f"{section}.{name}"
        if name not in fields:
            problems.append(f"unknown key {where}{_nearest(name, fields)}")
            continue
        if kinds[name] is float and type(value) is int and abs(value) < 1 << 53:
            value = float(value)
        problem = _wrong_type(value, kinds[name]) or _wrong_value(value, fields[name].metadata)
        if problem:
            problems.append(f"{where} {problem}, not {value!r}")
        else:
            good[name] = value
    return kind(**good)


def _wrong_type(value: Any, kind: Any) -> str:
    kinds = get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    return "" if type(value) in kinds else f"must be {' or '.join(TYPES[k] for k in kinds)}"


def _wrong_value(value: Any, rules: Mapping[str, Any]) -> str:
    choices, check = rules.get("choices"), rules.get("check")
    if choices and value not in choices:
        close = difflib.get_close_matches(str(value), choices, 1)
        return f"must be one of {', '.join(choices)}" + (f" (did you mean {close[0]}?)" if close else "")
    if not check:
        return ""
    is_good, words = CHECKS[check]
    return "" if is_good(value) else f"must be {words}"


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1, cutoff=0.5)
    return f": did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
