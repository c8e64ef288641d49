"""The state of a worker, which admits, reads and computes requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.types import Receive

from hanlattice.server.limits import Limits, RequestError
from hanlattice.server.metrics import Metrics
from hanlattice.server.queue import Queue
from hanlattice.server.schema import CheckedRequest, ServedModel


class Service:
    """The state of a worker: models, limits, queue, and counts of the requests under way."""

    def __init__(
        self, models: Mapping[str, ServedModel], limits: Limits, metrics: Metrics, token: str = ""
    ) -> None:
        self.models = models
        self.limits = limits
        self.metrics = metrics
        self.token = token.encode()
        # Requests that were read and not answered yet, and bytes of bodies that are being read.
        self.accepted = 0
        self.arriving = 0
        self.is_draining = False
        # The tasks of requests whose bodies are still coming.
        self.reading: set[asyncio.Task[Any]] = set()
        self.queue: Queue

    def start(self) -> None:
        """Make the queue; call this in the event loop."""
        self.queue = Queue(self.models, self.limits, self.metrics.batch)

    def drain(self) -> None:
        """Accept nothing more, and give up requests whose bodies are still coming."""
        self.is_draining = True
        for task in self.reading:
            task.cancel()

    def admit(self) -> None:
        """Raise a RequestError if a new request cannot be computed; its body is not read then."""
        if self.is_draining:
            raise RequestError(503, "the server is shutting down", retry_after=1)
        if not self.queue.has_room:
            raise self.queue.full()

    def full(self) -> RequestError | None:
        """Return the refusal of a new request if the queue is full, else None."""
        return None if self.is_draining or self.queue.has_room else self.queue.full()

    async def read(
        self, receive: Callable[[], Awaitable[Any]], seconds: float, late: RequestError
    ) -> Any:
        """Wait for the client; raise `late` after some seconds, or a 503 when the server stops."""
        stopping = RequestError(503, "the server is shutting down", retry_after=1)
        if self.is_draining:
            raise stopping
        task = asyncio.current_task()
        assert task is not None
        self.reading.add(task)
        try:
            async with asyncio.timeout(seconds):
                return await receive()
        except TimeoutError:
            raise late from None
        except asyncio.CancelledError:
            # `drain` cancels too, and its clients get an answer.
            if not self.is_draining:
                raise
            raise stopping from None
        finally:
            self.reading.discard(task)

    async def compute(self, request: CheckedRequest, receive: Receive) -> list[Any] | None:
        """Return the results of a request, None when the client has gone."""
        job = self.queue.put(request)
        gone: asyncio.Future[Any] = asyncio.ensure_future(receive())
        try:
            await asyncio.wait(
                {job.future, gone}, timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if job.future.done():
                return job.future.result()
            if gone.done():
                return None
            message = f"no result within {self.limits.timeout:g} seconds"
            raise RequestError(503, message, retry_after=1)
        finally:
            gone.cancel()
            if not job.future.done():
                self.queue.cancel(job)
