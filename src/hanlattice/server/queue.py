"""The queue of a worker, from which one thread takes requests piece by piece, in batches.

All texts of a batch have one `Key`: one model, one dictionary, one set of options. The request that
has waited longest gives its next piece first, then each other request of its key, round after round
until the batch is full. So a long request fills what short ones leave, and a short one never waits
for a long one to end.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from hanlattice.document import Document
from hanlattice.errors import InputError
from hanlattice.explain import explain
from hanlattice.predict import by_score
from hanlattice.server.limits import Limits, RequestError
from hanlattice.server.schema import CheckedRequest, Key, ServedModel
from hanlattice.text.boundaries import pieces

# Extra cost of a request with a dictionary, which hardly shares a batch with others; characters.
OWN_WORDS = 256
# Results that are answered before the event loop looks at new requests, which it may refuse.
AT_ONCE = 4
# The share of the measured rate that stays after each batch.
_SLOW = 0.9


class Job:
    """A request with its pieces and their results; `future` gets a result for each text."""

    def __init__(
        self,
        request: CheckedRequest,
        future: asyncio.Future[list[Any]],
        limit: Callable[[str], int],
    ) -> None:
        self.request = request
        self.future = future
        self.is_over = False
        key = request.key
        # Explanations and readings need the whole text at once.
        bounds = (
            pieces(text, limit(key.model)) if key.kind == "documents" else [(0, len(text))]
            for text in request.texts
        )
        self.pieces = [(n, start, end) for n, row in enumerate(bounds) for start, end in row]
        self.taken = 0
        self.results: list[Any] = []
        self.left = sum(map(len, request.texts))

    @property
    def next_piece_cost(self) -> int:
        """How many characters a later request waits for because of the next piece."""
        if self.taken == len(self.pieces):
            return 0
        _, start, end = self.pieces[self.taken]
        key = self.request.key
        # `without` computes a text once for each word, of which it has about as many as characters.
        times = end - start if key.without else 2 if key.segmenter else 1
        return (end - start) * times + 1 + (OWN_WORDS if key.dictionary or key.exclude else 0)

    def take(self) -> str:
        """Return the next piece."""
        index, start, end = self.pieces[self.taken]
        self.taken += 1
        self.left -= end - start
        return self.request.texts[index][start:end]

    def put(self, result: Any) -> bool:
        """Add the result of a piece, and return whether it was the last."""
        self.results.append(result)
        return len(self.results) == len(self.pieces)

    def joined(self) -> list[Any]:
        """Return a result for each text, the same as of the library for the whole text."""
        if len(self.pieces) == len(self.request.texts):
            return self.results
        rows: list[list[tuple[int, Document]]] = [[] for _ in self.request.texts]
        for (index, start, _), result in zip(self.pieces, self.results, strict=True):
            rows[index].append((start, result))
        n = self.request.key.n
        return [_join(text, row, n) for text, row in zip(self.request.texts, rows, strict=True)]


def _join(text: str, row: Sequence[tuple[int, Document]], n: int) -> Document:
    """Return the document of a text from (start, document) of its pieces."""
    spans = tuple(span.shifted(start) for start, part in row for span in part.spans)
    shifted = (span.shifted(start) for start, part in row for span in part.candidates or ())
    candidates = tuple(sorted(shifted, key=by_score)[:n]) if n else None
    first = row[0][1]
    words = tuple(word.shifted(start) for start, part in row for word in part.words or ())
    words_or_none = None if first.words is None else words
    return Document(text, spans, candidates, words=words_or_none, cuts=first.cuts)


def compute(
    models: Mapping[str, ServedModel],
    key: Key,
    texts: Sequence[str],
    pause: Callable[[], None] | None = None,
) -> list[Any]:
    """Return the results of the library for texts with this key.

    Args:
        pause: Called between the parts of an explanation to compute others. Not called if the
            request has words or a trust of its own, which those others would see.
    """
    predictor, *segmenters = (models[name].predictor for name in (key.model, key.segmenter) if name)
    scoring: dict[str, Any] = {"scores": key.scores, "min_score": key.min_score}
    with ExitStack() as stack:
        for changed in (predictor, *segmenters):
            if key.dictionary or key.exclude:
                stack.enter_context(changed.lexicon.temporary_words(key.dictionary, key.exclude))
            if key.trust is not None:
                stack.callback(setattr, changed, "trust", changed.trust)
                changed.trust = key.trust
        if segmenters:
            arguments = texts, len(texts), segmenters[0], key.whole_names
            return list(predictor.analyse_pipe(*arguments, **scoring))
        if key.kind == "explanations":
            options = (predictor.limit, predictor.trust, predictor.threshold, key.without)
            if key.dictionary or key.exclude or key.trust is not None:
                pause = None
            return [explain(predictor.model, text, *options, pause) for text in texts]
        if key.kind == "readings":
            return [predictor.readings(text, key.n) for text in texts]
        return list(predictor.pipe(texts, len(texts), candidates=key.n, **scoring))


class Queue:
    """Jobs of the event loop, in which this is made, and the thread that computes them.

    Args:
        on_batch: Gets the texts, characters and seconds of a batch, and the characters waiting.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        limits: Limits,
        on_batch: Callable[[int, int, float, int], None] = lambda *counts: None,
    ) -> None:
        self.models = models
        self.limits = limits
        self.on_batch = on_batch
        self.loop = asyncio.get_running_loop()
        self.jobs: deque[Job] = deque()
        # The sums of `Job.next_piece_cost` and of all characters that wait.
        self.turns = self.total = 0
        # Characters a second: a guess, until batches were measured.
        self.rate = 20_000.0
        # Seconds that explanations have given to other batches.
        self.lent = 0.0
        # Guards jobs, turns, total and is_closed.
        self.condition = threading.Condition()
        self.is_closed = False
        # Set whenever a job has left the queue.
        self.room = asyncio.Event()
        self.thread = threading.Thread(target=self._work, name="hanlattice-compute", daemon=True)
        self.thread.start()

    @property
    def has_room(self) -> bool:
        # It does not depend on the request, so that one can be refused before it is read.
        return self.turns < self.limits.queue

    def put(self, request: CheckedRequest) -> Job:
        """Add a request, or raise a RequestError if there is no room."""
        future: asyncio.Future[list[Any]] = self.loop.create_future()
        job = Job(request, future, lambda name: self.models[name].predictor.limit)
        if not job.pieces:
            job.future.set_result([])
            return job
        with self.condition:
            # An explanation may fill the queue by itself: waiting, it would shut others out.
            fills = job.next_piece_cost > self.limits.queue
            is_too_much = fills or self.total + job.left > self.limits.queue_total
            if not self.has_room or (self.jobs and is_too_much):
                raise self.full()
            self.jobs.append(job)
            self.turns += job.next_piece_cost
            self.total += job.left
            self.condition.notify()
        return job

    def cancel(self, job: Job) -> None:
        """Remove a job; the result of a piece that is being computed is thrown away."""
        with self.condition:
            job.is_over = True
            if job in self.jobs:
                self.jobs.remove(job)
                self._forget(job)
        self.room.set()

    def close(self) -> None:
        """End the thread once no job waits."""
        with self.condition:
            self.is_closed = True
            self.condition.notify()

    def _forget(self, job: Job) -> None:
        self.turns -= job.next_piece_cost
        self.total -= job.left

    def full(self) -> RequestError:
        """Return the refusal of a request for which there is no room."""
        seconds = max(1, math.ceil(self.turns / self.rate))
        message = "too many requests are waiting; try again later"
        return RequestError(429, message, retry_after=seconds)

    # The thread runs what follows, apart from `_deliver`.

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            self._compute(batch)

    def _compute(self, batch: list[tuple[Job, str]]) -> None:
        key = batch[0][0].request.key
        texts = [text for _, text in batch]
        began = time.perf_counter()
        lent = self.lent
        results = self._results(key, texts)
        seconds = time.perf_counter() - began - (self.lent - lent)
        characters = sum(map(len, texts))
        if key.kind == "documents":
            self.rate = _SLOW * self.rate + (1 - _SLOW) * max(1.0, characters / max(seconds, 1e-6))
        self.on_batch(len(texts), characters, seconds, self.total)
        self.loop.call_soon_threadsafe(self._deliver, batch, results)

    def _pause(self) -> None:
        """Compute a batch of other requests, in the middle of an explanation."""
        with self.condition:
            others = (job for job in self.jobs if job.request.key.kind != "explanations")
            batch = self._take(first) if (first := next(others, None)) is not None else []
        if batch:
            began = time.perf_counter()
            self._compute(batch)
            self.lent += time.perf_counter() - began

    def _results(self, key: Key, texts: list[str]) -> list[Any]:
        """Return a result or an exception for each text, so that one does not fail the others."""
        try:
            return compute(self.models, key, texts, self._pause)
        except Exception as error:
            if len(texts) == 1:
                return [RequestError(422, str(error)) if isinstance(error, InputError) else error]
            return [self._results(key, [text])[0] for text in texts]

    def _next(self) -> list[tuple[Job, str]] | None:
        """Wait for the next batch, and return it, or None when the queue is closed."""
        with self.condition:
            end = 0.0
            while not self.is_closed or self.jobs:
                if not self.jobs:
                    self.condition.wait()
                    end = time.monotonic() + self.limits.batch_ms / 1000
                elif self.total < self.limits.batch_chars and (wait := end - time.monotonic()) > 0:
                    self.condition.wait(wait)
                else:
                    return self._take(self.jobs[0])
            return None

    def _take(self, first: Job) -> list[tuple[Job, str]]:
        """Return a batch of pieces with the key of this job, which has waited longest."""
        key = first.request.key
        others = []
        size = 0
        batch: list[tuple[Job, str]] = []
        while self.jobs and size < self.limits.batch_chars:
            job = self.jobs.popleft()
            if job.request.key != key:
                others.append(job)
                continue
            self._forget(job)
            batch.append((job, job.take()))
            # Explanations and readings are computed one by one: the first fills a batch.
            length = max(1, len(batch[-1][1]))
            size += length if key.kind == "documents" else self.limits.batch_chars
            if job.taken < len(job.pieces):
                self.jobs.append(job)
                self.turns += job.next_piece_cost
                self.total += job.left
        self.jobs.extendleft(reversed(others))
        return batch

    def _deliver(self, batch: list[tuple[Job, str]], results: list[Any]) -> None:
        self.room.set()
        if len(batch) > AT_ONCE:
            self.loop.call_soon(self._deliver, batch[AT_ONCE:], results[AT_ONCE:])
        for (job, _), result in zip(batch[:AT_ONCE], results, strict=False):
            if job.is_over or job.future.done():
                continue
            if isinstance(result, Exception):
                job.future.set_exception(result)
                self.cancel(job)
            elif job.put(result):
                job.future.set_result(job.joined())
