"""Word vectors: word2vec text (with or without its header line) and word2vec binary, read and written.

A broken row names its line; it is skipped and counted, or refused when `strict`. No torch in here.
"""

from __future__ import annotations

import codecs
import math
import struct
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from hanlattice.errors import InputError
from hanlattice.files import BOM, opening, reason, writing

_SAMPLE = 1 << 16  # bytes that are enough to tell text from binary
_NAMED = 3  # broken rows that a notice names one by one
_WIDEST = 1 << 20  # numbers in a row; more is rubbish that looks like a header
_LONGEST_WORD = 4096  # bytes without a space after which a binary file is taken for rubbish
_LARGEST = 3.4028235e38  # what a float32 can hold
_WHITE = " \t\n\r\v\f"


@dataclass(frozen=True, eq=False)
class Vectors:
    """Row i of `matrix` is the vector of `words[i]`; `skipped` counts the broken rows that were left out."""

    words: tuple[str, ...]
    matrix: npt.NDArray[np.float32]  # [V, E]
    skipped: int = 0
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.words) != len(self.matrix):
            raise ValueError(f"{len(self.words)} words do not fit a matrix of shape {self.matrix.shape}")
        if self.matrix.dtype != np.float32:
            raise ValueError(f"the matrix must be float32, not {self.matrix.dtype}")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])


class _Rows:
    """Gathers rows and decides about each bad one, so that text and binary treat them alike."""

    def __init__(self, path: str | Path, width: int, *, strict: bool) -> None:
        self.path, self.width, self.strict = path, width, strict
        self.row = struct.Struct(f"<{width}f")
        self.words: dict[str, None] = {}
        self.chunks: list[bytes] = []
        self.broken: list[str] = []
        self.count = self.skipped = self.duplicates = 0

    def add(self, word: bytes, values: bytes) -> str | None:
        """Keep the row, or say what is wrong with its word. The first of two rows for one word wins."""
        if not word:
            return "the word is empty"
        try:
            name = word.decode("utf-8")
        except UnicodeDecodeError:
            return f"the word is not UTF-8: {word[:40]!r}"
        if name in self.words:
            self.duplicates += 1
        else:
            self.words[name] = None
            self.chunks.append(values)
        return None

    def reject(self, problem: str, place: str, line: int | None = None) -> None:
        if self.strict:
            raise InputError(problem if line else f"{place}: {problem}", self.path, line)
        self.skipped += 1
        if len(self.broken) < _NAMED:
            self.broken.append(f"{place}: {problem}")

    def vectors(self, notices: list[str]) -> Vectors:
        if not self.words:
            detail = f" ({self.broken[0]})" if self.broken else ""
            raise InputError(f"no row of it is a word and its vector{detail}", self.path)
        if self.skipped:
            more = "" if self.skipped <= _NAMED else f"; and {self.skipped - _NAMED} more"
            notices.append(f"{self.path}: skipped {self.skipped} broken rows: {'; '.join(self.broken)}{more}")
        if self.duplicates:
            notices.append(f"{self.path}: {self.duplicates} rows repeat a word; its first row counts")
        flat = np.frombuffer(bytearray().join(self.chunks), dtype="<f4")
        matrix = flat.reshape(-1, self.width).astype(np.float32, copy=False)
        return Vectors(tuple(self.words), matrix, self.skipped, tuple(notices))


def read_vectors(path: str | Path, *, strict: bool = False) -> Vectors:
    """Read word2vec text or binary, told apart by what is in the file; `.bin` decides where that is not clear.

    A first line of two whole numbers is a header. Without one the width is that of most of the first hundred rows.
    """
    with opening(path) as file:
        try:
            return _read(file, path, strict=strict)
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None


def _read(file: BinaryIO, path: str | Path, *, strict: bool) -> Vectors:
    first = file.readline(_SAMPLE)
    sample = file.read(_SAMPLE)
    header = _header(first)
    if not first.removeprefix(BOM).strip() and not sample.strip():
        raise InputError("the file is empty: expected word2vec text or binary", path)
    if header is not None and not (header[0] > 0 and 0 < header[1] <= _WIDEST):
        raise InputError(f"a header of {header[0]} words of width {header[1]}: no such vectors are to be had", path, 1)
    if header is not None and _is_binary(sample, header[1], str(path).endswith(".bin")):
        file.seek(len(first))
        return _read_binary(file.read(), len(first), path, *header, strict=strict)
    file.seek(0)
    return _read_text(file, path, header, strict=strict)


def write_vectors(path: str | Path, vectors: Vectors, *, binary: bool) -> None:
    """Write word2vec with a header. The file appears whole or not at all; float32 comes back bit for bit."""
    for word in vectors.words:
        if not word or any(character in _WHITE for character in word):
            raise InputError(f"word2vec cannot carry the word {word!r}: it is empty or has white space in it", path)
    row = " %.9g" * vectors.width + "\n"
    with writing(path, binary=True) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, values in zip(vectors.words, vectors.matrix, strict=True):
            tail = b" " + values.astype("<f4").tobytes() + b"\n" if binary else (row % tuple(values.tolist())).encode()
            file.write(_encode(word, path) + tail)


def _encode(word: str, path: str | Path) -> bytes:
    try:
        return word.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"UTF-8 cannot carry the word {word!r}: it has a lone surrogate", path) from None


def _header(line: bytes) -> tuple[int, int] | None:
    fields = line.removeprefix(BOM).split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 16 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def _is_binary(sample: bytes, width: int, hint: bool) -> bool:
    """One good row of text is proof of text; without any, bytes that text has none of, or `.bin`, decide."""
    for line in sample.split(b"\n")[:50]:
        fields = line.rsplit(None, width)
        if len(fields) == width + 1 and _numbers(fields[1:]) is not None:
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


def _read_binary(data: bytes, offset: int, path: str | Path, count: int, width: int, *, strict: bool) -> Vectors:
    """All values are checked at once, which is quick; only when one is not finite are they checked row by row."""
    quick = _binary_rows(data, offset, _Rows(path, width, strict=strict), count, check=False)
    vectors = quick.vectors([])
    if np.isfinite(vectors.matrix).all():
        return vectors
    return _binary_rows(data, offset, _Rows(path, width, strict=strict), count, check=True).vectors([])


def _binary_rows(data: bytes, offset: int, rows: _Rows, count: int, *, check: bool) -> _Rows:
    """Rows are `word, space, width float32`; some writers end each row with a newline and some do not."""
    at, size = 0, 4 * rows.width
    for row in range(1, count + 1):
        if data[at : at + 1] == b"\n":
            at += 1
        space = data.find(b" ", at, at + _LONGEST_WORD)
        end = space + 1 + size
        if space < 0 and len(data) - at >= _LONGEST_WORD:
            raise InputError(f"not word2vec binary: no word at row {row} of {count}, byte {offset + at}", rows.path)
        if space < 0 or end > len(data):
            raise InputError(
                f"cut short: row {row} of {count} begins at byte {offset + at} and does not end", rows.path
            )
        values = data[space + 1 : end]
        bad = check and not np.isfinite(np.frombuffer(values, dtype="<f4")).all()
        problem = "a value is not finite" if bad else rows.add(data[at:space], values)
        if problem:
            rows.reject(problem, f"row {row} (byte {offset + at})")
        at = end
    if data[at:].strip():
        raise InputError(f"{len(data) - at} bytes follow row {count}, the last that the header promises", rows.path)
    return rows


def _read_text(file: BinaryIO, path: str | Path, header: tuple[int, int] | None, *, strict: bool) -> Vectors:
    width = header[1] if header else _guess_width(file, path)
    rows = _Rows(path, width, strict=strict)
    for number, raw in enumerate(file, start=1):
        raw = raw.removeprefix(BOM) if number == 1 else raw
        if (number == 1 and header) or raw.isspace() or not raw:
            continue
        rows.count += 1
        problem = _add_text_row(rows, raw)
        if problem:
            rows.reject(problem, f"line {number}", number)
    notices = []
    if header and header[0] != rows.count:
        problem = f"the header promises {header[0]} rows and there are {rows.count}"
        if strict:
            raise InputError(problem, path, 1)
        notices.append(f"{path}: {problem}")
    return rows.vectors(notices)


def _guess_width(file: BinaryIO, path: str | Path) -> int:
    """The commonest count of numbers at the end of a row; the first field of a row is its word, even when a number."""
    widths: Counter[int] = Counter()
    for raw in islice(file, 100):
        fields = raw.removeprefix(BOM).split()
        tail = 0
        while tail < len(fields) - 1 and _numbers(fields[-1 - tail : len(fields) - tail]) is not None:
            tail += 1
        widths[tail] += bool(tail)
    file.seek(0)
    if not +widths:
        raise InputError(
            "not word vectors: expected rows of a word and its numbers, or a header 'count width'", path, 1
        )
    return widths.most_common(1)[0][0]


def _add_text_row(rows: _Rows, raw: bytes) -> str | None:
    """Split from the right by width, for a word may have a blank in it; only ASCII white space separates."""
    fields = raw.rsplit(None, rows.width)
    if len(fields) <= rows.width:
        found = len(fields) - (not raw[:1].isspace())
        empty = found == rows.width
        return "the word is empty" if empty else f"expected a word and {rows.width} numbers, found {found} numbers"
    head = fields[0].split()
    extra = head[1:]
    if extra and _numbers(extra) is not None:
        return f"expected a word and {rows.width} numbers, found {rows.width + len(extra)} numbers"
    values = _numbers(fields[1:])
    if values is None:
        wrong = next(field for field in fields[1:] if _numbers([field]) is None)
        return f"{wrong.decode('utf-8', 'replace')[:40]!r} is not a number"
    if not math.hypot(*values) < _LARGEST and not all(abs(value) < _LARGEST for value in values):
        return "a value is not finite"
    return rows.add(fields[0].strip(), rows.row.pack(*values))


def _numbers(fields: list[bytes]) -> list[float] | None:
    try:
        values = list(map(float, fields))
    except ValueError:
        return None
    return None if b"_" in b"".join(fields) else values  # Python would read 1_000 as a number
