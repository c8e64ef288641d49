"""Processes: one loads the models and opens the sockets; the workers that it forks use both, and
are replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hanlattice.data.formats.jsonl import to_json
from hanlattice.errors import InputError, OutputError
from hanlattice.files import reason
from hanlattice.predict import Predictor
from hanlattice.server.app import make_app
from hanlattice.server.limits import Limits, RequestError
from hanlattice.server.metrics import Metrics, forget_worker
from hanlattice.server.schema import REQUESTS, ServedModel
from hanlattice.server.service import Service

BACKLOG = 2048
# a worker that lives shorter, so often in a row, is not started again
TRIES = 5
SHORT = 2.0
QUEUED = {f"/v1/{kind}".encode() for kind in REQUESTS}
# Seconds after which the thread that computes lets the event loop run, while it is in Python.
SWITCH = 0.0005
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Makes the tables that are made at their first use, so that workers share them.
_WARM = "2024年，张三在New York说：你好。"


@dataclass(frozen=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str = ""
    origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def serve(
    models: Mapping[str, Predictor], settings: ServerSettings, tell: Callable[[str], None]
) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C; the exit code. `tell` gets a line for what an operator
    wants to know.
    """
    named = {name: ServedModel(name, predictor) for name, predictor in models.items()}
    for predictor in models.values():
        _warm(predictor)
    _raise_file_limit()
    with contextlib.ExitStack() as stack:
        listening = _listen(settings.host, settings.port, settings.workers)
        for each in listening:
            stack.enter_context(each)
        try:
            metrics = Metrics(
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hanlattice-")))
            )
        except OSError as error:
            message = "cannot write the counters of the server to the folder of temporary files, which TMPDIR names"
            raise OutputError(f"{message}: {reason(error)}") from None
        host, port = listening[0].getsockname()[:2]
        tell(f"serving {', '.join(models)} on http://{f'[{host}]' if ':' in host else host}:{port}")
        gc.collect()
        gc.freeze()  # else the collector writes to the pages that the workers share
        return Supervisor(named, settings, listening, metrics, tell).run()


def _warm(predictor: Predictor) -> None:
    predictor(_WARM)
    if predictor.model.indexer.lexicon is not None:
        with predictor.lexicon.temporary_words(["张三在"]):
            predictor(_WARM)


def _listen(host: str, port: int, workers: int) -> list[socket.socket]:
    """A socket for each worker where the system shares connections evenly among them, else one for
    all.

    Workers that wait at one socket take what they can: one may have twice the connections of
    another, and is slower.
    """
    count = workers if sys.platform == "linux" else 1
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            sockets = [
                stack.enter_context(socket.socket(family, kind, protocol)) for _ in range(count)
            ]
            for nth, each in enumerate(sockets):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if nth:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                each.bind(sockets[0].getsockname() if nth else address)
                if (
                    count > 1 and not nth
                ):  # only now, so that another server at this address is an error
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            for each in sockets:
                each.listen(BACKLOG)
                each.setblocking(False)
            stack.pop_all()
            return sockets
    except OSError as error:
        raise InputError(f"cannot listen on {host}, port {port}: {reason(error)}") from None


def _raise_file_limit() -> None:
    """As many connections as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@dataclass
class Supervisor:
    models: Mapping[str, ServedModel]
    settings: ServerSettings
    listening: list[socket.socket]
    metrics: Metrics
    tell: Callable[[str], None]

    def run(self) -> int:
        """Fork the workers, and wait for signals; none is lost, since they are blocked while it
        does something.
        """
        watched = {*_STOPS, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        self.alive, self.closing = (
            os.pipe()
        )  # workers notice when nobody holds its other end any more
        self.workers: dict[
            int, tuple[float, socket.socket]
        ] = {}  # since when, and where it listens
        self.short = 0
        try:
            for nth in range(self.settings.workers):
                self._fork(self.listening[nth % len(self.listening)])
            while True:
                if signal.sigwait(watched) in _STOPS:
                    return self._stop()
                for pid, code, listening in self._reap():
                    self.tell(f"worker {pid} ended ({_ending(code)}); another one takes its place")
                    if self.short >= TRIES:
                        self.tell(
                            f"{TRIES} workers in a row ended within {SHORT:g} seconds: giving up"
                        )
                        self._stop()
                        return 1
                    self._fork(listening)
        finally:
            os.close(self.closing)
            os.close(self.alive)
            for each in self.listening:
                each.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _fork(self, listening: socket.socket) -> None:
        if pid := os.fork():
            self.workers[pid] = time.monotonic(), listening
            return
        code = 1
        try:
            os.close(self.closing)
            for other in self.listening:
                if other is not listening:
                    # What comes there while its worker stops must not wait for this one.
                    other.close()
            for number in (
                signal.SIGINT,
                signal.SIGHUP,
            ):  # they go to all: the supervisor says what happens
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            code = asyncio.Runner(loop_factory=_loop_factory()).run(self._work(listening))
        except BaseException as error:
            self.tell(f"worker {os.getpid()}: {type(error).__name__}: {error}")
        finally:
            os._exit(code)  # nothing of the parent's is cleaned up twice

    async def _work(self, listening: socket.socket) -> int:
        return await ServerWorker(self.models, self.settings, self.metrics).run(
            listening, self.alive
        )

    def _reap(self) -> Iterator[tuple[int, int, socket.socket]]:
        """The workers that have ended, how, and where they listened."""
        while self.workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if (worker := self.workers.pop(pid, None)) is None:
                continue
            began, listening = worker
            self.short = self.short + 1 if time.monotonic() - began < SHORT else 0
            forget_worker(self.metrics.folder, pid)
            yield pid, os.waitstatus_to_exitcode(status), listening

    def _stop(self) -> int:
        """Let the workers finish what they accepted; what takes too long is killed, at once by
        Ctrl-C.
        """
        self._send(signal.SIGTERM)
        for each in (
            self.listening
        ):  # else what comes after a worker has closed its own waits until that has ended
            each.close()
        end = time.monotonic() + self.settings.limits.drain + 5
        codes = list[int]()
        while self.workers:
            codes.extend(code for _, code, _ in self._reap())
            if time.monotonic() >= end or signal.SIGINT in signal.sigpending():
                self._send(signal.SIGKILL)
            time.sleep(0.02)
        return 0 if not any(codes) else 1

    def _send(self, number: int) -> None:
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    return uvicorn.Config("", loop="auto").get_loop_factory()


class ServerWorker:
    """One process: the event loop, and the thread that computes."""

    def __init__(
        self, models: Mapping[str, ServedModel], settings: ServerSettings, metrics: Metrics
    ) -> None:
        # requests that were accepted, and not answered within `drain`
        self.limits = settings.limits
        self.lost = 0
        self.service = Service(models, settings.limits, metrics, settings.token)
        config = uvicorn.Config(
            make_app(self.service, settings.origins),
            http=_protocol(
                self.service, is_quick=not settings.origins
            ),  # a page elsewhere needs headers with a 429
            ws="none",
            lifespan="off",
            log_level="error",
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=max(1, int(settings.limits.idle_timeout)),
            timeout_graceful_shutdown=2,
        )
        self.server = _Server(config)

    async def run(self, listening: socket.socket, alive: int) -> int:
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(SWITCH)
        self.service.start()
        loop.add_signal_handler(signal.SIGTERM, self._drain)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)  # one that came before is heard now
        loop.add_reader(alive, self._orphaned, alive)
        sweeping = asyncio.create_task(self._sweep())
        await self.server.serve(sockets=[listening])
        sweeping.cancel()
        self.service.queue.close()
        return 1 if self.lost else 0

    def _orphaned(self, alive: int) -> None:
        asyncio.get_running_loop().remove_reader(alive)
        self._drain()

    def _drain(self) -> None:
        if not self.service.is_draining:
            self.service.drain()
            self._draining = asyncio.ensure_future(self._finish())

    async def _finish(self) -> None:
        """Answer what was accepted; meanwhile new requests get 503. Then close."""
        end = time.monotonic() + self.limits.drain
        await asyncio.sleep(0.1)  # for those that are on their way through the kernel
        while self.service.accepted and time.monotonic() < end:
            await asyncio.sleep(0.02)
        self.lost = self.service.accepted
        self.server.should_exit = True

    async def _sweep(self) -> None:
        """Close connections on which nothing is under way, which would else send half a header, or
        read, for ever.
        """
        idle: dict[
            Any, tuple[float, int]
        ] = {}  # since when, and the bytes that were still to be sent then
        while True:
            await asyncio.sleep(min(1.0, self.limits.idle_timeout / 4))
            now = time.monotonic()
            still = {}
            for connection in self.server.server_state.connections:
                cycle: Any = getattr(connection, "cycle", None)
                if cycle is None or cycle.response_complete:
                    left = connection.transport.get_write_buffer_size()
                    since, before = idle.get(connection, (now, left))
                    still[connection] = (since, left) if left == before else (now, left)
                    if now - still[connection][0] > self.limits.idle_timeout:
                        connection.transport.abort()
            idle = still


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the worker's."""
        yield


class _Refused:
    """In the place of a request that was answered before uvicorn made one of it: what else comes of
    it is skipped.
    """

    response_complete = True
    message_event = asyncio.Event()


def _protocol(service: Service, is_quick: bool) -> type[HttpToolsProtocol]:
    """uvicorn's protocol, which also closes connections whose headers do not end.

    `AuthMetricsMiddleware` refuses long headers that do. If it `is_quick`, it refuses by itself
    what there is no room for, before a task is made of it: under overload most requests are
    refused, and the time that this takes is missing for the others.
    """

    class Protocol(HttpToolsProtocol):
        header_bytes = 0
        is_body = False

        def data_received(self, data: bytes) -> None:
            self.header_bytes += len(data)
            super().data_received(data)
            if not self.is_body and self.header_bytes > service.limits.max_header:
                self.transport.close()

        def on_headers_complete(self) -> None:
            self.is_body = True
            is_first = (
                self.cycle is None or self.cycle.response_complete
            )  # of those that wait on this connection
            if (
                is_quick
                and is_first
                and self.url in QUEUED
                and (refused := service.full()) is not None
            ):
                self.cycle = _Refused()  # type: ignore[assignment]
                self.transport.write(
                    _as_bytes(refused.status, refused.message, refused.retry_after)
                )
                service.metrics.request(self.url.decode(), refused.status, 0.0)
                if not self.parser.should_keep_alive():
                    self.transport.close()
            else:
                super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.header_bytes = 0
            self.is_body = False
            super().on_message_complete()

    return Protocol


@lru_cache
def _as_bytes(status: int, message: str, retry_after: int) -> bytes:
    body = to_json(RequestError(status, message).as_dict()).encode()
    headers = f"content-type: application/json\r\nretry-after: {retry_after}\r\ncontent-length: {len(body)}"
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{headers}\r\n\r\n".encode() + body
