"""The body of a request: whatever JSON it is, a request or a refusal with a status, and every
number has its bounds.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.predict import load
from hanlattice.server.limits import Limits, RequestError
from hanlattice.server.schema import (
    REQUESTS,
    CheckedRequest,
    ServedModel,
    check_request,
    read_object,
)

TEXT = "王小明去了南湖"
HOSTILE = [
    *(
        "1" + "0" * 400,
        "-1" + "0" * 400,
        "1" + "0" * 5000,
        "1e999",
        "-1e999",
        "NaN",
        "Infinity",
        "-Infinity",
    ),
    *(
        "true",
        "null",
        '"1"',
        '"inf"',
        "[]",
        "[1]",
        "{}",
        "-1",
        "1e308",
        "1.5e4",
        "-0.5",
        "9223372036854775808",
    ),
]
NUMBERS = {
    "min_score": "tag",
    "candidates": "tag",
    "readings": "tag",
    "trust": "tag",
    "layer": "explain",
    "width": "explain",
}
HOSTILE_LABELS = [
    r'"\ud800"',
    r'"A\udfff"',
    '"A B"',
    f'"{"x" * 257}"',
    "0",
    "false",
    "[]",
    "{}",
    "1.5",
    r'"\u0000"',
]


@pytest.fixture(scope="module")
def models(lattice_folder: Path) -> dict[str, ServedModel]:
    return {
        name: ServedModel(name, load(folder))
        for name, folder in (("lattice", lattice_folder), ("seg", "seg"))
    }


def refused(models: dict[str, ServedModel], kind: str, body: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        check_request(read_object(body.encode()), kind, models, Limits())
    assert 400 <= caught.value.status < 500
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400
    json.dumps(caught.value.as_dict(), ensure_ascii=False).encode("utf-8")
    return caught.value


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: f"{value:.20}, {len(value)}")
@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_of_a_request_takes_it(
    models: dict[str, ServedModel], name: str, value: str
) -> None:
    error = refused(models, NUMBERS[name], f'{{"text": "{TEXT}", "{name}": {value}}}')
    assert error.field == name or error.status == 400


@pytest.mark.parametrize(
    "value", [*HOSTILE, '"nan"'], ids=lambda value: f"{value:.20}, {len(value)}"
)
def test_no_trust_of_a_word_takes_it(models: dict[str, ServedModel], value: str) -> None:
    if value in ("null", '"inf"', "-1", "-0.5"):
        return
    entry = f'{{"word": "南湖", "label": "LOC", "trust": {value}}}'
    error = refused(models, "tag", f'{{"text": "{TEXT}", "dictionary": [{entry}]}}')
    assert error.field == "dictionary" or error.status == 400


@pytest.mark.parametrize("label", HOSTILE_LABELS, ids=lambda label: f"{label:.20}")
def test_no_label_of_a_word_takes_it(models: dict[str, ServedModel], label: str) -> None:
    entry = f'{{"word": "南湖", "label": {label}}}'
    assert (
        refused(models, "tag", f'{{"text": "{TEXT}", "dictionary": [{entry}]}}').field
        == "dictionary"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('"trust": 1001', "trust must be a number from 0 to 1000"),
        ('"candidates": 101', "candidates must be a whole number from 0 to 100"),
        ('"candidates": 1.5', "candidates must be a whole number from 0 to 100"),
        ('"scores": 1', "scores: expected true or false, got a whole number"),
        ('"model": null', "model: expected a string, got null"),
        ('"exclude": ["a", {}]', "exclude[1]: expected a string, got an object"),
        ('"dictionary": [{"x": 1}]', "dictionary[0]: object contains unknown field `x`"),
        (
            '"dictionary": [{"word": "a", "label": 1}]',
            "dictionary[0].label: expected a string, got a whole number",
        ),
    ],
)
def test_a_refusal_says_what_is_expected(
    models: dict[str, ServedModel], fields: str, message: str
) -> None:
    assert refused(models, "tag", f'{{"text": "{TEXT}", {fields}}}').message == message


@pytest.mark.parametrize(
    "key",
    [r"\ud800", r"\n" * 500, "x" * 5000, "a of length <= b"],
    ids=["surrogate", "lines", "long", "status"],
)
def test_an_unknown_key_of_a_word_is_refused(models: dict[str, ServedModel], key: str) -> None:
    body = f'{{"text": "{TEXT}", "dictionary": [{{"word": "a", "{key}": 1}}]}}'
    error = refused(models, "tag", body)
    assert (error.status, error.field) == (422, "dictionary")


def test_numbers_in_their_bounds(models: dict[str, ServedModel]) -> None:
    record = {"text": TEXT, "trust": 1000, "candidates": 100.0, "min_score": 1}
    key = check_request(record, "tag", models, Limits()).key
    assert (key.trust, key.n, key.min_score) == (1000.0, 100, 1.0)
    assert type(key.n) is int
    entry = {"word": "南湖", "label": "LOC", "trust": "-inf"}
    (found,) = check_request(
        {"text": TEXT, "dictionary": [entry]}, "tag", models, Limits()
    ).key.dictionary
    assert getattr(found, "trust", None) == -math.inf


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, TEXT, "inf", "seg"])
    | st.text(st.characters(exclude_categories=[]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["word", "label", "trust", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(
    sorted({name for request in REQUESTS.values() for name in request.__struct_fields__} | {"x"})
)


@given(
    kind=st.sampled_from(sorted(REQUESTS)),
    record=st.dictionaries(names, values, max_size=5),
    text=st.booleans(),
)
def test_any_json_is_a_request_or_a_refusal(
    models: dict[str, ServedModel], kind: str, record: dict[str, Any], text: bool
) -> None:
    record = {"text": TEXT, **record} if text else record
    try:
        assert isinstance(check_request(record, kind, models, Limits()), CheckedRequest)
    except RequestError as error:
        assert 400 <= error.status < 500  # noqa: PT017 (others are requests)
        assert len(error.message) < 500  # noqa: PT017


@given(
    st.binary()
    | st.text().map(str.encode)
    | values.map(lambda value: repr(value)[:4000].encode("utf-8", "ignore"))
)
def test_any_bytes_are_an_object_or_a_refusal(body: bytes) -> None:
    try:
        assert isinstance(read_object(body), dict)
    except RequestError as error:
        assert error.status in (400, 422)  # noqa: PT017 (others are objects)
