"""The input files of a corpus: find them, detect their formats, and read their unpacked bytes."""

from __future__ import annotations

import contextlib
import csv
import glob
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, cast

from hanlattice.corpus.manifest import is_own
from hanlattice.corpus.walk import ANY_DEPTH, FoundPath, Kind, look, match, walk
from hanlattice.data.formats.raw import DAMAGE, unpacked
from hanlattice.encodings import AUTO, MARKS, UTF8, called, guess, is_wide
from hanlattice.errors import InputError, one_line
from hanlattice.files import BOM, reason
from hanlattice.optional import require

FORMATS = {
    **dict.fromkeys((".txt", ".text"), "txt"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **{".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"},
}
PACKED = (".gz", ".xz", ".zst")
DELIMITERS = {"csv": ",", "tsv": "\t"}
# Bytes that are read at a time.
BLOCK = 1 << 20
# Bytes of a CSV record with several lines: a quote that is not closed must not take the whole file.
LONGEST_RECORD = 1 << 26
NO_FILE = "it is a pipe or a device; a corpus is read several times, so give a file"


@dataclass(frozen=True)
class InputFile:
    """An input file. `name` is its path below what was given, the same wherever the corpus lies."""

    name: str
    path: Path
    format: str
    encoding: str = UTF8
    columns: tuple[str, ...] = ()  # of CSV and Parquet


class Found(NamedTuple):
    """What `find_sources` found."""

    sources: list[InputFile]  # sorted by name
    passed_over: list[Path]  # files of folders whose format is unknown
    failures: dict[str, str]  # name of an unreadable file or folder → reason
    unlisted: list[Path]  # unreadable inputs whose files nobody knows
    outputs: list[Path]  # outputs of an earlier run, which are not read
    notices: list[str]  # why some folders are not read


def find_sources(
    inputs: Sequence[str],
    format: str | None,
    field: str,
    added: Sequence[str],
    encoding: str = AUTO,
    is_in_out: Callable[[Path], bool] = lambda path: False,
) -> Found:
    """Find all files of the inputs, which are files, folders or patterns.

    Args:
        format: The format of all files; None goes by their names.
        field: The column of texts, which CSV and Parquet must have.
        added: The columns that the output adds, which an input must not have.
        is_in_out: Whether a file lies in the output folder. Outputs of an earlier run are skipped
            there, other files are refused.
    """
    found = Found([], [], {}, [], [], [])
    paths = dict[str, Path]()
    for given in inputs:
        for name, entry in sorted(_entries(given), key=itemgetter(0)):
            path = entry.path
            if entry.kind in (Kind.folder, Kind.repeated):
                if entry.message:
                    found.notices.append(str(InputError(entry.message, path)))
                continue
            if entry.kind is Kind.file and is_in_out(path):
                if path == Path(given) or not is_own(path.resolve().name):
                    message = "it lies in --out: choose another folder for the outputs"
                    raise InputError(message, path)
                found.outputs.append(path)
                continue
            if name in paths:
                message = (
                    f"this file and {one_line(paths[name])} are both called {one_line(name)}; "
                    "give each once, or the folder above them"
                )
                raise InputError(message, path)
            paths[name] = path
            kind = format or _format(path)
            if kind is None and entry.kind in (Kind.file, Kind.special) and Path(given).is_dir():
                found.passed_over.append(path)
                continue
            try:
                if entry.kind is not Kind.file:
                    raise InputError(entry.message or NO_FILE, path)
                source = InputFile(name, path, kind or "txt")
                if source.format != "parquet":
                    source = replace(source, encoding=_encoding(path, encoding))
                found.sources.append(_with_columns(source, field, added))
            except InputError as error:
                found.failures[name] = str(error)
                if name == str(path):
                    found.unlisted.append(path)
    if not found.sources and not found.failures:
        names = ", ".join(map(one_line, inputs))
        if found.outputs:
            raise InputError(f"only the outputs in --out fit {names}: name other inputs")
        known = f"{', '.join(FORMATS)}, plain or packed as {', '.join(PACKED)}"
        raise InputError(f"there is no file to read in {names}: expected {known}")
    found.sources.sort(key=lambda source: source.name)
    return found


def _entries(given: str) -> Iterator[tuple[str, FoundPath]]:
    """Yield (name, entry) of the files that an argument stands for, and of unreadable paths.

    Hidden files of a folder are left out. A folder is yielded only with a message.
    """
    path = Path(given)
    entry = look(path)
    if entry.kind is Kind.folder:
        yield from _named(path, walk(path))
    elif entry.kind is Kind.special:
        raise InputError(NO_FILE, path)
    elif entry.kind is not Kind.missing:
        yield path.name, entry
    elif glob.has_magic(given):
        fixed = Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))
        pattern = path.relative_to(fixed).parts
        if ".." in pattern:
            raise InputError(".. may not come after a wildcard", given)
        entries = dict(_named(fixed, match(fixed, pattern)))
        if all(entry.kind is Kind.folder for entry in entries.values()):
            raise InputError("no file has a name like this", given)
        message = "it is a folder, and its files are not read; a pattern ending in /**/* has them"
        for name, entry in entries.items():
            if entry.kind is not Kind.folder:
                yield name, entry
            # With `**` the files of this folder fit the pattern themselves.
            elif ANY_DEPTH not in pattern:
                yield name, entry._replace(message=message)
    else:
        raise InputError(entry.message.removeprefix("cannot read: "), given)


def _named(top: Path, entries: Iterable[FoundPath]) -> Iterator[tuple[str, FoundPath]]:
    """Yield entries with their paths below `top`; for `top` itself, its whole path."""
    for entry in entries:
        name = entry.path.relative_to(top).as_posix()
        yield (str(top) if entry.path == top else name), entry


def _format(path: Path) -> str | None:
    is_packed = path.suffix.lower() in PACKED
    return FORMATS.get(Path(path.stem if is_packed else path.name).suffix.lower())


def _encoding(path: Path, asked: str) -> str:
    """Return the encoding of a file: by its byte order mark, else as asked, else by its content."""
    with InputStream(path) as stream:
        head = stream.read(BLOCK)
    marked = next((codec for mark, codec in MARKS if head.startswith(mark)), asked)
    return guess(head) if marked == AUTO else marked


def byte_order_mark(codec: str) -> bytes:
    """Return the byte order mark of an `InputStream`, in which UTF-16 and UTF-32 are UTF-8."""
    return next((mark for mark, name in MARKS if name == codec and not is_wide(codec)), BOM)


def _with_columns(source: InputFile, field: str, added: Sequence[str]) -> InputFile:
    if source.format in ("txt", "jsonl"):
        return source
    if source.format == "parquet":
        with open_parquet(source.path) as file:
            columns = tuple(file.schema_arrow.names)
    else:
        columns = _header(source)
    if twins := [name for name, count in Counter(columns).items() if count > 1]:
        raise InputError(f"two columns are called {twins[0]!r}: rename one", source.path)
    if field not in columns:
        message = f"no column is called {field!r}; --field may be {', '.join(columns)}"
        raise InputError(message, source.path)
    if taken := [name for name in added if name in columns]:
        message = f"it has a column {taken[0]!r} already, which the output adds: rename it"
        raise InputError(message, source.path)
    return replace(source, columns=columns)


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a ParquetFile of pyarrow, whose errors inside the `with` become an InputError."""
    arrow = require("pyarrow")
    parquet = require("pyarrow", "parquet")
    try:
        # A path as a string must be UTF-8 for pyarrow; as bytes it may be anything.
        with arrow.OSFile(os.fsencode(path)) as file, parquet.ParquetFile(file) as opened:
            yield opened
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise InputError(f"cannot be read as Parquet: {error}", path) from None


def _header(source: InputFile) -> tuple[str, ...]:
    with InputStream(source.path, source.encoding) as stream:
        lines = csv_lines(iter(stream.readline, b""), source.encoding)
        header = next(csv_records(lines, DELIMITERS[source.format]), None)
    if header is None or not (header.cells or header.error):
        raise InputError("expected a header with a name for each column", source.path, 1)
    error = header.error
    try:
        header.content.decode()
    except UnicodeDecodeError as problem:
        error = str(problem)
    if error:
        raise InputError(f"its header cannot be read: {error}", source.path, 1)
    return tuple(header.cells)


class CsvRecord(NamedTuple):
    """A record of CSV or TSV, with the number of its first line and what is wrong with it."""

    line: int
    content: bytes  # in UTF-8, where it can be decoded; lines end in LF
    cells: list[str]
    error: str


def csv_records(lines: Iterator[tuple[int, bytes]], delimiter: str) -> Iterator[CsvRecord]:
    """Yield the records of lines; nothing else decides where a record ends.

    Files are cut into shards at these ends, and shards are read by this function, so the results do
    not depend on the size of shards. No line is taken before it is needed.
    """
    # Python allows 131,072 characters, and a text may be longer.
    csv.field_size_limit(sys.maxsize)
    taken: list[tuple[int, bytes]] = []
    length = 0
    # Whether the reader asked for a line and got none.
    is_cut = False

    def decoded() -> Iterator[str]:
        nonlocal length, is_cut
        while length <= LONGEST_RECORD and (line := next(lines, None)) is not None:
            taken.append(line)
            length += len(line[1]) + 1
            yield line[1].decode(UTF8, "surrogateescape") + "\n"
        is_cut = True

    reader = csv.reader(decoded(), delimiter=delimiter)
    while True:
        taken.clear()
        length = 0
        try:
            cells = next(reader)
            error = ""
        except StopIteration:
            return
        except csv.Error as problem:
            cells = []
            error = f"not CSV: {problem}"
        if is_cut:
            most = f" within {LONGEST_RECORD:,} bytes" if length > LONGEST_RECORD else ""
            error = f"a quote in it is not closed{most}"
            is_cut = False
            reader = csv.reader(decoded(), delimiter=delimiter)
        content = b"\n".join([content for _, content in taken])
        yield CsvRecord(taken[0][0], content, cells, error)


def csv_lines(lines: Iterable[bytes], codec: str) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) of a whole file, without line ends, in UTF-8 if they can be decoded."""
    for number, line in enumerate(lines, start=1):
        if line.endswith(b"\n"):
            line = line.removesuffix(b"\r\n" if line.endswith(b"\r\n") else b"\n")
        yield number, line_content(line, number, codec)


def line_content(line: bytes, number: int, codec: str) -> bytes:
    """Return a line in UTF-8, without a byte order mark; undecodable bytes stay as they are."""
    if number == 1:
        line = line.removeprefix(byte_order_mark(codec))
    if codec != UTF8 and not is_wide(codec):
        with contextlib.suppress(UnicodeDecodeError):
            return line.decode(codec).encode(UTF8)
    return line


class InputStream:
    """The unpacked bytes of a file; UTF-16 and UTF-32 become UTF-8, other encodings stay."""

    def __init__(self, path: Path, encoding: str = UTF8) -> None:
        self.path = path
        self._encoding = encoding
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self.position = 0
        try:
            self._file = self.path.open("rb")
            self._unpacked = unpacked(self._file)
            if is_wide(self._encoding):
                self._unpacked = cast(BinaryIO, _Narrow(self._unpacked, self._encoding))
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", self.path) from None

    def close(self) -> None:
        self._unpacked.close()
        self._file.close()

    def seek(self, position: int) -> None:
        """Go to a position. A packed file is unpacked up to there, and opened again to go back."""
        if self._unpacked is self._file:
            self._file.seek(position)
            self.position = position
            return
        if position < self.position:
            self.close()
            self._open()
        while self.position < position and self.read(min(BLOCK, position - self.position)):
            pass

    def read(self, size: int) -> bytes:
        return self._take(self._unpacked.read, size)

    def readline(self) -> bytes:
        return self._take(self._unpacked.readline, -1)

    def _take(self, read: Any, size: int) -> bytes:
        try:
            taken: bytes = read(size)
        except DAMAGE as error:
            message = f"cannot be unpacked ({error}): cut short or damaged; copy it again"
            raise InputError(message, self.path) from None
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", self.path) from None
        except UnicodeDecodeError as error:
            raise InputError(f"not {called(self._encoding)} ({error.reason})", self.path) from None
        self.position += len(taken)
        return taken


class _Narrow:
    """A stream of UTF-16 or UTF-32 as UTF-8. Lone surrogates become bytes that are not UTF-8."""

    def __init__(self, stream: BinaryIO, codec: str) -> None:
        self._text = io.TextIOWrapper(stream, codec, "surrogatepass", newline="\n")
        self._rest = b""  # read, but not taken yet

    def read(self, size: int) -> bytes:
        content = self._rest or self._text.read(size).encode(UTF8, "surrogatepass")
        self._rest = content[size:]
        return content[:size]

    def readline(self, _: int) -> bytes:
        if b"\n" not in self._rest:
            self._rest += self._text.readline().encode(UTF8, "surrogatepass")
        return self.read(self._rest.find(b"\n") + 1 or len(self._rest))

    def close(self) -> None:
        self._text.close()
