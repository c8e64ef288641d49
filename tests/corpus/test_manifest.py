"""A damaged manifest is refused with the number of the line, before anything is read or removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.corpus.manifest import FORMAT, NAME, read_manifest, write_manifest
from hanlattice.errors import InputError

HEAD: dict[str, Any] = {
    "format": FORMAT,
    "hanlattice": "1.0",
    "model": {"name": "ner", "sha256": "0" * 64},
    "dictionaries": [{"name": "words.txt", "sha256": "1" * 64}],
    "options": {"field": "text", "trust": None},
    "shards": 1,
    "unreadable": ["d.txt.gz"],
}
OUTPUT = "a/b.txt.000000000000-000000000009.01234567-89abcdef.jsonl"
INPUT = {"path": "a/b.txt", "bytes": [0, 9], "line": 1, "sha256": "2" * 64}
RECORD: dict[str, Any] = {
    "output": OUTPUT,
    "bytes": 20,
    "sha256": "3" * 64,
    "input": INPUT,
    "rows": 1,
    "broken": 0,
    "characters": 3,
    "spans": 0,
}
DAMAGED: dict[str, dict[str, Any]] = {
    "an output that is no string": {"output": 5},
    "an output outside": {"output": f"../{OUTPUT}"},
    "an output elsewhere": {"output": f"/tmp/{OUTPUT}"},
    "an output with another name": {"output": "a.txt"},
    "a NUL in the name": {"output": f"a\0{OUTPUT}"},
    "no number of bytes": {"bytes": None},
    "a number as text": {"rows": "1"},
    "a fraction": {"rows": 0.5},
    "a truth value": {"broken": True},
    "a negative number": {"characters": -1},
    "a number without end": {"spans": 10**400},
    "an input that is a list": {"input": []},
    "an input without a path": {"input": {**INPUT, "path": None}},
    "a place of three numbers": {"input": {**INPUT, "bytes": [0, 1, 2]}},
    "a place that is none": {"input": {**INPUT, "bytes": [{}, 1]}},
    "one key more": {"colour": 1},
}


def write_lines(folder: Path, *lines: str) -> None:
    (folder / NAME).write_text("".join(line + "\n" for line in lines), "utf-8")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_manifest(tmp_path, HEAD, [RECORD])
    assert read_manifest(tmp_path) == (HEAD, {OUTPUT: RECORD})


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_is_refused_with_its_line(tmp_path: Path, change: dict[str, Any]) -> None:
    write_lines(tmp_path, json.dumps(HEAD), json.dumps(RECORD), json.dumps({**RECORD, **change}))
    with pytest.raises(InputError, match=rf"{NAME}:3: ") as error:
        read_manifest(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", RECORD)
def test_a_record_that_lacks_something_is_refused(tmp_path: Path, key: str) -> None:
    record = {name: value for name, value in RECORD.items() if name != key}
    write_lines(tmp_path, json.dumps(HEAD), json.dumps(record))
    with pytest.raises(InputError, match=rf"{NAME}:2: .*{key}"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "change", [{"shards": "1"}, {"shards": -1}, {"options": []}, {"model": 1}, {"unreadable": [1]}]
)
def test_a_damaged_first_line_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    write_lines(tmp_path, json.dumps({**HEAD, **change}), json.dumps(RECORD))
    with pytest.raises(InputError, match=rf"{NAME}:1: "):
        read_manifest(tmp_path)


def test_an_output_that_comes_twice_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path, json.dumps(HEAD), json.dumps(RECORD), json.dumps(RECORD))
    with pytest.raises(InputError, match=rf"{NAME}:3: .*comes twice"):
        read_manifest(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(line=st.integers(0, 1), key=st.sampled_from([*HEAD, *RECORD]), value=json_values)
def test_whatever_stands_in_a_record_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, line: int, key: str, value: Any
) -> None:
    folder = tmp_path_factory.mktemp("manifest")
    rows = [dict(HEAD), dict(RECORD)]
    rows[line][key] = value
    write_lines(folder, *(json.dumps(row) for row in rows))
    try:
        head, records = read_manifest(folder)
    except InputError as error:
        message = str(error)
        assert "\n" not in message
        return
    assert head is not None
    assert head["shards"] >= 0
    assert all(record["rows"] >= 0 for record in records.values())
