"""The files of a corpus: by name, folder or pattern; what format each has, and its bytes, unpacked."""

from __future__ import annotations

import contextlib
import csv
import glob
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
BLOCK = 1 << 20  # bytes read at a time
LONGEST_RECORD = (
    1 << 26
)  # bytes of a record of CSV with several lines, in case a quote is not closed
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
    sources: list[InputFile]  # by their names
    passed_over: list[Path]  # files of folders that have no format known here
    failures: dict[str, str]  # by the names of files and folders that cannot be read: why
    unlisted: list[Path]  # the inputs among these: which files they have nobody knows
    outputs: list[Path]  # files of an earlier run in the output folder, which are not read
    notices: list[str]  # of folders that are not read under the name at which they were met


def find_sources(
    inputs: Sequence[str],
    format: str | None,
    field: str,
    added: Sequence[str],
    encoding: str = AUTO,
    is_in_out: Callable[[Path], bool] = lambda path: False,
) -> Found:
    """All files of the inputs. A file has the format that its name says, or `format`.

    CSV and Parquet have a column `field`, and none of `added`, which the output has beside theirs.
    Of the files for which `is_in_out` says yes, outputs of a run are not read, and others refused.
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
                    raise InputError(
                        "it lies in --out: choose another folder for the outputs", path
                    )
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
        if found.outputs:
            raise InputError(
                f"only the outputs in --out fit {', '.join(map(one_line, inputs))}: name other inputs"
            )
        known = f"{', '.join(FORMATS)}, plain or packed as {', '.join(PACKED)}"
        raise InputError(
            f"there is no file to read in {', '.join(map(one_line, inputs))}: expected {known}"
        )
    found.sources.sort(key=lambda source: source.name)
    return found


def _entries(given: str) -> Iterator[tuple[str, FoundPath]]:
    """Yield (name, entry) of the files that an argument stands for, and of what cannot be read.

    Hidden files of a folder are left out. Folders are among the entries where their message says
    something.
    """
    path = Path(given)
    entry = look(Path(given))
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
        if all(each.kind is Kind.folder for each in entries.values()):
            raise InputError("no file has a name like this", given)
        yield from _with_folders_named(entries, is_deep=ANY_DEPTH in pattern)
    else:
        raise InputError(entry.message.removeprefix("cannot read: "), given)


def _named(top: Path, entries: Iterable[FoundPath]) -> Iterator[tuple[str, FoundPath]]:
    """Yield entries with their paths below `top`; of what cannot be listed, the path itself."""
    for entry in entries:
        name = entry.path.relative_to(top).as_posix()
        yield (str(top) if entry.path == top else name), entry


def _with_folders_named(
    entries: Mapping[str, FoundPath], is_deep: bool
) -> Iterator[tuple[str, FoundPath]]:
    """Yield what fits a pattern; a folder that fits one without `**` has a message instead of its
    files.
    """
    message = "it is a folder, and its files are not read; a pattern ending in /**/* has them"
    for name, entry in entries.items():
        if entry.kind is not Kind.folder:
            yield name, entry
        elif not is_deep:
            yield name, entry._replace(message=message)


def _format(path: Path) -> str | None:
    is_packed = path.suffix.lower() in PACKED
    return FORMATS.get(Path(path.stem if is_packed else path.name).suffix.lower())


def _encoding(path: Path, asked: str) -> str:
    """What a byte order mark says, or else what was asked for, or what the file's first Chinese
    looks like.
    """
    with InputStream(path) as stream:
        head = stream.read(BLOCK)
    marked = next((codec for mark, codec in MARKS if head.startswith(mark)), asked)
    return guess(head) if marked == AUTO else marked


def byte_order_mark(codec: str) -> bytes:
    """That of a `Stream` in this encoding."""
    return next((mark for mark, found in MARKS if found == codec and not is_wide(codec)), BOM)


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
        raise InputError(
            f"no column is called {field!r}; --field may be {', '.join(columns)}", source.path
        )
    if there := [name for name in added if name in columns]:
        raise InputError(
            f"it has a column {there[0]!r} already, which the output adds: rename it", source.path
        )
    return replace(source, columns=columns)


@contextlib.contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a ParquetFile of pyarrow; what it raises inside a `with` is an InputError."""
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
    """The records of lines; the only place that says where a record ends.

    A file is cut into shards where these records end, and each shard is read as these records, so
    what is found does not depend on the size of the shards. No line is taken before it is needed.
    """
    csv.field_size_limit(sys.maxsize)  # a text may be long
    taken: list[tuple[int, bytes]] = []
    length = 0
    is_cut = False  # whether the reader was left without a line that it asked for

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
    """The numbers of all lines of a file, and the lines without their ends, in UTF-8 if they are
    text.
    """
    for number, line in enumerate(lines, start=1):
        if line.endswith(b"\n"):
            line = line.removesuffix(b"\r\n" if line.endswith(b"\r\n") else b"\n")
        yield number, line_content(line, number, codec)


def line_content(line: bytes, number: int, codec: str) -> bytes:
    """A line as text in UTF-8, without a byte order mark; bytes that are not text stay."""
    if number == 1:
        line = line.removeprefix(byte_order_mark(codec))
    if codec != UTF8 and not is_wide(codec):
        with contextlib.suppress(UnicodeDecodeError):
            return line.decode(codec).encode(UTF8)
    return line


class InputStream:
    """The bytes of a file, unpacked, from a `position` on; it is read forward, and opened again to
    go back.

    UTF-16 and UTF-32, whose line ends are no single bytes, become UTF-8; other encodings stay.
    """

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
        """A packed file has to be unpacked up to there; whoever reads its shards in their order
        does it once.
        """
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
            raise InputError(
                f"cannot be unpacked ({error}): cut short or damaged; copy it again", self.path
            ) from None
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
