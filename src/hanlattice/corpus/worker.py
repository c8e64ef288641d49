"""Tag a shard and write its output, in a process of this machine or of a cluster."""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hanlattice.corpus.manifest import Record
from hanlattice.corpus.outputs import Hashed, Tagged, make_writer
from hanlattice.corpus.settings import CorpusSettings, digest_of, open_predictor
from hanlattice.corpus.shards import CorpusRow, Reader, Shard
from hanlattice.errors import HanlatticeError, InputError, ModelError, OutputError
from hanlattice.events import Listener
from hanlattice.files import atomic_write, bounded_name
from hanlattice.predict import TEXTS, Predictor, chunks
from hanlattice.tasks.run import Outcome

# Seconds between two reports of the progress of a shard.
PAUSE = 0.5
# Broken rows of a shard that are reported one by one.
TOLD = 10
# Bytes of an input's name that fit into the name of an output, beside its place and checksums.
LONGEST_NAME = 140
# Bytes of a path below an input whose folders the output folder repeats.
LONGEST_PATH = 1024
# Errors of one output, after which others may well be written.
_OF_ONE_OUTPUT = {
    *(errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ELOOP),
    *(errno.EACCES, errno.EPERM, errno.EILSEQ, errno.EINVAL),
}


class ShardTask(NamedTuple):
    """A shard and the name of its output, which identifies the input and the settings."""

    shard: Shard
    output: str


def output_stem(name: str) -> str:
    """Return the name of an input, shortened if it is long, for the names of its outputs."""
    if len(os.fsencode(name)) > LONGEST_PATH:
        return bounded_name(name, LONGEST_NAME).replace("/", "_")
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{bounded_name(last, LONGEST_NAME)}"


def output_name(shard: Shard, settings: CorpusSettings, digest: str) -> str:
    place = f"{shard.start:012d}-{shard.end:012d}"
    return f"{output_stem(shard.source.name)}.{place}.{shard.sha256[:8]}-{digest}.{settings.format}"


class ShardWorker:
    """Tags shards. Without a predictor it can be pickled, and loads one at its first shard."""

    def __init__(
        self, settings: CorpusSettings, out: Path, digest: str, predictor: Predictor | None = None
    ) -> None:
        self.settings = settings
        self.out = out
        self.digest = digest
        self.predictor = predictor
        self.reader = Reader(settings.field, settings.into, as_json=settings.format == "jsonl")

    def load(self) -> Predictor:
        if self.predictor is None:
            if digest_of(self.settings.identity()) != self.digest:
                problem = "the model or a dictionary has changed since this run began"
                raise ModelError(f"{self.settings.model}: {problem}")
            self.predictor = open_predictor(self.settings)
        return self.predictor

    def attempt(self, task: ShardTask, emit: Listener) -> Outcome:
        """Tag a shard; an error becomes an outcome. `emit` gets broken rows and the progress."""
        try:
            return Outcome(self.do(task, emit))
        except HanlatticeError as error:
            # After an error such as a full disk, no other output could be written either.
            is_general = isinstance(error, OutputError) and error.errno not in _OF_ONE_OUTPUT
            stops = isinstance(error, ModelError) or is_general or self.settings.strict
            return Outcome(None, str(error), is_final=stops)
        # Other shards may still succeed.
        except Exception as error:
            return Outcome(None, f"{task.shard.source.path}: {type(error).__name__}: {error}")

    def do(self, task: ShardTask, emit: Listener) -> Record:
        """Write the output of a shard, and return its record."""
        predictor = self.load()
        counts = _Counts(task.shard, emit, self.settings.strict)
        with atomic_write(self.out / task.output, binary=True) as file:
            hashed = Hashed(file)
            writer = make_writer(hashed, self.settings.format, task.shard, self.settings.into)
            for batch in self._tagged(predictor, self.reader.rows(task.shard)):
                writer.write(batch)
                counts.add(batch)
            writer.close()
            hashed.flush()
        counts.report()
        return {
            "output": task.output,
            "bytes": hashed.size,
            "sha256": hashed.sha256,
            "input": task.shard.key,
            "rows": counts.rows,
            "broken": counts.broken,
            "characters": counts.characters,
            "spans": counts.spans,
        }

    def _tagged(self, predictor: Predictor, rows: Iterable[CorpusRow]) -> Iterator[list[Tagged]]:
        """Yield batches of rows with their spans, in the order of the rows."""
        # Rows that were read: those without a text go around `pipe`.
        waiting: deque[CorpusRow] = deque()
        scores = self.settings.scores
        least = self.settings.min_score
        device = predictor.model.tagger.device_kind

        def texts() -> Iterator[str]:
            for row in rows:
                waiting.append(row)
                if row.text is not None:
                    yield row.text

        for chunk in chunks(texts(), TEXTS[device]):
            batch: list[Tagged] = []
            for document in predictor.pipe(chunk, len(chunk), scores=scores, min_score=least):
                while (row := waiting.popleft()).text is None:
                    batch.append((row, None))
                batch.append((row, document.spans))
            yield batch
        yield [(row, None) for row in waiting]


class _Counts:
    """Counts the rows of a shard, and reports them now and then."""

    def __init__(self, shard: Shard, emit: Listener, strict: bool) -> None:
        self._path = shard.source.path
        self._emit = emit
        self._strict = strict
        self._last = time.monotonic()
        self.rows = self.broken = self.characters = self.spans = self.bytes = 0

    def add(self, batch: Sequence[Tagged]) -> None:
        self.rows += len(batch)
        self.bytes += sum([row.size for row, _ in batch])
        self.characters += sum([len(row.text) for row, _ in batch if row.text])
        self.spans += sum([len(spans) for _, spans in batch if spans])
        for row in (row for row, spans in batch if spans is None):
            self.broken += 1
            if self._strict:
                raise InputError(row.error, self._path, row.line)
            if self.broken <= TOLD:
                place = {"path": str(self._path), "line": row.line}
                self._emit({"event": "broken", **place, "error": row.error})
        if time.monotonic() - self._last > PAUSE:
            self.report()

    def report(self) -> None:
        self._last = time.monotonic()
        counts = {"rows": self.rows, "bytes": self.bytes, "characters": self.characters}
        self._emit({"event": "working", **counts})
