"""The types of the records in a model's folder, which are checked whoever wrote them.

The settings in a record are those of `config.py`, which says what each may be.
"""

from __future__ import annotations

import json
import math
from typing import Any, NotRequired, TypedDict

from hanlattice.checks import check_value
from hanlattice.evaluation.platt import Curve

# How deep JSON may be nested, and the first integer that is too large.
DEEPEST = 32
LARGEST = 1 << 63


class CorpusRecord(TypedDict):
    """A corpus that a model was trained or scored on."""

    file: str
    sha256: str
    sentences: int
    characters: int
    spans: int


class PackingRecord(TypedDict):
    precision: str
    before: NotRequired[list[str]]
    about: NotRequired[str]


class StartRecord(TypedDict):
    """The model that a training began with."""

    model: str
    version: str | None
    before: NotRequired[StartRecord]


class DataRecord(TypedDict, total=False):
    """Where a model came from; further facts may stand beside."""

    train: CorpusRecord
    more: CorpusRecord
    dev: CorpusRecord
    test: CorpusRecord
    vectors: dict[str, str]
    packed: PackingRecord
    start: StartRecord


class ScoreRecord(TypedDict):
    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


class RecallRecord(TypedDict):
    recall: float | None
    gold: int
    correct: int
    rate: NotRequired[float]


class WordScoresRecord(TypedDict):
    """The scores of a segmenter."""

    bakeoff: ScoreRecord
    oov: RecallRecord | None
    iv: RecallRecord | None
    spans: ScoreRecord
    boundaries: ScoreRecord
    by_length: dict[str, ScoreRecord]
    worst: NotRequired[list[Any]]


class ReportRecord(TypedDict):
    overall: ScoreRecord
    by_type: dict[str, ScoreRecord]
    groups: NotRequired[dict[str, ScoreRecord]]
    segmentation: NotRequired[WordScoresRecord]


class ReportsRecord(TypedDict):
    dev: NotRequired[ReportRecord]
    test: NotRequired[ReportRecord]


class CalibrationRecord(TypedDict):
    """What makes a score as often right as it says, and the text on which that was found."""

    curves: dict[str, Curve]
    fitted: list[CorpusRecord]


class ScoresRecord(ReportsRecord, total=False):
    """In the metadata of the weights; further facts may stand beside."""

    epoch: int
    threshold: float
    calibration: CalibrationRecord
    before_packing: ReportsRecord


class SegmenterRecord(TypedDict):
    name: str
    version: str | None


class ModelRecord(TypedDict):
    """config.json."""

    format: int
    # `make_config` checks the settings.
    config: dict[str, dict[str, Any]]
    tags: list[str]
    scheme: str
    data: DataRecord
    files: dict[str, str]
    segmenter: NotRequired[SegmenterRecord]


def parse(text: str | bytes, kind: Any, place: str = "") -> Any:
    """Read a value of JSON of this type; a ValueError names what does not fit."""
    value = load_json(text)
    check_value(value, kind, place)
    return value


def load_json(text: str | bytes) -> Any:
    """Read a value of JSON; a ValueError refuses NaN, large numbers and deep nesting."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from None
    # A stack instead of recursion, which deep nesting would exhaust.
    rest = [(value, 0)]
    while rest:
        part, depth = rest.pop()
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if isinstance(part, int | float):
            # 1e999 is read as infinity.
            if not abs(part) < (LARGEST if isinstance(part, int) else math.inf):
                raise ValueError("it has a number that is too large")
        elif isinstance(part, dict | list):
            items = part.values() if isinstance(part, dict) else part
            rest += [(item, depth + 1) for item in items]
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"it has {name}, which is no number")
