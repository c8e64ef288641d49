"""Word vectors: read and write word2vec text (with or without a header line) and binary."""

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

# How many broken rows a notice names one by one.
_NAMED = 3
# The largest number that a float32 can hold.
_LARGEST = 3.4028235e38
# Bytes that are enough to tell text from binary.
_SAMPLE = 1 << 16
# Numbers in a row; a header with more is rubbish.
_WIDEST = 1 << 20
# A binary file with so many bytes without a space is taken for rubbish.
_LONGEST_WORD = 4096
_WHITE = " \t\n\r\v\f"


class Fault(NamedTuple):
    """What is wrong with a row: `kind` names the mistake, and `message` quotes the row."""

    kind: str
    message: str


NOT_FINITE = Fault("a value is not finite", "a value is not finite")
_NO_WORD = Fault("there is no word", "the word is empty")


@dataclass(frozen=True)
class VectorFileSummary:
    """What a file holds. The place of a row is its line in text, and its number from 1 in binary.

    Attributes:
        form: "text" or "binary".
        header: The count and width that the header promises.
        rows: The rows, broken and repeated ones too.
        repeated: The rows of a word that an earlier row has.
        faults: What is wrong, and the places where it is.
    """

    form: str
    header: tuple[int, int] | None
    rows: int
    repeated: int
    faults: Mapping[str, Sequence[int]]

    @property
    def broken(self) -> tuple[tuple[int, str], ...]:
        """Return (place, what is wrong) of every row that is left out, in the order of the file."""
        pairs = ((place, kind) for kind, places in self.faults.items() for place in places)
        return tuple(sorted(pairs))


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

    def add(self, word: bytes, values: bytes) -> Fault | None:
        """Keep the row, or return what is wrong. The first of two rows for one word wins."""
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
        """Keep a row of text, or return what is wrong. Only ASCII white space separates."""
        # From the right, for a word may have a blank in it.
        fields = raw.rsplit(None, self.width)
        extra = fields[0].split()[1:] if len(fields) > self.width else []
        count = self.width
        kind = "too few numbers"
        if len(fields) <= self.width:
            count = len(fields) - (not raw[:1].isspace())
            if count == self.width:
                return _NO_WORD
        elif extra and numbers(extra) is not None:
            count += len(extra)
            kind = "too many numbers"
        if count != self.width:
            expected = f"expected a word and {self.width} numbers"
            return Fault(kind, f"{expected}, found {count} numbers")
        values = numbers(fields[1:])
        if values is None:
            wrong = next(field for field in fields[1:] if numbers([field]) is None)
            quoted = repr(wrong.decode("utf-8", "replace")[:40])
            return Fault("not a number", f"{quoted} is not a number")
        # The length of the vector is one call; only where it is too large is each value checked.
        if not math.hypot(*values) < _LARGEST and not all(abs(v) < _LARGEST for v in values):
            return NOT_FINITE
        return self.add(fields[0].strip(), self._row.pack(*values))

    def reject(self, fault: Fault, place: int, where: str, line: int | None = None) -> None:
        """Count a broken row, or raise if the reader is strict."""
        if self.strict:
            message = fault.message if line else f"{where}: {fault.message}"
            raise InputError(message, self.path, line)
        self.faults.setdefault(fault.kind, array("q")).append(place)
        if len(self._named) < _NAMED:
            self._named.append(f"{where}: {fault.message}")

    def finish(
        self, form: str, header: tuple[int, int] | None, notices: Iterable[str] = ()
    ) -> tuple[Vectors, VectorFileSummary]:
        """Return the vectors, and a summary of the file; raise if there are none."""
        if not self.words:
            detail = f" ({self._named[0]})" if self._named else ""
            raise InputError(f"no row of it is a word and its vector{detail}", self.path)
        flat = np.frombuffer(bytearray().join(self._chunks), dtype="<f4")
        matrix = flat.reshape(-1, self.width).astype(np.float32, copy=False)
        skipped = sum(map(len, self.faults.values()))
        notices = list(notices)
        if skipped:
            more = "" if skipped <= _NAMED else f"; and {skipped - _NAMED} more"
            named = f"{'; '.join(self._named)}{more}"
            notices.append(f"{self.path}: skipped {skipped} broken rows: {named}")
        if self.duplicates:
            repeated = f"{self.duplicates} rows repeat a word; its first row counts"
            notices.append(f"{self.path}: {repeated}")
        vectors = Vectors(tuple(self.words), matrix, skipped, tuple(notices))
        return vectors, VectorFileSummary(form, header, self.count, self.duplicates, self.faults)


def numbers(fields: list[bytes]) -> list[float] | None:
    """Return the fields as numbers, or None if one of them is not a number."""
    try:
        values = list(map(float, fields))
    except ValueError:
        return None
    # Python would read 1_000 as a number.
    return None if b"_" in b"".join(fields) else values


@dataclass(frozen=True, eq=False)
class Vectors:
    """Row i of `matrix`, [V, E], is the vector of `words[i]`; `skipped` counts broken rows."""

    words: tuple[str, ...]
    matrix: npt.NDArray[np.float32]
    skipped: int = 0
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.words) != len(self.matrix):
            shape = self.matrix.shape
            raise ValueError(f"{len(self.words)} words do not fit a matrix of shape {shape}")
        if self.matrix.dtype != np.float32:
            raise ValueError(f"the matrix must be float32, not {self.matrix.dtype}")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        return int(self.matrix.shape[1])


def read_vectors(path: str | Path, *, strict: bool = False) -> Vectors:
    """Read word2vec text or binary, told apart by content, or by `.bin` where that is not clear.

    A first line of two whole numbers is a header. Without one, the width is the commonest among
    the first hundred rows.
    """
    return examine_vectors(path, strict=strict)[0]


def examine_vectors(path: str | Path, *, strict: bool = False) -> tuple[Vectors, VectorFileSummary]:
    """Return what `read_vectors` returns, and a summary of the file."""
    with opening(path) as file:
        try:
            first = file.readline(_SAMPLE)
            sample = file.read(_SAMPLE)
            fields = first.removeprefix(BOM).split()
            header = None
            if len(fields) == 2 and all(field.isdigit() and len(field) < 16 for field in fields):
                header = int(fields[0]), int(fields[1])
            if not first.removeprefix(BOM).strip() and not sample.strip():
                raise InputError("the file is empty: expected word2vec text or binary", path)
            if header is not None and not (header[0] > 0 and 0 < header[1] <= _WIDEST):
                promised = f"a header of {header[0]} words of width {header[1]}"
                raise InputError(f"{promised}: no vectors have such a size", path, 1)
            if header is not None and _is_binary(sample, header[1], str(path).endswith(".bin")):
                file.seek(len(first))
                return _read_binary(file.read(), len(first), path, header, strict=strict)
            file.seek(0)
            return _read_text(file, path, header, strict=strict)
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None


def write_vectors(path: str | Path, vectors: Vectors, *, binary: bool) -> None:
    """Write word2vec with a header; float32 comes back bit for bit.

    The file appears whole or not at all.
    """
    for word in vectors.words:
        if not word or any(character in _WHITE for character in word):
            problem = "it is empty or has white space in it"
            raise InputError(f"word2vec cannot carry the word {word!r}: {problem}", path)
    row = " %.9g" * vectors.width + "\n"
    with atomic_write(path, binary=True) as file:
        file.write(f"{len(vectors)} {vectors.width}\n".encode())
        for word, values in zip(vectors.words, vectors.matrix, strict=True):
            try:
                name = word.encode("utf-8")
            except UnicodeEncodeError:
                problem = "it has a lone surrogate"
                raise InputError(f"UTF-8 cannot carry the word {word!r}: {problem}", path) from None
            if binary:
                file.write(name + b" " + values.astype("<f4").tobytes() + b"\n")
            else:
                file.write(name + (row % tuple(values.tolist())).encode())


def _is_binary(sample: bytes, width: int, hint: bool) -> bool:
    """Return whether a file is binary, of which it begins with a sample behind the header.

    One good row of text is proof of text. Without any, bytes that text does not have, or the
    suffix `.bin` (`hint`), decide.
    """
    for line in sample.split(b"\n")[:50]:
        fields = line.rsplit(None, width)
        if len(fields) == width + 1 and numbers(fields[1:]) is not None:
            return False
    if hint or any(byte < 9 or 13 < byte < 32 for byte in sample):
        return True
    try:
        # Incremental, for the end of the sample may cut a character.
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return True
    return False


def _read_binary(
    data: bytes, offset: int, path: str | Path, header: tuple[int, int], *, strict: bool
) -> tuple[Vectors, VectorFileSummary]:
    """Read rows of `word, space, width float32`; some writers end each row with a newline."""
    count, width = header
    size = 4 * width
    # All values are checked at once, which is quick; row by row only when one is not finite.
    for check in (False, True):
        rows = VectorRows(path, width, strict=strict)
        start = 0
        for number in range(1, count + 1):
            if data[start : start + 1] == b"\n":
                start += 1
            space = data.find(b" ", start, start + _LONGEST_WORD)
            end = space + 1 + size
            place = f"row {number} of {count}"
            if space < 0 and len(data) - start >= _LONGEST_WORD:
                problem = f"no word at {place}, byte {offset + start}"
                raise InputError(f"not word2vec binary: {problem}", path)
            if space < 0 or end > len(data):
                problem = f"{place} begins at byte {offset + start} and does not end"
                raise InputError(f"cut short: {problem}", path)
            values = data[space + 1 : end]
            bad = check and not np.isfinite(np.frombuffer(values, dtype="<f4")).all()
            fault = NOT_FINITE if bad else rows.add(data[start:space], values)
            if fault:
                rows.reject(fault, number, f"row {number} (byte {offset + start})")
            start = end
        rows.count = count
        if data[start:].strip():
            problem = f"follow row {count}, the last that the header promises"
            raise InputError(f"{len(data) - start} bytes {problem}", path)
        result = rows.finish("binary", header)
        if np.isfinite(result[0].matrix).all():
            break
    return result


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
    return rows.finish("text", header, notices)


def _guess_width(file: BinaryIO, path: str | Path) -> int:
    """Return the commonest count of numbers at the end of the first rows."""
    widths: Counter[int] = Counter()
    for raw in islice(file, 100):
        # The first field of a row is its word, even when it is a number.
        fields = raw.removeprefix(BOM).split()[1:]
        tail = 0
        while tail < len(fields) and numbers([fields[-1 - tail]]) is not None:
            tail += 1
        widths[tail] += bool(tail)
    file.seek(0)
    if not +widths:
        expected = "expected rows of a word and its numbers, or a header 'count width'"
        raise InputError(f"not word vectors: {expected}", path, 1)
    return widths.most_common(1)[0][0]
