"""The processes of the server: a supervisor with models and sockets, which forks workers."""

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
# After this number of workers in a row that lived less than SHORT seconds, the server gives up.
TRIES = 5
SHORT = 2.0
QUEUED = {f"/v1/{kind}".encode() for kind in REQUESTS}
# Seconds after which the thread that computes lets the event loop run, while it is in Python.
SWITCH = 0.0005
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A text for which all lazy tables are made before the fork, so that workers share them.
_WARM = "2024年，张三在New York说：你好。"


@dataclass(frozen=True)
class ServerSettings:
    """The options of `hanlattice serve`, apart from its models."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str = ""
    origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def serve(
    models: Mapping[str, Predictor], settings: ServerSettings, tell: Callable[[str], None]
) -> int:
    """Serve until SIGTERM, SIGHUP or Ctrl-C, and return the exit code.

    Args:
        models: The models by the names under which they are served.
        tell: Gets lines for the operator.
    """
    named = {name: ServedModel(name, predictor) for name, predictor in models.items()}
    for predictor in models.values():
        predictor(_WARM)
        if predictor.model.indexer.lexicon is not None:
            with predictor.lexicon.temporary_words(["张三在"]):
                predictor(_WARM)
    # As many connections as the system allows.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        listening = _listen(settings.host, settings.port, settings.workers)
        for sock in listening:
            stack.enter_context(sock)
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hanlattice-"))
            metrics = Metrics(Path(folder))
        except OSError as error:
            message = "cannot write the counters of the server to the folder of temporary files, "
            raise OutputError(f"{message}which TMPDIR names: {reason(error)}") from None
        host, port = listening[0].getsockname()[:2]
        tell(f"serving {', '.join(models)} on http://{f'[{host}]' if ':' in host else host}:{port}")
        gc.collect()
        # Else the garbage collector writes to the pages that the workers share.
        gc.freeze()
        return Supervisor(named, settings, listening, metrics, tell).run()


def _listen(host: str, port: int, workers: int) -> list[socket.socket]:
    """Open a listening socket for each worker on Linux, which balances them, else one for all.

    With one socket for all, one worker may get twice the connections of another, and be slower.
    """
    count = workers if sys.platform == "linux" else 1
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            sockets: list[socket.socket] = []
            for index in range(count):
                sock = stack.enter_context(socket.socket(family, kind, protocol))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if index:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                # With port 0 the first socket gets a free port, which the others share.
                sock.bind(sockets[0].getsockname() if sockets else address)
                # The first shares its port only now, so that another server there is an error.
                if count > 1 and not index:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sockets.append(sock)
            for sock in sockets:
                sock.listen(BACKLOG)
                sock.setblocking(False)
            # Leave them open.
            stack.pop_all()
            return sockets
    except OSError as error:
        raise InputError(f"cannot listen on {host}, port {port}: {reason(error)}") from None


@dataclass
class Supervisor:
    """Forks the workers, replaces those that end, and stops them when a signal asks for it."""

    models: Mapping[str, ServedModel]
    settings: ServerSettings
    listening: list[socket.socket]
    metrics: Metrics
    tell: Callable[[str], None]

    def run(self) -> int:
        """Run until a signal stops the server, and return the exit code."""
        watched = {*_STOPS, signal.SIGCHLD}
        # Blocked, so that no signal is lost between two calls of `sigwait`.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        # The supervisor alone holds the writing end, so its death closes the pipe of the workers.
        self.alive, self.closing = os.pipe()
        # By pid: the start time of a worker, and the socket on which it listens.
        self.workers: dict[int, tuple[float, socket.socket]] = {}
        self.short = 0
        try:
            for index in range(self.settings.workers):
                self._fork(self.listening[index % len(self.listening)])
            while True:
                if signal.sigwait(watched) in _STOPS:
                    return self._stop()
                for pid, code, listening in self._reap():
                    end = (
                        f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                    )
                    self.tell(f"worker {pid} ended ({end}); another one takes its place")
                    if self.short >= TRIES:
                        seconds = f"{SHORT:g} seconds"
                        self.tell(f"{TRIES} workers in a row ended within {seconds}: giving up")
                        self._stop()
                        return 1
                    self._fork(listening)
        finally:
            os.close(self.closing)
            os.close(self.alive)
            for sock in self.listening:
                sock.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _fork(self, listening: socket.socket) -> None:
        if pid := os.fork():
            self.workers[pid] = time.monotonic(), listening
            return
        code = 1
        try:
            os.close(self.closing)
            for sock in self.listening:
                # A connection to another worker that stops must not wait for this one.
                if sock is not listening:
                    sock.close()
            # The terminal sends these to all processes; the supervisor decides what happens.
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            code = asyncio.Runner(loop_factory=_loop_factory()).run(self._work(listening))
        except BaseException as error:
            self.tell(f"worker {os.getpid()}: {type(error).__name__}: {error}")
        finally:
            # Without the exit handlers of the parent, which would clean up twice.
            os._exit(code)

    async def _work(self, listening: socket.socket) -> int:
        # The worker needs the running event loop.
        worker = ServerWorker(self.models, self.settings, self.metrics)
        return await worker.run(listening, self.alive)

    def _reap(self) -> Iterator[tuple[int, int, socket.socket]]:
        """Yield the pid, exit code and socket of each worker that has ended."""
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
        """Let the workers finish accepted requests; kill them when time is up, or on Ctrl-C."""
        self._send(signal.SIGTERM)
        # Else a connection that comes after its worker has closed its copy waits to the end.
        for sock in self.listening:
            sock.close()
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


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    return uvicorn.Config("", loop="auto").get_loop_factory()


class ServerWorker:
    """A worker process: its event loop, and the thread that computes."""

    def __init__(
        self, models: Mapping[str, ServedModel], settings: ServerSettings, metrics: Metrics
    ) -> None:
        self.limits = settings.limits
        # Accepted requests without an answer when the time of `drain` was up.
        self.lost = 0
        self.service = Service(models, settings.limits, metrics, settings.token)
        config = uvicorn.Config(
            make_app(self.service, settings.origins),
            # A page of another origin can read a 429 only with the headers of the middleware.
            http=_protocol(self.service, is_quick=not settings.origins),
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
        # A SIGTERM that came earlier is handled now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
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
        """Stop the server once accepted requests are answered; new ones get 503 meanwhile."""
        end = time.monotonic() + self.limits.drain
        # Requests may be on their way through the kernel.
        await asyncio.sleep(0.1)
        while self.service.accepted and time.monotonic() < end:
            await asyncio.sleep(0.02)
        self.lost = self.service.accepted
        self.server.should_exit = True

    async def _sweep(self) -> None:
        """Close idle connections, on which a client could send half a header, or read, for ever."""
        # By connection: since when it is idle, and the bytes that were to be sent then.
        idle: dict[Any, tuple[float, int]] = {}
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
        """Leave the signals to ServerWorker."""
        yield


class _Refused:
    """Stands for a request that was refused before uvicorn handled it; its body is skipped."""

    response_complete = True
    message_event = asyncio.Event()


def _protocol(service: Service, is_quick: bool) -> type[HttpToolsProtocol]:
    """Return uvicorn's protocol, with a limit for headers that do not end.

    `AuthMetricsMiddleware` refuses long headers that do end.

    Args:
        is_quick: Whether to refuse requests before a task is made for them when the queue is full.
            Under overload most requests are refused, which must cost little time.
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
            # Answers to pipelined requests must keep their order.
            is_first = self.cycle is None or self.cycle.response_complete
            refused = service.full() if is_quick and is_first and self.url in QUEUED else None
            if refused is None:
                super().on_headers_complete()
                return
            self.cycle = _Refused()  # type: ignore[assignment]
            self.transport.write(_as_bytes(refused.status, refused.message, refused.retry_after))
            service.metrics.request(self.url.decode(), refused.status, 0.0)
            if not self.parser.should_keep_alive():
                self.transport.close()

        def on_message_complete(self) -> None:
            self.header_bytes = 0
            self.is_body = False
            super().on_message_complete()

    return Protocol


@lru_cache
def _as_bytes(status: int, message: str, retry_after: int) -> bytes:
    body = to_json(RequestError(status, message).as_dict()).encode()
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "content-type: application/json",
        f"retry-after: {retry_after}",
        f"content-length: {len(body)}",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + body
