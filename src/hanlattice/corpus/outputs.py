"""Write the outputs of shards: JSONL with one more field in each line, or Parquet."""

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

# The column of Parquet for a whole line of JSONL.
RECORD = "record"
# None for a broken row.
Spans = Sequence[Span] | None
Tagged = tuple[CorpusRow, Spans]


class Writer(Protocol):
    def write(self, batch: Sequence[Tagged]) -> None: ...
    def close(self) -> None: ...


def make_writer(file: Hashed, format: str, shard: Shard, into: str) -> Writer:
    return (
        ParquetWriter(file, shard, into) if format == "parquet" else JsonWriter(file, shard, into)
    )


def added_columns(format: str, into: str) -> tuple[str, ...]:
    """Return the columns that an output adds to those of its input."""
    return (into, BROKEN) if format == "parquet" else (into,)


class Hashed:
    """A file being written, with the size and checksum of its content; `flush` it at the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0
        # Writing each row by itself would cost more than its checksum.
        self._waiting = bytearray()
        # pyarrow asks for this, and for `tell` and `close`.
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
        """Do nothing: whoever opened the file closes it."""

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


class JsonWriter:
    """Writes JSONL. A line of JSONL keeps its bytes; the spans go before its last brace."""

    def __init__(self, file: Hashed, shard: Shard, into: str) -> None:
        self._file = file
        self._source = shard.source
        self._field = b", " + to_json(into).encode() + b": "

    def write(self, batch: Sequence[Tagged]) -> None:
        self._file.write(b"".join([self._line(row, spans) for row, spans in batch]))

    def _line(self, row: CorpusRow, spans: Spans) -> bytes:
        if spans is None:
            place = {"path": self._source.name, "line": row.line, "error": row.error}
            # A byte that is not UTF-8 becomes a lone surrogate, from which it can be restored.
            text = row.content.decode("utf-8", "surrogateescape")
            content = {"record": row.fields} if row.batch else {"content": text}
            return self._json({BROKEN: {**place, **content}}, row) + b"\n"
        return b"%b%b%b}\n" % (self._begun(row), self._field, spans_json(spans).encode())

    def _begun(self, row: CorpusRow) -> bytes:
        """Return the row as a JSON object without its last brace."""
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
    """Refuse a value that JSON lacks, such as a date, or NaN, which null would silently lose."""
    try:
        to_json(value)
    except (InputError, TypeError, ValueError) as error:
        problem = f"JSON cannot have the column {column!r} of this row ({error})"
        raise InputError(f"{problem}; use --format parquet", path, row) from None


class ParquetWriter:
    """Writes Parquet with the columns of the input; for JSONL, `text` and the line as `record`.

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
        """Return the columns that come from the input."""
        if self._source.format == "parquet":
            with open_parquet(self._source.path) as file:
                return file.schema_arrow
        columns = ("text",) if self._source.format == "txt" else ("text", RECORD)
        text = self._arrow.string()
        return self._arrow.schema([(name, text) for name in self._source.columns or columns])

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
            [
                {"line": row.line, "error": row.error, "content": row.content}
                if spans is None
                else None
                for row, spans in rows
            ],
        )
        new = [
            arrow.array(column, field.type)
            for column, field in zip(added, self._added, strict=True)
        ]
        old = self._columns([row for row, _ in rows])
        self._writer.write_table(arrow.table([*old, *new], schema=self._all))
        rows.clear()

    def _columns(self, rows: list[CorpusRow]) -> Iterator[Any]:
        """Yield the columns of the input."""
        # `write` keeps the rows of one RecordBatch together.
        if self._source.format == "parquet":
            return iter(rows[0].batch.columns)
        if self._source.columns:
            records = ((row.fields or {}) for row in rows)
            table = [[record.get(name) for name in self._source.columns] for record in records]
            text = self._arrow.string()
            return (self._arrow.array(column, text) for column in zip(*table, strict=True))
        texts = self._arrow.array([row.text for row in rows], self._arrow.string())
        if self._source.format == "txt":
            return iter([texts])
        lines = [row.content.decode("utf-8") if row.text is not None else None for row in rows]
        return iter([texts, self._arrow.array(lines, self._arrow.string())])

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()
