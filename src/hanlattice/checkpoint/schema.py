"""What the records of a folder may hold, whoever wrote them: values of types; all else is refused by its name.

The settings in a record are those of `config.py`, which says what each may be.
"""

from __future__ import annotations

import json
import math
from typing import Any, NotRequired, TypedDict

from hanlattice.checks import check_value
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


class Data(TypedDict, total=False):
    """Where a model came from; further facts may stand beside."""

    train: Part
    more: Part
    dev: Part
    test: Part
    vectors: dict[str, str]
    packed: Packed
    start: Start


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


class Scores(Reports, total=False):
    """In the metadata of the weights; further facts may stand beside."""

    epoch: int
    bar: float
    calibration: Calibration
    before_packing: Reports


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


def parse(text: str | bytes, kind: Any, place: str = "") -> Any:
    """A value of JSON, if it is one of this type; a ValueError names what is not."""
    value = load_json(text)
    check_value(value, kind, place)
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
