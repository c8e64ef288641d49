"""`hanlattice serve` as a process, on a free port of this machine."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.command import start
from tests.helpers.patience import PATIENCE

# Status, JSON or text, and headers
Answer = tuple[int, Any, dict[str, str]]


@dataclass
class Server:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        path: str,
        record: object = None,
        body: bytes | None = None,
        token: str = "",
        **headers: str,
    ) -> Answer:
        """Send a request, and return the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        if record is not None:
            body = json.dumps(record).encode()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request("GET" if body is None else "POST", path, body, headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        record = json.loads(content) if is_json else content.decode()
        return response.status, record, dict(response.headers)

    def socket(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def workers(self) -> list[int]:
        """Return the ids of the worker processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def end(self, number: int = signal.SIGTERM, timeout: float = PATIENCE) -> int:
        """Send a signal to the server, and return its exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(timeout)


LIMITS = ("--timeout", "--body-timeout", "--idle-timeout", "--stream-timeout", "--drain")


@contextmanager
def running(*arguments: str | Path) -> Iterator[Server]:
    """Run a server, which waits as long as the tests do unless the arguments say otherwise."""
    patient = [word for limit in LIMITS for word in (limit, str(PATIENCE))]
    with start("serve", "--port", "0", *patient, *arguments, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.stderr is not None
            line = ""
            while "http://" not in line:
                line = process.stderr.readline().decode()
                assert line, "the server has ended"
            match = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            assert match
            server = Server(process, int(match[1]))
            wait_for(lambda: server.ask("/ready")[0] == 200)
            yield server
            if process.poll() is None:
                assert server.end() == 0
        finally:
            if process.poll() is None:
                process.kill()


def wait_for(holds: Any) -> None:
    """Wait until a condition holds. While the server starts, connections fail."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if holds():
                return
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)
