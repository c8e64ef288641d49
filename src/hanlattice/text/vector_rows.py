"""The rows of a file of vectors: what is wrong with one, and what was found while all of them were read."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError

_NAMED = 3  # broken rows that a notice names one by one
_LARGEST = 3.4028235e38  # what a float32 can hold


class Fault(NamedTuple):
    """What is wrong with a row: `kind` is the same for the same mistake, `message` has what stands there."""

    kind: str
    message: str


NOT_FINITE = Fault("a value is not finite", "a value is not finite")
_NO_WORD = Fault("there is no word", "the word is empty")


@dataclass(frozen=True)
class Contents:
    """What a file was found to hold. The place of a row is its line in text, and its number from 1 in binary."""

    form: str  # text or binary
    header: tuple[int, int] | None  # the count and width that it promises
    rows: int  # broken and repeated ones too
    repeated: int  # rows of a word that an earlier row has
    faults: Mapping[str, Sequence[int]]  # what is wrong → the places where it is

    @property
    def broken(self) -> tuple[tuple[int, str], ...]:
        """(place, what is wrong) of every row that is left out, in the order of the file."""
        return tuple(sorted((place, kind) for kind, places in self.faults.items() for place in places))


class Rows:
    """Gathers rows and decides about each bad one, so that text and binary treat them alike."""

    def __init__(self, path: str | Path, width: int, *, strict: bool) -> None:
        self.path, self.width, self.strict = path, width, strict
        self.words: dict[str, None] = {}
        self.faults: dict[str, array[int]] = {}
        self.count = self.duplicates = 0
        self._row = struct.Struct(f"<{width}f")
        self._chunks: list[bytes] = []
        self._named: list[str] = []

    @property
    def skipped(self) -> int:
        return sum(map(len, self.faults.values()))

    def add(self, word: bytes, values: bytes) -> Fault | None:
        """Keep the row, or say what is wrong with its word. The first of two rows for one word wins."""
        if not word:
            return _NO_WORD
        try:
            name = word.decode("utf-8")
        except UnicodeDecodeError:
            return Fault("the word is not UTF-8", f"the word is not UTF-8: {word[:40]!r}")
        if name in self.words:
            self.duplicates += 1
        else:
            self.words[name] = None
            self._chunks.append(values)
        return None

    def add_text(self, raw: bytes) -> Fault | None:
        """Split from the right by width, for a word may have a blank in it; only ASCII white space separates."""
        fields = raw.rsplit(None, self.width)
        if len(fields) <= self.width:
            found = len(fields) - (not raw[:1].isspace())
            return _NO_WORD if found == self.width else self._miscounted("too few numbers", found)
        extra = fields[0].split()[1:]
        if extra and numbers(extra) is not None:
            return self._miscounted("too many numbers", self.width + len(extra))
        values = numbers(fields[1:])
        if values is None:
            wrong = next(field for field in fields[1:] if numbers([field]) is None)
            return Fault("not a number", f"{wrong.decode('utf-8', 'replace')[:40]!r} is not a number")
        if not math.hypot(*values) < _LARGEST and not all(abs(value) < _LARGEST for value in values):
            return NOT_FINITE
        return self.add(fields[0].strip(), self._row.pack(*values))

    def _miscounted(self, kind: str, found: int) -> Fault:
        return Fault(kind, f"expected a word and {self.width} numbers, found {found} numbers")

    def reject(self, fault: Fault, place: int, where: str, line: int | None = None) -> None:
        if self.strict:
            raise InputError(fault.message if line else f"{where}: {fault.message}", self.path, line)
        self.faults.setdefault(fault.kind, array("q")).append(place)
        if len(self._named) < _NAMED:
            self._named.append(f"{where}: {fault.message}")

    def table(self) -> tuple[tuple[str, ...], npt.NDArray[np.float32]]:
        """The words and their vectors, [V, E]; that there is none is an error."""
        if not self.words:
            detail = f" ({self._named[0]})" if self._named else ""
            raise InputError(f"no row of it is a word and its vector{detail}", self.path)
        flat = np.frombuffer(bytearray().join(self._chunks), dtype="<f4")
        return tuple(self.words), flat.reshape(-1, self.width).astype(np.float32, copy=False)

    def notices(self) -> list[str]:
        told = []
        if self.skipped:
            more = "" if self.skipped <= _NAMED else f"; and {self.skipped - _NAMED} more"
            told.append(f"{self.path}: skipped {self.skipped} broken rows: {'; '.join(self._named)}{more}")
        if self.duplicates:
            told.append(f"{self.path}: {self.duplicates} rows repeat a word; its first row counts")
        return told


def numbers(fields: list[bytes]) -> list[float] | None:
    try:
        values = list(map(float, fields))
    except ValueError:
        return None
    return None if b"_" in b"".join(fields) else values  # Python would read 1_000 as a number
