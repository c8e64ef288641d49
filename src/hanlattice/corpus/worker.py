"""One shard in, one file out: what a process does that holds the model, here or elsewhere."""

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

PAUSE = 0.5  # seconds between two reports of how far a shard is
TOLD = 10  # broken rows of a shard that are reported one by one
LONGEST_NAME = (
    140  # bytes of a file's name that its outputs have in full, beside place and checksums
)
LONGEST_PATH = 1024  # bytes of the path below an input of which outputs have the folders
# What is wrong with one output, while others may well be written.
_OF_ONE_OUTPUT = {
    *(errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ELOOP),
    *(errno.EACCES, errno.EPERM, errno.EILSEQ, errno.EINVAL),
}


class ShardTask(NamedTuple):
    """A shard, and the name of its output, which says all that it comes from."""

    shard: Shard
    output: str


def output_stem(name: str) -> str:
    """The name of an input as its outputs have it: of bounded length, and no other input's."""
    if len(os.fsencode(name)) > LONGEST_PATH:
        return bounded_name(name, LONGEST_NAME).replace("/", "_")
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{bounded_name(last, LONGEST_NAME)}"


def output_name(shard: Shard, settings: CorpusSettings, digest: str) -> str:
    place = f"{shard.start:012d}-{shard.end:012d}"
    return f"{output_stem(shard.source.name)}.{place}.{shard.sha256[:8]}-{digest}.{settings.format}"


class ShardWorker:
    """Does shards. It can be pickled as long as it has no predictor; then it loads one itself, at
    its first shard.
    """

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
                raise ModelError(
                    f"{self.settings.model}: the model or a dictionary has changed since this run began"
                )
            self.predictor = open_predictor(self.settings)
        return self.predictor

    def attempt(self, task: ShardTask, emit: Listener) -> Outcome:
        """Do a shard; an error becomes an outcome. `emit` gets broken rows, and how far it is."""
        try:
            return Outcome(self.do(task, emit))
        except HanlatticeError as error:
            stops = isinstance(error, ModelError) or _stops_all(error) or self.settings.strict
            return Outcome(None, str(error), is_final=stops)
        except Exception as error:  # whatever it is, other shards may do
            return Outcome(None, f"{task.shard.source.path}: {type(error).__name__}: {error}")

    def do(self, task: ShardTask, tell: Listener) -> Record:
        """The output appears whole or not at all."""
        predictor = self.load()
        counts = _Counts(task.shard, tell, self.settings.strict)
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
            **{
                "output": task.output,
                "bytes": hashed.size,
                "sha256": hashed.sha256,
                "input": task.shard.key,
            },
            **{
                "rows": counts.rows,
                "broken": counts.broken,
                "characters": counts.characters,
                "spans": counts.spans,
            },
        }

    def _tagged(self, predictor: Predictor, rows: Iterable[CorpusRow]) -> Iterator[list[Tagged]]:
        """Rows with their spans, in their order, as many at a time as `pipe` takes."""
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


def _stops_all(error: HanlatticeError) -> bool:
    """Whether no output can be written any more, as on a full disk."""
    return isinstance(error, OutputError) and error.errno not in _OF_ONE_OUTPUT


class _Counts:
    """What a shard has so far, reported now and then."""

    def __init__(self, shard: Shard, tell: Listener, strict: bool) -> None:
        self._path = shard.source.path
        self._tell = tell
        self._strict = strict
        self._last = time.monotonic()
        self.rows = self.broken = self.characters = self.spans = self.bytes = 0

    def add(self, batch: Sequence[Tagged]) -> None:
        self.rows += len(batch)
        self.bytes += sum([row.size for row, _ in batch])
        self.characters += sum([len(row.text) for row, _ in batch if row.text])
        self.spans += sum([len(spans) for _, spans in batch if spans])
        for row, spans in batch:
            if spans is None:
                self._complain(row)
        if time.monotonic() - self._last > PAUSE:
            self.report()

    def _complain(self, row: CorpusRow) -> None:
        self.broken += 1
        if self._strict:
            raise InputError(row.error, self._path, row.line)
        if self.broken <= TOLD:
            self._tell(
                {"event": "broken", "path": str(self._path), "line": row.line, "error": row.error}
            )

    def report(self) -> None:
        self._last = time.monotonic()
        self._tell(
            {
                "event": "working",
                "rows": self.rows,
                "bytes": self.bytes,
                "characters": self.characters,
            }
        )
