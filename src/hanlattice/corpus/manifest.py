"""The manifest of an output folder: what its outputs were made with, and a line for each that is there, as JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hanlattice.data.jsonl import to_json
from hanlattice.errors import InputError, OutputError, one_line
from hanlattice.files import LOCK, reason, writing

NAME = "manifest.jsonl"
FORMAT = 1
OUTPUT = re.compile(r".+\.\d{12,}-\d{12,}\.[0-9a-f]{8}-[0-9a-f]{8}\.(jsonl|parquet)", re.S | re.A)
PART = re.compile(rf"\.({OUTPUT.pattern}|{re.escape(NAME)})\.[0-9a-f]{{8}}\.part", re.S | re.A)
Record = dict[str, Any]


def is_own(name: str) -> bool:
    """Whether a file of the output folder has a name that only a run gives."""
    return name in (NAME, LOCK) or bool(OUTPUT.fullmatch(name) or PART.fullmatch(name))


def read_manifest(folder: Path) -> tuple[Record | None, dict[str, Record]]:
    """The first line, and the records of outputs by name. A last line that is not whole was cut short by a crash."""
    path = folder / NAME
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return None, {}
    except OSError as error:
        raise InputError(f"cannot read: {reason(error)}", path) from None
    try:
        head, *records = map(json.loads, lines)
        if head["format"] != FORMAT:
            raise InputError(f"its format is {head['format']}, and this hanlattice reads {FORMAT}", path)
        return head, {record["output"]: record for record in records}
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"not a manifest of `hanlattice corpus` ({error}); choose another --out", path) from None


def write_manifest(folder: Path, head: Record, records: Iterable[Record]) -> None:
    with writing(folder / NAME) as file:
        file.writelines(to_json(each) + "\n" for each in (head, *records))


def append_record(folder: Path, record: Record) -> None:
    """Add the record of an output that has just appeared; after this a run does not make it again."""
    try:
        with open(folder / NAME, "a", encoding="utf-8") as file:
            file.write(to_json(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {one_line(folder / NAME)}: {reason(error)}") from None
