"""Numbers that a caller gives: each parameter takes what lies in its bounds, and refuses the rest
in words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.checks import brief, check_count, check_number, check_value, read_json
from hanlattice.errors import InputError
from hanlattice.predict import Predictor, load
from hanlattice.text.dictionary import Entry
from hanlattice.text.sentence import Sentence, SoftLabel

TEXT = "王小明去了南湖"
INT_TYPES = [int, np.int64, np.int32, np.uint64]
FLOAT_TYPES = [float, np.float64, np.float32, np.float16]
# By the name of a test: no parameter takes one of these.
HOSTILE: dict[str, Any] = {
    "401 digits": 10**400,
    "-401 digits": -(10**400),
    "5001 digits": 10**5000,
    "2**63": 2**63,
    "nan": math.nan,
    "numpy's nan": np.float32("nan"),
    "true": True,
    "numpy's true": np.True_,
    "a string": "one",
    "bytes": b"1",
    "complex": 1j,
    "a list": [1],
    "an array": np.array([0, 1]),
    "a dict": {},
    "a fraction": Fraction(10**400),
    "a decimal": Decimal(1),
    "an object": object(),
    "a deep list": json.loads("[" * 300 + "]" * 300),
}


@pytest.fixture(scope="module")
def tagger(lattice_folder: Path) -> Predictor:
    return load(lattice_folder)


# How each number of the Python API is given.
NUMBERS: dict[str, Callable[[Predictor, Any], object]] = {
    "trust": lambda tagger, value: setattr(tagger, "trust", value),
    "Predictor(trust)": lambda tagger, value: Predictor(tagger.model, trust=value),
    "Predictor(limit)": lambda tagger, value: Predictor(tagger.model, limit=value),
    "Predictor(decode)": lambda tagger, value: Predictor(tagger.model, decode=value),
    "min_score": lambda tagger, value: tagger(TEXT, min_score=value),
    "min_score of a list": lambda tagger, value: tagger([TEXT], min_score=value),
    "pipe(batch_size)": lambda tagger, value: tagger.pipe([TEXT], value),
    "pipe(min_score)": lambda tagger, value: tagger.pipe([TEXT], min_score=value),
    "pipe(candidates)": lambda tagger, value: tagger.pipe([TEXT], candidates=value),
    "candidates(n)": lambda tagger, value: tagger.candidates(TEXT, value),
    "candidates(min_score)": lambda tagger, value: tagger.candidates(TEXT, 1, value),
    "readings(n)": lambda tagger, value: tagger.readings(TEXT, value),
    "analyse(min_score)": lambda tagger, value: tagger.analyse(TEXT, min_score=value),
    "analyse_pipe(batch_size)": lambda tagger, value: tagger.analyse_pipe([TEXT], value),
    "analyse_pipe(min_score)": lambda tagger, value: tagger.analyse_pipe([TEXT], min_score=value),
    "lexicon.add(trust)": lambda tagger, value: tagger.lexicon.add("南湖", "LOC", value),
    "lexicon.update": lambda tagger, value: tagger.lexicon.update([Entry("南湖", "LOC", value)]),
    "Entry": lambda _, value: Entry("南湖", "LOC", value).checked(),
    "Sentence(doubts)": lambda _, value: Sentence("南湖", soft_labels=(SoftLabel(0, "O", value),)),
}


@pytest.mark.parametrize("wrong", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_of_the_library_takes_it(tagger: Predictor, name: str, wrong: object) -> None:
    with pytest.raises((TypeError, ValueError, InputError)) as caught:
        NUMBERS[name](tagger, wrong)
    message = str(caught.value)
    assert "must be" in message
    assert "\n" not in message
    assert len(message) < 400


@given(
    value=st.integers()
    | st.floats()
    | st.fractions()
    | st.sampled_from([10**400, -(10**400), 10**5000]),
    least=st.integers(-9, 0),
    most=st.integers(0, 9),
)
def test_a_number_is_taken_where_it_lies_in_its_bounds(value: Any, least: int, most: int) -> None:
    is_inside = value == value and Fraction(least) <= _exact(value) <= Fraction(most)
    if is_inside:
        assert check_number(value, "n", least, most) == float(value)
    else:
        with pytest.raises(ValueError, match=f"^n must be from {least} to {most}, not "):
            check_number(value, "n", least, most)
    is_infinite = isinstance(value, float) and math.isinf(value)
    if is_inside or is_infinite:
        assert check_number(value, "n", least, most, or_infinite=True) == float(value)
    else:
        with pytest.raises(ValueError, match=", inf or -inf, not "):
            check_number(value, "n", least, most, or_infinite=True)


def _exact(value: Any) -> Fraction:
    """The number, or one beyond all bounds in place of an infinity."""
    is_infinite = isinstance(value, float) and math.isinf(value)
    return Fraction(10**9 if value > 0 else -(10**9)) if is_infinite else Fraction(value)


@given(st.integers(-5, 2**70), st.sampled_from([*INT_TYPES, *FLOAT_TYPES]))
def test_numbers_of_every_type(value: int, kind: Any) -> None:
    try:
        with np.errstate(over="ignore"):
            number = kind(value)
    except OverflowError:
        return
    if isinstance(number, (float, np.floating)):
        with pytest.raises(TypeError, match="n must be an int, not "):
            check_count(number, "n")
    elif 1 <= int(number) < 2**31:
        assert check_count(number, "n") == int(number)
        assert type(check_count(number, "n")) is int
    else:
        with pytest.raises(
            ValueError,
            match=f"n must be {'1 or more' if int(number) < 1 else f'{2**31 - 1} or less'}",
        ):
            check_count(number, "n")
    if 0 <= float(number) <= 1000:
        assert check_number(number, "n", 0, 1000) == float(number)


some_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(some_json)
def test_json_is_what_python_reads(value: Any) -> None:
    text = json.dumps(value)
    assert repr(read_json(text)) == repr(json.loads(text))
    assert len(brief(value)) < 200


@given(st.text() | some_json.map(json.dumps).flatmap(lambda text: st.just(text[:-1])))
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"^not JSON: "):
            read_json(text)
    else:
        assert repr(read_json(text)) == repr(expected)


@pytest.mark.parametrize(
    "text", ["[" * 10**6, '{"a":' * 10**6, "9" * 5000, "[-" + "9" * 5000 + "]"]
)
def test_json_that_is_too_deep_or_has_too_many_digits(text: str) -> None:
    with pytest.raises(ValueError, match=r"^not JSON.*(nested too deeply|thousands of digits)$"):
        read_json(text)


@dataclass
class Size:
    width: float = field(metadata={"check": "positive"})
    unit: str = field(default="cm", metadata={"choices": ("cm", "inch")})


class Box(TypedDict):
    sizes: list[Size]
    note: NotRequired[str | None]


class Facts(TypedDict, total=False):
    boxes: dict[str, Box]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, ""),
        (
            {
                "boxes": {
                    "a": {"sizes": [{"width": 3}, {"width": 0.5, "unit": "inch"}], "note": None}
                }
            },
            "",
        ),
        ({"further": object()}, ""),
        ([], "it must be an object, not []"),
        ({"boxes": {"a": {}}}, "boxes.a.sizes is missing"),
        ({"boxes": {"a": {"sizes": {}}}}, "boxes.a.sizes must be a list, not {}"),
        ({"boxes": {"a": {"sizes": [], "note": 3}}}, "boxes.a.note must be a string, not 3"),
        (
            {"boxes": {"a": {"sizes": [], "n\n": 3}}},
            "boxes.a.n\\n is unknown; known are sizes, note",
        ),
        ({"boxes": {"a": {"sizes": [{}]}}}, "boxes.a.sizes[0].width is missing"),
        (
            {"boxes": {"a": {"sizes": [{"width": True}]}}},
            "boxes.a.sizes[0].width must be a number, not True",
        ),
        (
            {"boxes": {"a": {"sizes": [{"width": 0.0}]}}},
            "boxes.a.sizes[0].width must be above 0, not 0.0",
        ),
        (
            {"boxes": {"a": {"sizes": [{"width": 2**53}]}}},
            f"boxes.a.sizes[0].width must be a number, not {2**53}",
        ),
        (
            {"boxes": {"a": {"sizes": [{"width": 1, "unit": "inc"}]}}},
            "boxes.a.sizes[0].unit must be one of cm, inch (did you mean inch?), not 'inc'",
        ),
    ],
)
def test_a_record_is_what_its_type_says(value: Any, says: str) -> None:
    if says:
        with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
            check_value(value, Facts)
    else:
        check_value(value, Facts)
