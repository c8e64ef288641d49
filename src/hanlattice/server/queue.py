"""Queue: requests wait here; one thread computes them in batches, and requests take turns piece by
piece.

A batch is texts with one `Key`: one model, one dictionary, one set of options. The request that has
waited longest gives its next piece first, then all others of its key, one piece each, round after
round until the batch is full. So a long request fills what short ones leave, and a short one never
waits for a long one to end.
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

# Characters that count for a request with words of its own, which others hardly share a batch with.
OWN_WORDS = 256
# Results that are answered before the event loop looks for requests, most of which it may have to
# refuse.
AT_ONCE = 4
_SLOW = 0.9  # of the measured rate stays with each new batch


class Job:
    """A request, its pieces, and what was found in them. `future` has a result for each text."""

    def __init__(
        self,
        request: CheckedRequest,
        future: asyncio.Future[list[Any]],
        limit: Callable[[str], int],
    ) -> None:
        self.request = request
        self.future = future
        self.is_over = False
        whole = request.key.kind != "documents"
        self.pieces = [
            (at, start, end)
            for at, text in enumerate(request.texts)
            for start, end in (
                [(0, len(text))] if whole else pieces(text, limit(request.key.model))
            )
        ]
        self.taken = 0
        self.results: list[Any] = []
        self.left = sum(map(len, request.texts))

    @property
    def next_piece_cost(self) -> int:
        """The characters that a later request waits for before it is its own turn."""
        if self.taken == len(self.pieces):
            return 0
        _, start, end = self.pieces[self.taken]
        key = self.request.key
        times = (
            end - start if key.without else 2 if key.segmenter else 1
        )  # a text has about as many words as characters
        return (end - start) * times + 1 + (OWN_WORDS if key.dictionary or key.exclude else 0)

    def take(self) -> str:
        at, start, end = self.pieces[self.taken]
        self.taken += 1
        self.left -= end - start
        return self.request.texts[at][start:end]

    def put(self, found: Any) -> bool:
        """Whether this was the last."""
        self.results.append(found)
        return len(self.results) == len(self.pieces)

    def joined(self) -> list[Any]:
        """A result for each text, from those of its pieces: what the library finds in the whole
        text.
        """
        if len(self.pieces) == len(self.request.texts):
            return self.results
        rows: list[list[tuple[int, Document]]] = [[] for _ in self.request.texts]
        for (at, start, _), found in zip(self.pieces, self.results, strict=True):
            rows[at].append((start, found))
        n = self.request.key.n
        return [_join(text, row, n) for text, row in zip(self.request.texts, rows, strict=True)]


def _join(text: str, row: Sequence[tuple[int, Document]], n: int) -> Document:
    spans = tuple(span.shifted(by) for by, found in row for span in found.spans)
    every = (span.shifted(by) for by, found in row for span in found.candidates or ())
    candidates = tuple(sorted(every, key=by_score)[:n]) if n else None
    first = row[0][1]
    words = (
        None
        if first.words is None
        else tuple(word.shifted(by) for by, found in row for word in found.words or ())
    )
    return Document(text, spans, candidates, words=words, cuts=first.cuts)


def compute(
    models: Mapping[str, ServedModel],
    key: Key,
    texts: Sequence[str],
    pause: Callable[[], None] | None = None,
) -> list[Any]:
    """What the library finds in texts, with words that nobody else sees.

    `pause` is called between the parts of an explanation, unless it has words of its own: others
    would see those.
    """
    predictor, *others = (models[name].predictor for name in (key.model, key.segmenter) if name)
    with ExitStack() as stack:
        for each in (predictor, *others):
            if key.dictionary or key.exclude:
                stack.enter_context(each.lexicon.temporary_words(key.dictionary, key.exclude))
            if key.trust is not None:
                stack.callback(setattr, each, "trust", each.trust)
                each.trust = key.trust
        if others:
            ask = texts, len(texts), others[0], key.whole_names
            return list(predictor.analyse_pipe(*ask, scores=key.scores, min_score=key.min_score))
        if key.kind == "explanations":
            model = predictor.model
            how = (predictor.limit, predictor.trust, predictor.threshold)
            may = not (key.dictionary or key.exclude or key.trust is not None)
            return [
                explain(model, text, *how, key.without, pause if may else None) for text in texts
            ]
        if key.kind == "readings":
            return [predictor.readings(text, key.n) for text in texts]
        return list(
            predictor.pipe(
                texts, len(texts), scores=key.scores, min_score=key.min_score, candidates=key.n
            )
        )


class Queue:
    """Made in the event loop's thread, which puts jobs in; the thread that it starts takes them
    out.
    """

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        limits: Limits,
        on_batch: Callable[
            [int, int, float, int], None
        ] = lambda texts, characters, seconds, waiting: None,
    ) -> None:
        self.models = models
        self.limits = limits
        self.on_batch = on_batch
        self.loop = asyncio.get_running_loop()
        self.jobs: deque[Job] = deque()
        self.turns = self.total = 0  # characters of `Job.next_piece_cost`, and all characters
        self.rate = 20_000.0  # characters a second, measured
        self.lent = 0.0  # seconds that explanations have given to others
        self.condition = threading.Condition()
        self.is_closed = False
        self.room = asyncio.Event()  # set when something has left
        self.thread = threading.Thread(target=self._work, name="hanlattice-compute", daemon=True)
        self.thread.start()

    @property
    def has_room(self) -> bool:
        """Known before a request is read, so that most are refused at little cost."""
        return self.turns < self.limits.queue

    def put(self, request: CheckedRequest) -> Job:
        job = Job(
            request, self.loop.create_future(), lambda name: self.models[name].predictor.limit
        )
        if not job.pieces:
            job.future.set_result([])
            return job
        with self.condition:
            # By itself it fills the queue, as an explanation may: waiting, it would shut others
            # out.
            fills = job.next_piece_cost > self.limits.queue
            if not self.has_room or (
                self.jobs and (fills or self.total + job.left > self.limits.queue_total)
            ):
                raise self.full()
            self.jobs.append(job)
            self.turns += job.next_piece_cost
            self.total += job.left
            self.condition.notify()
        return job

    def cancel(self, job: Job) -> None:
        """Leave the queue; what is being computed of it just now is thrown away."""
        with self.condition:
            job.is_over = True
            if job in self.jobs:
                self.jobs.remove(job)
                self._forget(job)
        self.room.set()

    def close(self) -> None:
        with self.condition:
            self.is_closed = True
            self.condition.notify()

    def _forget(self, job: Job) -> None:
        self.turns -= job.next_piece_cost
        self.total -= job.left

    def full(self) -> RequestError:
        """What a request hears for which there is no room."""
        seconds = max(1, math.ceil(self.turns / self.rate))
        return RequestError(
            429, "too many requests are waiting; try again later", retry_after=seconds
        )

    # ---- the thread

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
        """In the middle of an explanation: a batch of others, which take less."""
        with self.condition:
            others = (job for job in self.jobs if job.request.key.kind != "explanations")
            batch = self._take(first) if (first := next(others, None)) is not None else []
        if batch:
            began = time.perf_counter()
            self._compute(batch)
            self.lent += time.perf_counter() - began

    def _results(self, key: Key, texts: list[str]) -> list[Any]:
        """A result, or an exception, for each text: one that fails must not take the others with
        it.
        """
        try:
            return compute(self.models, key, texts, self._pause)
        except Exception as error:
            if len(texts) == 1:
                return [RequestError(422, str(error)) if isinstance(error, InputError) else error]
            return [self._results(key, [text])[0] for text in texts]

    def _next(self) -> list[tuple[Job, str]] | None:
        """Wait for the next batch; None when the queue was closed."""
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
        """A batch of what has the key of this job, which has waited longest of those."""
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
            size += (
                max(1, len(batch[-1][1])) if key.kind == "documents" else self.limits.batch_chars
            )
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
        for (job, _), found in zip(batch[:AT_ONCE], results, strict=False):
            if job.is_over or job.future.done():
                continue
            if isinstance(found, Exception):
                job.future.set_exception(found)
                self.cancel(job)
            elif job.put(found):
                job.future.set_result(job.joined())
