"""What the records of a folder may hold, whoever wrote them: values of types; all else is refused by its name.

The settings in a record are those of `config.py`, which says what each may be.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, NotRequired, TypedDict, get_args, get_origin

from hanlattice.config import CHECKS, TYPES
from hanlattice.errors import one_line
from hanlattice.evaluation.platt import Curve

DEEPEST, LARGEST = 32, 1 << 63


class Part(TypedDict):
    """A corpus that a model was trained or scored on."""

    file: str
    sha256: str
    sentences: int
    characters: int
    spans: int


class Packed(TypedDict):
    precision: str
    before: NotRequired[list[str]]
    about: NotRequired[str]


class Start(TypedDict):
    """The model that a training began with."""

    model: str
    version: str | None
    before: NotRequired[Start]


class Data(TypedDict):
    """Where a model came from; further facts may stand beside."""

    train: NotRequired[Part]
    more: NotRequired[Part]
    dev: NotRequired[Part]
    test: NotRequired[Part]
    vectors: NotRequired[dict[str, str]]
    packed: NotRequired[Packed]
    start: NotRequired[Start]


class Score(TypedDict):
    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


class Recall(TypedDict):
    recall: float | None
    gold: int
    correct: int
    rate: NotRequired[float]


class Words(TypedDict):
    """The scores of a segmenter."""

    bakeoff: Score
    oov: Recall | None
    iv: Recall | None
    spans: Score
    boundaries: Score
    by_length: dict[str, Score]
    worst: NotRequired[list[Any]]


class Report(TypedDict):
    overall: Score
    by_type: dict[str, Score]
    groups: NotRequired[dict[str, Score]]
    segmentation: NotRequired[Words]


class Reports(TypedDict):
    dev: NotRequired[Report]
    test: NotRequired[Report]


class Calibration(TypedDict):
    """What makes a score as often right as it says, and the text on which that was found."""

    curves: dict[str, Curve]
    fitted: list[Part]


class Scores(Reports):
    """In the metadata of the weights; further facts may stand beside."""

    epoch: NotRequired[int]
    bar: NotRequired[float]
    calibration: NotRequired[Calibration]
    before_packing: NotRequired[Reports]


class Segmenter(TypedDict):
    name: str
    version: str | None


class ModelRecord(TypedDict):
    """config.json."""

    format: int
    config: dict[str, dict[str, Any]]  # which `make_config` checks
    tags: list[str]
    scheme: str
    data: Data
    files: dict[str, str]
    segmenter: NotRequired[Segmenter]


OPEN = (Data, Scores)
_hints = cache(typing.get_type_hints)


def parse(text: str | bytes, kind: Any, place: str = "") -> Any:
    """A value of JSON, if it is one of this type; a ValueError names what is not."""
    value = load_json(text)
    check(value, kind, place)
    return value


def load_json(text: str | bytes) -> Any:
    """A value of JSON without numbers that are none, too large or too deeply nested; else a ValueError."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    rest = [(value, 0)]
    while rest:
        each, depth = rest.pop()
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if isinstance(each, int | float) and not abs(each) < (LARGEST if isinstance(each, int) else math.inf):
            raise ValueError("it has a number that is too large")
        if isinstance(each, dict | list):
            rest += [(part, depth + 1) for part in (each.values() if isinstance(each, dict) else each)]
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"it has {name}, which is no number")


def check(value: Any, kind: Any, place: str = "") -> None:
    """A ValueError says what `place` must be, unless the value is of this type; a dataclass is a dict in JSON."""
    origin = get_origin(kind)
    if typing.is_typeddict(kind) or is_dataclass(kind):
        _check_keys(value, kind, place)
    elif origin is dict:
        _check_kind(value, dict, place)
        for name, each in value.items():
            check(each, get_args(kind)[1], _named(place, name))
    elif origin is list:
        _check_kind(value, list, place)
        for at, each in enumerate(value):
            check(each, get_args(kind)[0], f"{place}[{at}]")
    elif origin is typing.Union or isinstance(kind, types.UnionType):
        one, none = get_args(kind)  # the only unions are with None
        if value is not none and value is not None:
            check(value, one, place)
    elif kind is not Any:
        _check_kind(value, kind, place)


def _check_keys(value: Any, kind: Any, place: str) -> None:
    _check_kind(value, dict, place)
    hints = _hints(kind)
    rules: dict[str, Mapping[str, Any]] = {}
    required = {name for name, hint in _hints(kind, include_extras=True).items() if get_origin(hint) is not NotRequired}
    if is_dataclass(kind):
        rules = {each.name: each.metadata for each in fields(kind)}
        required = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}
    for name in sorted(required - value.keys()):
        raise ValueError(f"{_named(place, name)} is missing")
    for name, each in value.items():
        where = _named(place, name)
        if name not in hints and kind not in OPEN:
            raise ValueError(f"{one_line(where)} is unknown; known are {', '.join(hints)}")
        if name in hints:
            check(each, hints[name], where)
            is_good, words = CHECKS[rules[name]["check"]] if "check" in rules.get(name, {}) else (_any, "")
            if not is_good(each):
                raise ValueError(f"{where} must be {words}, not {each!r}")


def _any(_: Any) -> bool:
    return True


def _named(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _check_kind(value: Any, kind: type, place: str) -> None:
    if type(value) is not kind and not (kind is float and type(value) is int):
        words = {**TYPES, dict: "an object", list: "a list"}
        raise ValueError(f"{place or 'it'} must be {words[kind]}, not {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
