"""What a shard becomes: JSONL, each line that of the input with one more field, or Parquet with a
column more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from hanlattice.corpus.inputs import BLOCK, open_parquet
from hanlattice.corpus.settings import BROKEN
from hanlattice.corpus.shards import ROWS, CorpusRow, Shard
from hanlattice.data.formats.jsonl import spans_json, text_json, to_json
from hanlattice.errors import InputError
from hanlattice.optional import require
from hanlattice.text.span import Span, arrow_type

RECORD = "record"  # the column of Parquet that has a whole line of JSONL
Spans = Sequence[Span] | None  # None of a broken row
Tagged = tuple[CorpusRow, Spans]


class Writer(Protocol):
    def write(self, batch: Sequence[Tagged]) -> None: ...
    def close(self) -> None: ...


def make_writer(file: Hashed, format: str, shard: Shard, into: str) -> Writer:
    return (
        ParquetWriter(file, shard, into) if format == "parquet" else JsonWriter(file, shard, into)
    )


def added_columns(format: str, into: str) -> tuple[str, ...]:
    """What an output has beside the columns of its input."""
    return (into, BROKEN) if format == "parquet" else (into,)


class Hashed:
    """A file that is written, with its size and the checksum of all that was written; `flush` it at
    the end.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0
        self._waiting = bytearray()  # a row at a time would cost more than its checksum
        self.closed = False

    def write(self, data: Any) -> int:
        before = len(self._waiting)
        self._waiting += data
        written = len(self._waiting) - before
        self.size += written
        if len(self._waiting) >= BLOCK:
            self._pass_on()
        return written

    def _pass_on(self) -> None:
        self._digest.update(self._waiting)
        self._file.write(self._waiting)
        self._waiting.clear()

    def flush(self) -> None:
        self._pass_on()
        self._file.flush()

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        """The file belongs to others."""

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class JsonWriter:
    """The bytes of a line of JSONL stay as they are: the spans are put before its last brace."""

    def __init__(self, file: Hashed, shard: Shard, into: str) -> None:
        self._file = file
        self._source = shard.source
        self._field = b", " + to_json(into).encode() + b": "

    def write(self, batch: Sequence[Tagged]) -> None:
        self._file.write(b"".join([self._line(row, spans) for row, spans in batch]))

    def _line(self, row: CorpusRow, spans: Spans) -> bytes:
        if spans is None:
            place = {"path": self._source.name, "line": row.line, "error": row.error}
            content = {"record": row.fields} if row.batch else {"content": _as_text(row.content)}
            return self._json({BROKEN: {**place, **content}}, row) + b"\n"
        return b"%b%b%b}\n" % (self._begun(row), self._field, spans_json(spans).encode())

    def _begun(self, row: CorpusRow) -> bytes:
        """The row as an object without its last brace."""
        if self._source.format == "jsonl":
            return row.content.rstrip()[:-1]
        if row.fields is None:
            return b'{"text": %b' % text_json(row.text or "").encode()
        return self._json(row.fields, row)[:-1]

    def _json(self, record: dict[str, Any], row: CorpusRow) -> bytes:
        try:
            return to_json(record).encode()
        except (InputError, TypeError, ValueError):
            for name, value in (row.fields or {}).items():
                _check_json(name, value, self._source.path, row.line)
            raise

    def close(self) -> None:
        pass


def _check_json(column: str, value: object, path: Path, row: int) -> None:
    """Refuse a value that JSON cannot have: a date, say, or NaN, for which null would be a silent
    loss.
    """
    try:
        to_json(value)
    except (InputError, TypeError, ValueError) as error:
        message = (
            f"JSON cannot have the column {column!r} of this row ({error}); use --format parquet"
        )
        raise InputError(message, path, row) from None


def _as_text(content: bytes) -> str:
    """Every byte that is not UTF-8 as a lone surrogate, from which Python's `surrogateescape` makes
    it again.
    """
    return content.decode("utf-8", "surrogateescape")


class ParquetWriter:
    """The columns of CSV and Parquet stay; a line of JSONL is in `record` as it was, and its text
    in a column, too.

    A broken row has null for spans, and in `broken` its line, what is wrong, and its bytes.
    """

    def __init__(self, file: Hashed, shard: Shard, into: str) -> None:
        self._arrow = require("pyarrow")
        parquet = require("pyarrow", "parquet")
        self._source = shard.source
        self._rows = list[Tagged]()
        self._own = self._schema()
        arrow = self._arrow
        broken = [("line", arrow.int64()), ("error", arrow.string()), ("content", arrow.binary())]
        self._added = arrow.schema([(into, arrow_type()), (BROKEN, arrow.struct(broken))])
        self._all = arrow.schema([*self._own, *self._added], self._own.metadata)
        self._writer = parquet.ParquetWriter(file, self._all, compression="zstd")

    def _schema(self) -> Any:
        """Of what comes from the input."""
        text = self._arrow.string()
        if self._source.format == "parquet":
            with open_parquet(self._source.path) as file:
                return file.schema_arrow
        columns = self._source.columns or (
            ("text",) if self._source.format == "txt" else ("text", RECORD)
        )
        return self._arrow.schema([(name, text) for name in columns])

    def write(self, batch: Sequence[Tagged]) -> None:
        for row, spans in batch:
            if self._rows and (len(self._rows) == ROWS or row.batch is not self._rows[-1][0].batch):
                self._flush()
            self._rows.append((row, spans))

    def _flush(self) -> None:
        arrow = self._arrow
        rows = self._rows
        added = (
            [None if spans is None else [span.as_dict() for span in spans] for _, spans in rows],
            [None if spans is not None else _broken(row) for row, spans in rows],
        )
        new = [
            arrow.array(column, field.type)
            for column, field in zip(added, self._added, strict=True)
        ]
        old = self._columns([row for row, _ in rows])
        self._writer.write_table(arrow.table([*old, *new], schema=self._all))
        rows.clear()

    def _columns(self, rows: list[CorpusRow]) -> Iterator[Any]:
        """The columns of the input; rows of Parquet are written in the batches in which they were
        read.
        """
        if self._source.format == "parquet":
            return iter(rows[0].batch.columns)
        if self._source.columns:
            records = ((row.fields or {}) for row in rows)
            table = [[record.get(name) for name in self._source.columns] for record in records]
            return (
                self._arrow.array(column, self._arrow.string())
                for column in zip(*table, strict=True)
            )
        texts = self._arrow.array([row.text for row in rows], self._arrow.string())
        if self._source.format == "txt":
            return iter([texts])
        lines = [row.content.decode("utf-8") if row.text is not None else None for row in rows]
        return iter([texts, self._arrow.array(lines, self._arrow.string())])

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


def _broken(row: CorpusRow) -> dict[str, Any]:
    return {"line": row.line, "error": row.error, "content": row.content}
