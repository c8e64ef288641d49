"""Word vectors: word2vec text (with or without its header line) and word2vec binary, read and
written.
"""

from __future__ import annotations

import codecs
import math
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError
from hanlattice.files import BOM, atomic_write, opening, reason

_NAMED = 3  # broken rows that a notice names one by one
_LARGEST = 3.4028235e38  # what a float32 can hold


class Fault(NamedTuple):
    """What is wrong with a row: `kind` is the same for the same mistake, `message` quotes the row."""

    kind: str
    message: str


NOT_FINITE = Fault("a value is not finite", "a value is not finite")
_NO_WORD = Fault("there is no word", "the word is empty")


@dataclass(frozen=True)
class VectorFileSummary:
    """What a file was found to hold. The place of a row is its line in text, and its number from 1
    in binary.
    """

    form: str  # text or binary
    header: tuple[int, int] | None  # the count and width that it promises
    rows: int  # broken and repeated ones too
    repeated: int  # rows of a word that an earlier row has
    faults: Mapping[str, Sequence[int]]  # what is wrong → the places where it is

    @property
    def broken(self) -> tuple[tuple[int, str], ...]:
        """(place, what is wrong) of every row that is left out, in the order of the file."""
        return tuple(
            sorted((place, kind) for kind, places in self.faults.items() for place in places)
        )


class VectorRows:
    """Gathers rows and decides about each bad one, so that text and binary treat them alike."""

    def __init__(self, path: str | Path, width: int, *, strict: bool) -> None:
        self.path = path
        self.width = width
        self.strict = strict
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
        """Keep the row, or say what is wrong with its word. The first of two rows for one word
        wins.
        """
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
        """Split from the right by width, for a word may have a blank in it; only ASCII white space
        separates.
        """
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
            return Fault(
                "not a number", f"{wrong.decode('utf-8', 'replace')[:40]!r} is not a number"
            )
        if not math.hypot(*values) < _LARGEST and not all(
            abs(value) < _LARGEST for value in values
        ):
            return NOT_FINITE
        return self.add(fields[0].strip(), self._row.pack(*values))

    def _miscounted(self, kind: str, found: int) -> Fault:
        return Fault(kind, f"expected a word and {self.width} numbers, found {found} numbers")

    def reject(self, fault: Fault, place: int, where: str, line: int | None = None) -> None:
        if self.strict:
            raise InputError(
                fault.message if line else f"{where}: {fault.message}", self.path, line
            )
        self.faults.setdefault(fault.kind, array("q")).append(place)
        if len(self._named) < _NAMED:
            self._named.append(f"{where}: {fault.message}")

    def table(self) -> tuple[tuple[str, ...], npt.NDArray[np.float32]]:
        """The words and their vectors, [V, E]; an error if there are none."""
        if not self.words:
            detail = f" ({self._named[0]})" if self._named else ""
            raise InputError(f"no row of it is a word and its vector{detail}", self.path)
        flat = np.frombuffer(bytearray().join(self._chunks), dtype="<f4")
        return tuple(self.words), flat.reshape(-1, self.width).astype(np.float32, copy=False)

    def notices(self) -> list[str]:
        notices = []
        if self.skipped:
            more = "" if self.skipped <= _NAMED else f"; and {self.skipped - _NAMED} more"
            notices.append(
                f"{self.path}: skipped {self.skipped} broken rows: {'; '.join(self._named)}{more}"
            )
        if self.duplicates:
            notices.append(
                f"{self.path}: {self.duplicates} rows repeat a word; its first row counts"
            )
        return notices


def numbers(fields: list[bytes]) -> list[float] | None:
    try:
        values = list(map(float, fields))
    except ValueError:
        return None
    return None if b"_" in b"".join(fields) else values  # Python would read 1_000 as a number


_SAMPLE = 1 << 16  # bytes that are enough to tell text from binary
_WIDEST = 1 << 20  # numbers in a row; more is rubbish that looks like a header
_LONGEST_WORD = 4096  # bytes without a space after which a binary file is taken for rubbish
_WHITE = " \t\n\r\v\f"


@dataclass(frozen=True, eq=False)
class Vectors:
    """Row i of `matrix` is the vector of `words[i]`; `skipped` counts the broken rows that were
    left out.
    """

    words: tuple[str, ...]
    matrix: npt.NDArray[np.float32]  # [V, E]
    skipped: int = 0
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.words) != len(self.matrix):
            raise ValueError(
                f"{len(self.words)} words do not fit a matrix of shape {self.matrix.shape}"
            )
        if self.matrix.dtype != np.float32:
            raise ValueError(f"the matrix must be float32, not {self.matrix.dtype}")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        """The numbers in a vector."""
        return int(self.matrix.shape[1])


def read_vectors(path: str | Path, *, strict: bool = False) -> Vectors:
    """Read word2vec text or binary, distinguished by content; `.bin` decides where that is not
    clear.

    A first line of two whole numbers is a header. Without one the width is that of most of the
    first hundred rows.
    """
    return examine_vectors(path, strict=strict)[0]


def examine_vectors(path: str | Path, *, strict: bool = False) -> tuple[Vectors, VectorFileSummary]:
    """`read_vectors`, and what it found in the file: its form and header, and which rows are broken
    or repeated.
    """
    with opening(path) as file:
        try:
            return _read(file, path, strict=strict)
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None


def _read(file: BinaryIO, path: str | Path, *, strict: bool) -> tuple[Vectors, VectorFileSummary]:
    first = file.readline(_SAMPLE)
    sample = file.read(_SAMPLE)
    header = _header(first)
    if not first.removeprefix(BOM).strip() and not sample.strip():
        raise InputError("the file is empty: expected word2vec text or binary", path)
    if header is not None and not (header[0] > 0 and 0 < header[1] <= _WIDEST):
        raise InputError(
            f"a header of {header[0]} words of width {header[1]}: no vectors have such a size",
            path,
            1,
        )
    if header is not None and _is_binary(sample, header[1], str(path).endswith(".bin")):
        file.seek(len(first))
        return _read_binary(file.read(), len(first), path, header, strict=strict)
    file.seek(0)
    return _read_text(file, path, header, strict=strict)


def _finished(
    rows: VectorRows, form: str, header: tuple[int, int] | None, notices: Iterable[str] = ()
) -> tuple[Vectors, VectorFileSummary]:
    words, matrix = rows.table()
    vectors = Vectors(words, matrix, rows.skipped, (*notices, *rows.notices()))
    return vectors, VectorFileSummary(form, header, rows.count, rows.duplicates, rows.faults)


def write_vectors(path: str | Path, vectors: Vectors, *, binary: bool) -> None:
    """Write word2vec with a header. The file appears whole or not at all; float32 comes back bit
    for bit.
    """
    for word in vectors.words:
        if not word or any(character in _WHITE for character in word):
            raise InputError(
                f"word2vec cannot carry the word {word!r}: it is empty or has white space in it",
                path,
            )
    row = " %.9g" * vectors.width + "\n"
    with atomic_write(path, binary=True) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, values in zip(vectors.words, vectors.matrix, strict=True):
            tail = (
                b" " + values.astype("<f4").tobytes() + b"\n"
                if binary
                else (row % tuple(values.tolist())).encode()
            )
            file.write(_encode(word, path) + tail)


def _encode(word: str, path: str | Path) -> bytes:
    try:
        return word.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"UTF-8 cannot carry the word {word!r}: it has a lone surrogate", path
        ) from None


def _header(line: bytes) -> tuple[int, int] | None:
    fields = line.removeprefix(BOM).split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 16 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def _is_binary(sample: bytes, width: int, hint: bool) -> bool:
    """One good row of text is proof of text; without any, bytes that text has none of, or `.bin`,
    decide.
    """
    for line in sample.split(b"\n")[:50]:
        fields = line.rsplit(None, width)
        if len(fields) == width + 1 and numbers(fields[1:]) is not None:
            return False
    return hint or any(byte < 9 or 13 < byte < 32 for byte in sample) or not _is_utf8(sample)


def _is_utf8(sample: bytes) -> bool:
    """Whether it is UTF-8, but for a character that the sample's end may have cut."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def _read_binary(
    data: bytes, offset: int, path: str | Path, header: tuple[int, int], *, strict: bool
) -> tuple[Vectors, VectorFileSummary]:
    """All values are checked at once, which is quick; only when one is not finite are they checked
    row by row.
    """
    count, width = header
    for check in (False, True):
        rows = _binary_rows(
            data, offset, VectorRows(path, width, strict=strict), count, check=check
        )
        found = _finished(rows, "binary", header)
        if np.isfinite(found[0].matrix).all():
            break
    return found


def _binary_rows(
    data: bytes, offset: int, rows: VectorRows, count: int, *, check: bool
) -> VectorRows:
    """Rows are `word, space, width float32`; some writers end each row with a newline and some do
    not.
    """
    at = 0
    size = 4 * rows.width
    for row in range(1, count + 1):
        if data[at : at + 1] == b"\n":
            at += 1
        space = data.find(b" ", at, at + _LONGEST_WORD)
        end = space + 1 + size
        if space < 0 and len(data) - at >= _LONGEST_WORD:
            raise InputError(
                f"not word2vec binary: no word at row {row} of {count}, byte {offset + at}",
                rows.path,
            )
        if space < 0 or end > len(data):
            raise InputError(
                f"cut short: row {row} of {count} begins at byte {offset + at} and does not end",
                rows.path,
            )
        values = data[space + 1 : end]
        bad = check and not np.isfinite(np.frombuffer(values, dtype="<f4")).all()
        fault = NOT_FINITE if bad else rows.add(data[at:space], values)
        if fault:
            rows.reject(fault, row, f"row {row} (byte {offset + at})")
        at = end
    rows.count = count
    if data[at:].strip():
        raise InputError(
            f"{len(data) - at} bytes follow row {count}, the last that the header promises",
            rows.path,
        )
    return rows


def _read_text(
    file: BinaryIO, path: str | Path, header: tuple[int, int] | None, *, strict: bool
) -> tuple[Vectors, VectorFileSummary]:
    width = header[1] if header else _guess_width(file, path)
    rows = VectorRows(path, width, strict=strict)
    for number, raw in enumerate(file, start=1):
        raw = raw.removeprefix(BOM) if number == 1 else raw
        if (number == 1 and header) or raw.isspace() or not raw:
            continue
        rows.count += 1
        fault = rows.add_text(raw)
        if fault:
            rows.reject(fault, number, f"line {number}", number)
    notices = []
    if header and header[0] != rows.count:
        problem = f"the header promises {header[0]} rows and there are {rows.count}"
        if strict:
            raise InputError(problem, path, 1)
        notices.append(f"{path}: {problem}")
    return _finished(rows, "text", header, notices)


def _guess_width(file: BinaryIO, path: str | Path) -> int:
    """The commonest count of numbers at the end of a row; the first field of a row is its word,
    even when a number.
    """
    widths: Counter[int] = Counter()
    for raw in islice(file, 100):
        fields = raw.removeprefix(BOM).split()
        tail = 0
        while (
            tail < len(fields) - 1 and numbers(fields[-1 - tail : len(fields) - tail]) is not None
        ):
            tail += 1
        widths[tail] += bool(tail)
    file.seek(0)
    if not +widths:
        raise InputError(
            "not word vectors: expected rows of a word and its numbers, or a header 'count width'",
            path,
            1,
        )
    return widths.most_common(1)[0][0]
