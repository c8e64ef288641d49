"""The endpoint `POST /v1/stream`: lines of JSON in, lines of JSON out, in the same order.

A line is a request as `/v1/tag` takes it, with one text, or only the text as a JSON string. At most
`stream_lines` lines are read ahead of their results: a client that does not read its results is not
read from either. Where a single request would get 429, a stream waits for room.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from starlette.types import Receive, Scope, Send

from hanlattice.checks import json_problem
from hanlattice.data.formats.jsonl import to_json
from hanlattice.server.limits import RequestError
from hanlattice.server.queue import Job
from hanlattice.server.schema import answer, check_request, read_object
from hanlattice.server.service import Service

# The log of all other errors of the server.
_LOG = logging.getLogger("uvicorn.error")
# Seconds after which a stream asks again whether there is room.
_ROOM = 0.05
_HEADERS = [(b"content-type", b"application/x-ndjson")]


class GoneError(Exception):
    """The client has closed the connection."""


class TextStream:
    """The ASGI endpoint of `/v1/stream`."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        waiting: deque[Job | RequestError] = deque()
        service.accepted += 1
        started = False

        async def write(record: object) -> None:
            nonlocal started
            if not started:
                # Else nginx collects lines before it passes them on.
                headers = [*_HEADERS, (b"x-accel-buffering", b"no")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                started = True
            line = to_json(record).encode() + b"\n"
            async with asyncio.timeout(service.limits.stream_timeout):
                await send({"type": "http.response.body", "body": line, "more_body": True})

        async def write_first() -> None:
            await write(await self._result(waiting.popleft()))

        lines = self._lines(receive)
        reading: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                while waiting and self._is_done(waiting[0]):
                    await write_first()
                if len(waiting) >= service.limits.stream_lines:
                    await write_first()
                    continue
                reading = asyncio.ensure_future(anext(lines, None))
                # Results go out while the client thinks.
                while not reading.done() and waiting:
                    first = waiting[0]
                    futures: set[asyncio.Future[Any]] = {reading}
                    if not isinstance(first, RequestError):
                        futures.add(first.future)
                    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
                    if not reading.done():
                        await write_first()
                line = await reading
                if line is None:
                    break
                if line.strip():
                    waiting.append(await self._put(line))
            while waiting:
                await write_first()
        # Nothing more is read, but accepted lines still get their results.
        except RequestError as refused:
            while waiting:
                await write_first()
            await write(refused.as_dict())
        except (GoneError, TimeoutError):
            return
        finally:
            service.accepted -= 1
            if reading is not None:
                reading.cancel()
            for job in waiting:
                if not isinstance(job, RequestError) and not job.future.done():
                    service.queue.cancel(job)
        if not started:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lines(self, receive: Receive) -> AsyncIterator[bytes]:
        """Yield the lines of the body, without their ends."""
        service = self.service
        rest = b""
        more = True
        late = RequestError(408, f"nothing came for {service.limits.stream_timeout:g} seconds")
        while more:
            message = await service.read(receive, service.limits.stream_timeout, late)
            if message["type"] == "http.disconnect":
                raise GoneError
            *lines, rest = (rest + message.get("body", b"")).split(b"\n")
            more = message.get("more_body", False)
            for line in lines:
                yield line
            if len(rest) > service.limits.max_body:
                raise RequestError(413, f"a line is longer than {service.limits.max_body:,} bytes")
        if rest:
            yield rest

    async def _put(self, line: bytes) -> Job | RequestError:
        """Queue a line as soon as there is room, or return what is wrong with it."""
        service = self.service
        try:
            if len(line) > service.limits.max_body:
                raise RequestError(413, f"a line is longer than {service.limits.max_body:,} bytes")
            is_text = line.lstrip().startswith(b'"')
            record = {"text": json.loads(line)} if is_text else read_object(line)
            name = record.get("model")
            model = service.models.get(name) if isinstance(name, str) else None
            kind = "segment" if model is not None and model.cuts else "tag"
            request = check_request(record, kind, service.models, service.limits)
        except ValueError as error:
            return RequestError(400, f"the line is {json_problem(error)}")
        except RequestError as refused:
            return refused
        while True:
            try:
                return service.queue.put(request)
            except RequestError:
                service.queue.room.clear()
                try:
                    async with asyncio.timeout(_ROOM):
                        await service.queue.room.wait()
                except TimeoutError:
                    continue

    def _is_done(self, first: Job | RequestError) -> bool:
        return isinstance(first, RequestError) or first.future.done()

    async def _result(self, first: Job | RequestError) -> dict[str, Any]:
        """Wait for the result of a line, and return it as JSON, or an error."""
        if isinstance(first, RequestError):
            return first.as_dict()
        seconds = self.service.limits.timeout
        try:
            async with asyncio.timeout(seconds):
                return answer(first.request, await first.future)
        except TimeoutError:
            self.service.queue.cancel(first)
            return RequestError(503, f"no result within {seconds:g} seconds").as_dict()
        except RequestError as refused:
            return refused.as_dict()
        except Exception:
            # uvicorn logs an endpoint that fails, but here only one line does.
            _LOG.exception("a line of a stream failed")
            return RequestError(500, "an error of the server; its log says more").as_dict()
