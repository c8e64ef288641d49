"""Shards: the parts of a file, cut at line ends or between row groups, and the rows that each has."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hanlattice.checks import read_json
from hanlattice.corpus.inputs import (
    BLOCK,
    DELIMITERS,
    InputFile,
    InputStream,
    byte_order_mark,
    csv_lines,
    csv_records,
    line_content,
    open_parquet,
)
from hanlattice.encodings import UTF8, called
from hanlattice.errors import InputError
from hanlattice.files import reason, sha256
from hanlattice.text.normalize import LONE_SURROGATE

ROWS = 1 << 13  # rows of Parquet that are read, and written, at a time
Lines = Iterator[tuple[int, bytes]]


@dataclass(frozen=True)
class Shard:
    """Bytes [start, end) of a file, unpacked, or its row groups; `line` is the first of its lines,
    or rows, from 1.
    """

    source: InputFile
    start: int
    end: int
    line: int
    sha256: str  # of these bytes; in Parquet, of the file
    size: int  # in bytes

    @property
    def key(self) -> dict[str, Any]:
        """Which input it is, for the manifest."""
        place, line = (
            ("row_groups", "row") if self.source.format == "parquet" else ("bytes", "line")
        )
        other = {} if self.source.encoding == UTF8 else {"encoding": self.source.encoding}
        where = {place: [self.start, self.end], line: self.line}
        return {"path": self.source.name, **other, **where, "sha256": self.sha256}


class CorpusRow(NamedTuple):
    """A line of text or JSON, or a record of CSV or Parquet. A broken one has no text, but an
    error.
    """

    line: int
    content: (
        bytes  # as it is in the file, but in UTF-8 and without its line end; nothing of Parquet
    )
    text: str | None
    error: str = ""
    fields: dict[str, Any] | None = None  # of CSV, and of Parquet that becomes JSON
    batch: Any = None  # of Parquet: the RecordBatch that the row is in

    @property
    def size(self) -> int:
        return len(self.content) + 1 if self.content or not self.text else 3 * len(self.text)


def cut(source: InputFile, size: int) -> Iterator[Shard]:
    """The shards of a file, of about so many bytes. All of the file is read, for checksums and the
    numbers of lines.
    """
    if source.format == "parquet":
        yield from _cut_parquet(source, size)
        return
    if source.format in DELIMITERS:
        yield from _cut_csv(source, size)
        return
    start = 0
    line = 1
    with InputStream(source.path, source.encoding) as stream:
        while True:
            digest = hashlib.sha256()
            lines = 0
            for block in _blocks(stream, size):
                digest.update(block)
                lines += block.count(b"\n")
            end = stream.position
            if end > start or not start:  # an empty file has a shard, too
                yield Shard(source, start, end, line, digest.hexdigest(), end - start)
            if end == start:
                return
            start = end
            line = line + lines


def _blocks(stream: InputStream, size: int) -> Iterator[bytes]:
    """So many bytes, and what is left of their last line."""
    last = b""
    while size > 0 and (block := stream.read(min(BLOCK, size))):
        last = block
        size = size - len(block)
        yield block
    if last and not last.endswith(b"\n"):
        yield stream.readline()


def _cut_csv(source: InputFile, size: int) -> Iterator[Shard]:
    """Shards of whole records."""
    start = 0
    line = 1
    lines = 0
    digest = hashlib.sha256()

    def read() -> Iterator[bytes]:
        nonlocal lines
        while raw := stream.readline():
            digest.update(raw)
            lines += raw.endswith(b"\n")
            yield raw

    with InputStream(source.path, source.encoding) as stream:
        records = csv_records(csv_lines(read(), source.encoding), DELIMITERS[source.format])
        while True:
            is_last = next(records, None) is None
            end = stream.position
            if end - start >= size or (is_last and (end > start or not start)):
                yield Shard(source, start, end, line, digest.hexdigest(), end - start)
                start = end
                line = line + lines
                lines = 0
                digest = hashlib.sha256()
            if is_last:
                return


def _whole_lines(stream: InputStream, end: int) -> bytes:
    """The next lines up to there, about a block of them; only the last of a file may lack its end."""
    block = stream.read(min(BLOCK, max(0, end - stream.position)))
    return block if not block or block.endswith(b"\n") else block + stream.readline()


def _cut_parquet(source: InputFile, size: int) -> Iterator[Shard]:
    digest = sha256(source.path)
    with open_parquet(source.path) as file:
        groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
    start = 0
    row = 1
    rows = 0
    full = 0
    for end, group in enumerate(groups, start=1):
        rows = rows + group.num_rows
        full = full + group.total_byte_size
        if full >= size or end == len(groups):
            yield Shard(source, start, end, row, digest, full)
            start = end
            row = row + rows
            rows = 0
            full = 0
    if not groups:
        yield Shard(source, 0, 0, 1, digest, 0)


class Reader:
    """Reads shards. A file stays open between them, so that a packed one is unpacked once for
    shards in their order.
    """

    def __init__(self, field: str, added: str, as_json: bool = True) -> None:
        """`as_json`: rows of Parquet come with their fields; without it as batches alone."""
        self.field = field
        self.added = added
        self.as_json = as_json
        self._stream: InputStream | None = None
        self._codec = UTF8

    def rows(self, shard: Shard) -> Iterator[CorpusRow]:
        """The rows of a shard; an error at its end if it is not what was planned."""
        if shard.source.format == "parquet":
            return self._parquet(shard)
        lines = self._lines(shard)
        self._codec = shard.source.encoding
        if shard.source.format == "txt":
            return (self._text_row(number, content) for number, content in lines)
        if shard.source.format == "jsonl":
            return (self._json_row(number, content) for number, content in lines)
        return self._records(shard, lines)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _lines(self, shard: Shard) -> Lines:
        """The numbers of the lines, and their bytes without the line end, in UTF-8 if they are
        text.
        """
        codec = shard.source.encoding
        mark = byte_order_mark(codec)
        if self._stream is None or self._stream.path != shard.source.path:
            self.close()
            self._stream = InputStream(shard.source.path, codec)
        stream = self._stream
        number = shard.line
        digest = hashlib.sha256()
        stream.seek(shard.start)
        while block := _whole_lines(stream, shard.end):
            digest.update(block)
            *lines, last = block.split(b"\n")
            lines = [line.removesuffix(b"\r") for line in lines]
            if last and (
                number > 1 or block != mark
            ):  # a byte order mark and nothing else is no line
                lines.append(last)
            for line in lines:
                yield number, line_content(line, number, codec)
                number += 1
        if digest.hexdigest() != shard.sha256:
            self.close()
            raise InputError(_CHANGED, shard.source.path)

    def _text_row(self, number: int, content: bytes) -> CorpusRow:
        try:
            return CorpusRow(number, content, content.decode("utf-8"))
        except UnicodeDecodeError as error:
            return CorpusRow(number, content, None, _undecodable(content, error, self._codec))

    def _json_row(self, number: int, content: bytes) -> CorpusRow:
        try:
            record = read_json(content.decode("utf-8"))
        except UnicodeDecodeError as error:
            return CorpusRow(number, content, None, _undecodable(content, error, self._codec))
        except ValueError as error:
            return CorpusRow(number, content, None, str(error))
        if not isinstance(record, dict):
            return CorpusRow(
                number, content, None, f"expected an object with a field {self.field!r}"
            )
        if self.added in record:
            return CorpusRow(
                number,
                content,
                None,
                f"it has a field {self.added!r} already, which the output adds",
            )
        if self.field not in record:
            return CorpusRow(number, content, None, f"it has no field {self.field!r}")
        text, wrong = self._checked(record[self.field])
        if text and not self.as_json and LONE_SURROGATE.search(text):
            text = None
            wrong = "it has a lone surrogate, which Parquet cannot have"
        return CorpusRow(number, content, text, wrong)

    def _checked(self, text: Any) -> tuple[str | None, str]:
        """A text, or what is wrong with it."""
        if isinstance(text, str):
            return text, ""
        return (
            None,
            f"its field {self.field!r} is {'null' if text is None else type(text).__name__}, not a string",
        )

    def _records(self, shard: Shard, lines: Lines) -> Iterator[CorpusRow]:
        """Records of CSV, which may have several lines; the header is left out."""
        is_header = not shard.start
        for record in csv_records(lines, DELIMITERS[shard.source.format]):
            if not is_header:
                yield self._record_row(shard.source.columns, *record)
            is_header = False

    def _record_row(
        self, columns: tuple[str, ...], number: int, content: bytes, cells: list[str], error: str
    ) -> CorpusRow:
        """The row of a record."""
        if not error and len(cells) != len(columns):
            error = f"expected {len(columns)} columns, not {len(cells)}"
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as problem:
            error = _undecodable(content, problem, self._codec)
        if error:
            return CorpusRow(number, content, None, error)
        fields = dict(zip(columns, cells, strict=True))
        return CorpusRow(number, content, fields[self.field], fields=fields)

    def _parquet(self, shard: Shard) -> Iterator[CorpusRow]:
        path = shard.source.path
        number = shard.line
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(f"cannot read: {reason(error)}", path) from None
        if _parquet_digest(path, status.st_size, status.st_mtime_ns) != shard.sha256:
            raise InputError(_CHANGED, path)
        try:
            with open_parquet(path) as file:
                for batch in file.iter_batches(
                    ROWS, row_groups=list(range(shard.start, shard.end))
                ):
                    records = batch.to_pylist() if self.as_json else [None] * batch.num_rows
                    for text, fields in zip(
                        batch.column(self.field).to_pylist(), records, strict=True
                    ):
                        yield CorpusRow(number, b"", *self._checked(text), fields, batch)
                        number += 1
        except InputError as error:
            raise InputError(error.message, path, number) from None


_CHANGED = "it is not what it was when this run began; run again when nobody writes to it"


@functools.lru_cache(maxsize=64)
def _parquet_digest(path: Path, size: int, changed: int) -> str:
    """The checksum of a file of this size, last changed then: of all its row groups, made once."""
    return sha256(path)


def _undecodable(content: bytes, error: UnicodeDecodeError, codec: str) -> str:
    return f"not {called(codec)}: byte 0x{content[error.start]:02x} at byte {error.start + 1} of the line"
