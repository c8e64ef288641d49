"""Service: the state of one worker, and how its requests are admitted, read and computed."""

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
    """A worker's state: models, limits, queue, and how many requests it is busy with."""

    def __init__(
        self, models: Mapping[str, ServedModel], limits: Limits, metrics: Metrics, token: str = ""
    ) -> None:
        self.models = models
        self.limits = limits
        self.metrics = metrics
        self.token = token.encode()
        # requests, bytes of bodies
        self.accepted = 0
        self.arriving = 0
        self.is_draining = False
        self.reading: set[asyncio.Task[Any]] = set()  # requests whose bodies are still coming
        self.queue: Queue

    def start(self) -> None:
        """To be called in the event loop."""
        self.queue = Queue(self.models, self.limits, self.metrics.batch)  # made in the event loop

    def drain(self) -> None:
        """From now on nothing more is accepted."""
        self.is_draining = True
        for task in self.reading:
            task.cancel()

    def admit(self) -> None:
        """Refuse at once what cannot be computed, before its body is read."""
        if self.is_draining:
            raise RequestError(503, "the server is shutting down", retry_after=1)
        if not self.queue.has_room:
            raise self.queue.full()

    def full(self) -> RequestError | None:
        """The refusal, if there is no room in the queue."""
        return None if self.is_draining or self.queue.has_room else self.queue.full()

    async def read(
        self, receive: Callable[[], Awaitable[Any]], seconds: float, late: RequestError
    ) -> Any:
        """Wait for something from the client, but not for ever, and not when the server stops."""
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
            if not self.is_draining:
                raise
            raise stopping from None
        finally:
            self.reading.discard(task)

    async def compute(self, request: CheckedRequest, receive: Receive) -> list[Any] | None:
        """The results of a request; None when the client has gone."""
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
            raise RequestError(
                503, f"no result within {self.limits.timeout:g} seconds", retry_after=1
            )
        finally:
            gone.cancel()
            if not job.future.done():
                self.queue.cancel(job)
