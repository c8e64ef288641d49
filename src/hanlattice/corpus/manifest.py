"""The manifest of an output folder, lines of JSON: the settings, then a record of each output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, NotRequired, TypedDict

from hanlattice.checkpoint.schema import load_json
from hanlattice.checks import brief, check_value
from hanlattice.data.formats.jsonl import to_json
from hanlattice.errors import InputError, OutputError, one_line
from hanlattice.files import LOCK, atomic_write, reason

NAME = "manifest.jsonl"
FORMAT = 1
OUTPUT = re.compile(r".+\.\d{12,}-\d{12,}\.[0-9a-f]{8}-[0-9a-f]{8}\.(jsonl|parquet)", re.S | re.A)
PART = re.compile(rf"\.({OUTPUT.pattern}|{re.escape(NAME)})\.[0-9a-f]{{8}}\.part", re.S | re.A)
Record = dict[str, Any]


class NamedFile(TypedDict):
    """A model or dictionary that outputs were made with."""

    name: str
    sha256: str


class Head(TypedDict):
    """The first line: the settings of the outputs, and how many there should be."""

    format: int
    hanlattice: str
    model: NamedFile
    dictionaries: list[NamedFile]
    options: dict[str, Any]
    shards: int
    unreadable: list[str]


class Place(TypedDict):
    """The part of an input that an output was made from."""

    path: str
    encoding: NotRequired[str]
    bytes: NotRequired[list[int]]
    line: NotRequired[int]
    row_groups: NotRequired[list[int]]
    row: NotRequired[int]
    sha256: str


class Output(TypedDict):
    """Every later line: an output and its counts."""

    output: str
    bytes: int
    sha256: str
    input: Place
    rows: int
    broken: int
    characters: int
    spans: int


def is_own(name: str) -> bool:
    """Whether a file in the output folder has a name of the files of a run."""
    return name in (NAME, LOCK) or bool(OUTPUT.fullmatch(name) or PART.fullmatch(name))


def read_manifest(folder: Path) -> tuple[Record | None, dict[str, Record]]:
    """Return the first line (None without a manifest), and the records of outputs by name."""
    path = folder / NAME
    try:
        # What follows the last line end was cut short by a crash.
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return None, {}
    except OSError as error:
        raise InputError(f"cannot read: {reason(error)}", path) from None
    head: Record | None = None
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, 1):
        try:
            record = load_json(line)
            if head is None:
                _check_head(record)
                head = record
            else:
                _check_output(record)
                if record["output"] in records:
                    raise ValueError(f"output {one_line(record['output'])} comes twice")
                records[record["output"]] = record
        except ValueError as error:
            message = f"not a manifest of `hanlattice corpus` ({error}); choose another --out"
            raise InputError(message, path, number) from None
    if head is None:
        raise InputError("it is empty; choose another --out", path)
    return head, records


def _check_head(head: Record) -> None:
    version = head.get("format") if isinstance(head, dict) else None
    if version != FORMAT:
        raise ValueError(f"its format is {brief(version)}, and this hanlattice reads {FORMAT}")
    check_value(head, Head)
    _check_numbers(head)


def _check_output(record: Record) -> None:
    check_value(record, Output)
    _check_numbers(record)
    _check_numbers(record["input"])
    for name in ("bytes", "row_groups"):
        if len(record["input"].get(name, (0, 0))) != 2:
            raise ValueError(f"input.{name} must be two numbers")
    path = PurePosixPath(record["output"])
    # Outputs are read and removed by this name, so it must not lead out of the folder.
    leaves = path.is_absolute() or ".." in path.parts or "\0" in str(path)
    if leaves or not OUTPUT.fullmatch(path.name):
        raise ValueError(f"{brief(str(path))} is not the name of an output")


def _check_numbers(record: Record) -> None:
    for name, value in record.items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and number < 0:
                raise ValueError(f"{name} must be 0 or more, not {number}")


def write_manifest(folder: Path, head: Record, records: Iterable[Record]) -> None:
    with atomic_write(folder / NAME) as file:
        file.writelines(to_json(record) + "\n" for record in (head, *records))


def append_record(folder: Path, record: Record) -> None:
    """Append the record of a new output, which a resumed run then does not make again."""
    try:
        with open(folder / NAME, "a", encoding="utf-8") as file:
            file.write(to_json(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {one_line(folder / NAME)}: {reason(error)}") from None
