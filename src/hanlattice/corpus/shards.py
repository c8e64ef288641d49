"""Shards: cut files at line ends or between row groups, and read the rows of each part."""

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

# Rows of Parquet that are read, and written, at a time.
ROWS = 1 << 13
Lines = Iterator[tuple[int, bytes]]


@dataclass(frozen=True)
class Shard:
    """Unpacked bytes, or row groups, [start, end) of a file, from `line` or row (from 1) on."""

    source: InputFile
    start: int
    end: int
    line: int
    sha256: str  # of these bytes; in Parquet, of the file
    size: int  # in bytes

    @property
    def key(self) -> dict[str, Any]:
        """The record of this input in the manifest."""
        is_parquet = self.source.format == "parquet"
        unit, line = ("row_groups", "row") if is_parquet else ("bytes", "line")
        encoding = {} if self.source.encoding == UTF8 else {"encoding": self.source.encoding}
        place = {unit: [self.start, self.end], line: self.line}
        return {"path": self.source.name, **encoding, **place, "sha256": self.sha256}


class CorpusRow(NamedTuple):
    """A line of text or JSON, or a record of CSV or Parquet; a broken one has an error, no text."""

    line: int
    content: bytes  # in UTF-8, without the line end; b"" for Parquet
    text: str | None
    error: str = ""
    fields: dict[str, Any] | None = None  # for CSV, and for Parquet that becomes JSON
    batch: Any = None  # for Parquet, the RecordBatch of the row

    @property
    def size(self) -> int:
        # A Chinese character has three bytes in UTF-8.
        return len(self.content) + 1 if self.content or not self.text else 3 * len(self.text)


def cut(source: InputFile, size: int) -> Iterator[Shard]:
    """Yield the shards of a file, of about `size` bytes; all of it is read for the checksums."""
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
            # An empty file has a shard, too.
            if end > start or not start:
                yield Shard(source, start, end, line, digest.hexdigest(), end - start)
            if end == start:
                return
            start = end
            line = line + lines


def _blocks(stream: InputStream, size: int) -> Iterator[bytes]:
    """Yield `size` bytes in blocks, then the rest of the last line."""
    last = b""
    while size > 0 and (block := stream.read(min(BLOCK, size))):
        last = block
        size = size - len(block)
        yield block
    if last and not last.endswith(b"\n"):
        yield stream.readline()


def _cut_csv(source: InputFile, size: int) -> Iterator[Shard]:
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
    """Read about a block of whole lines before `end`; the last line of a file may lack its end."""
    block = stream.read(min(BLOCK, max(0, end - stream.position)))
    return block if not block or block.endswith(b"\n") else block + stream.readline()


def _cut_parquet(source: InputFile, size: int) -> Iterator[Shard]:
    digest = sha256(source.path)
    with open_parquet(source.path) as file:
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
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
    """Reads shards; a file stays open, so that shards of a packed file are unpacked only once.

    Args:
        field: The column or field of texts.
        added: The field that the output adds, which lines of JSON must not have.
        as_json: Whether rows of Parquet need their fields; their batches they have anyway.
    """

    def __init__(self, field: str, added: str, as_json: bool = True) -> None:
        self.field = field
        self.added = added
        self.as_json = as_json
        self._stream: InputStream | None = None
        self._codec = UTF8

    def rows(self, shard: Shard) -> Iterator[CorpusRow]:
        """Yield the rows of a shard; at the end, an InputError if the file has changed."""
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
        """Yield (number, line) without line ends, in UTF-8 if it can be decoded."""
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
            # A file with only a byte order mark has no line.
            if last and (number > 1 or block != mark):
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
        text = None
        if not isinstance(record, dict):
            problem = f"expected an object with a field {self.field!r}"
        elif self.added in record:
            problem = f"it has a field {self.added!r} already, which the output adds"
        elif self.field not in record:
            problem = f"it has no field {self.field!r}"
        else:
            text, problem = self._checked(record[self.field])
        if text and not self.as_json and LONE_SURROGATE.search(text):
            text = None
            problem = "it has a lone surrogate, which Parquet cannot have"
        return CorpusRow(number, content, text, problem)

    def _checked(self, text: Any) -> tuple[str | None, str]:
        """Return (text, ""), or (None, what is wrong with it)."""
        if isinstance(text, str):
            return text, ""
        kind = "null" if text is None else type(text).__name__
        return None, f"its field {self.field!r} is {kind}, not a string"

    def _records(self, shard: Shard, lines: Lines) -> Iterator[CorpusRow]:
        """Yield the rows of CSV, whose records may have several lines, without the header."""
        columns = shard.source.columns
        records = csv_records(lines, DELIMITERS[shard.source.format])
        if not shard.start:
            next(records, None)
        for number, content, cells, error in records:
            if not error and len(cells) != len(columns):
                error = f"expected {len(columns)} columns, not {len(cells)}"
            try:
                content.decode("utf-8")
            except UnicodeDecodeError as problem:
                error = _undecodable(content, problem, self._codec)
            if error:
                yield CorpusRow(number, content, None, error)
            else:
                fields = dict(zip(columns, cells, strict=True))
                yield CorpusRow(number, content, fields[self.field], fields=fields)

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
                groups = list(range(shard.start, shard.end))
                for batch in file.iter_batches(ROWS, row_groups=groups):
                    records = batch.to_pylist() if self.as_json else [None] * batch.num_rows
                    texts = batch.column(self.field).to_pylist()
                    for text, fields in zip(texts, records, strict=True):
                        yield CorpusRow(number, b"", *self._checked(text), fields, batch)
                        number += 1
        except InputError as error:
            raise InputError(error.message, path, number) from None


_CHANGED = "it is not what it was when this run began; run again when nobody writes to it"


@functools.lru_cache(maxsize=64)
def _parquet_digest(path: Path, size: int, changed: int) -> str:
    """Return the checksum of a file, computed once for all its row groups while it is unchanged."""
    return sha256(path)


def _undecodable(content: bytes, error: UnicodeDecodeError, codec: str) -> str:
    byte = f"byte 0x{content[error.start]:02x} at byte {error.start + 1} of the line"
    return f"not {called(codec)}: {byte}"
