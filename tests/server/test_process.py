"""Workers that die, a server that stops, a token, a queue that is full: each with a server of its
own.
"""

from __future__ import annotations

import http.client
import os
import resource
import select
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from hanlattice.client import connect
from hanlattice.errors import ServerError
from tests.helpers.command import run
from tests.helpers.patience import PATIENCE
from tests.helpers.running import Server, running, wait_for

TEXT = "王小明在青石镇工作。"


def test_a_killed_worker_comes_back_and_the_others_answer(lattice_folder):
    with running("-m", lattice_folder, "--workers", "2") as server:
        wait_for(lambda: len(server.workers()) == 2)
        before = server.workers()
        os.kill(before[0], signal.SIGKILL)
        assert connect(server.url)(TEXT).spans
        wait_for(lambda: len(server.workers()) == 2 and before[0] not in server.workers())
        assert before[1] in server.workers()
        assert [server.ask("/v1/tag", {"text": TEXT})[0] for _ in range(20)] == [200] * 20
        assert 'status="200"' in server.ask("/metrics")[1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all workers wait at one socket")
def test_connections_are_shared_evenly_by_the_workers(lattice_folder):
    with running("-m", lattice_folder, "--workers", "2") as server, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(server.socket())
        wait_for(lambda: sum(map(sockets, server.workers())) >= 200)
        assert min(map(sockets, server.workers())) > 70
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        assert (
            sum(row[1].endswith(f":{server.port:04X}") and row[3] == "0A" for row in rows) == 2
        )  # that listen


def sockets(pid: int) -> int:
    return sum("socket:" in str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_has_a_server_is_an_error(lattice_folder, workers):
    with running("-m", lattice_folder, "--workers", "2") as server:
        again = run("serve", "-m", lattice_folder, "--port", str(server.port), "--workers", workers)
        again.refused(f"cannot listen on 127.0.0.1, port {server.port}")


def flood(server: Server, stop: threading.Event, seen: list[str]) -> None:
    """One request after the other; `seen` gets how each ended."""
    while not stop.is_set():
        try:
            end = str(server.ask("/v1/tag", {"text": TEXT * 5})[0])
        except (OSError, http.client.HTTPException) as error:
            end = type(error).__name__
        seen.append(end)
        if end == "ConnectionRefusedError":
            return


def test_sigterm_in_full_load_loses_nothing_that_was_accepted(lattice_folder):
    """Answers are 200, 429 or 503 until the port is closed; and it ends with 0, so each accepted
    one was answered.
    """
    with (
        running("-m", lattice_folder, "--workers", "2", "--queue", "300") as server,
        ThreadPoolExecutor(12) as pool,
    ):
        stop = threading.Event()
        seen: list[str] = []
        floods = [pool.submit(flood, server, stop, seen) for _ in range(12)]
        wait_for(lambda: seen.count("200") > 12)
        assert server.end() == 0
        stop.set()
        for each in floods:
            each.result(PATIENCE)
    # What had not been accepted when the port was closed is refused, or reset by the kernel.
    cut = {
        "ConnectionRefusedError",
        "ConnectionResetError",
        "RemoteDisconnected",
        "BrokenPipeError",
    }
    assert {*seen} <= {"200", "429", "503"} | cut


def test_a_long_request_is_answered_after_sigterm(lattice_folder):
    with running(
        "-m", lattice_folder, "--queue-total", "2000000", "--max-body", "4000000"
    ) as server:
        with ThreadPoolExecutor(1) as pool:
            texts = [TEXT * 40] * 400
            long = pool.submit(server.ask, "/v1/tag", {"texts": texts})
            wait_for(lambda: "hanlattice_batch_characters_count 0" not in server.ask("/metrics")[1])
            server.process.send_signal(signal.SIGTERM)
            status, found, _ = long.result(PATIENCE)
        assert (status, len(found["documents"])) == (200, 400)
        assert server.process.wait(PATIENCE) == 0


def test_a_worker_is_alone_at_its_socket_once_the_server_stops(lattice_folder):
    """So that when it is done, and closes it, what comes goes to those that still answer: nothing
    waits to be reset.
    """
    with running(
        "-m", lattice_folder, "--workers", "2", "--queue-total", "2000000", "--max-body", "4000000"
    ) as server:
        with ThreadPoolExecutor(1) as pool:
            long = pool.submit(server.ask, "/v1/tag", {"texts": [TEXT * 40] * 900})
            wait_for(lambda: "hanlattice_batch_characters_count 0" not in server.ask("/metrics")[1])
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: sockets(server.process.pid) == 0)
            assert not long.done()
            assert long.result(PATIENCE)[0] == 200
        assert server.process.wait(PATIENCE) == 0


def test_workers_end_with_their_supervisor(lattice_folder):
    with running("-m", lattice_folder, "--workers", "2") as server:
        wait_for(lambda: len(server.workers()) == 2)
        server.end(signal.SIGKILL)

        def refused() -> bool:
            try:
                server.ask("/health")
            except ConnectionRefusedError:
                return True
            return False

        wait_for(refused)


def test_without_the_token_nothing_is_computed(lattice_folder, tmp_path):
    (tmp_path / "token").write_text("geheim\n")
    with running("-m", lattice_folder, "--token-file", tmp_path / "token") as server:
        assert server.ask("/v1/tag", {"text": TEXT})[0] == 401
        status, answer, headers = server.ask("/v1/models", token="falsch")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert "token" in answer["error"]["message"]
        assert server.ask("/metrics")[0] == 401
        assert server.ask("/v1/tag", {"text": TEXT}, token="geheim")[0] == 200
        assert server.ask("/health")[0] == 200
        assert server.ask("/")[0] == 200
        assert connect(server.url, token="geheim")(TEXT).spans
        with pytest.raises(ServerError, match="401"):
            connect(server.url)


def test_a_full_queue_refuses_at_once_and_the_client_tries_again(lattice_folder):
    with running("-m", lattice_folder, "--queue", "200", "--batch-chars", "100") as server:
        client = connect(server.url, retries=50)
        with ThreadPoolExecutor(16) as pool:
            codes = []

            def one(_: int) -> None:
                status, _, headers = server.ask("/v1/tag", {"text": TEXT * 9})
                codes.append(status)
                if status == 429:
                    assert int(headers["retry-after"]) >= 1

            list(pool.map(one, range(200)))
            assert {*codes} == {200, 429}
            found = list(pool.map(lambda _: client(TEXT * 9), range(48)))
        assert len({each.spans for each in found}) == 1


def test_what_takes_too_long_is_503(lattice_folder):
    with running(
        "-m", lattice_folder, "--timeout", "1", "--max-body", "9000000", "--queue-total", "9000000"
    ) as server:
        status, answer, _ = server.ask("/v1/tag", {"texts": [TEXT * 40] * 900, "candidates": 100})
        assert (status, answer["error"]["status"]) == (503, 503)
        wait_for(lambda: server.ask("/v1/tag", {"text": TEXT})[0] == 200)  # it left the queue


def test_bodies_that_arrive_together_are_bounded(lattice_folder):
    with running("-m", lattice_folder, "--max-reading", "300000") as server, ExitStack() as stack:
        head = b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
        both = [stack.enter_context(server.socket()) for _ in range(2)]
        for sock in both:
            sock.sendall(head + b" " * 190_000)
        (refused,), _, _ = select.select(both, [], [], PATIENCE)
        assert b" 429 " in refused.recv(65536)
        (accepted,) = (sock for sock in both if sock is not refused)
        accepted.sendall(b" " * 9_988 + b'{"text": ""}')
        assert b" 200 " in accepted.recv(65536)


def test_a_stream_ends_after_the_lines_that_were_read(lattice_folder):
    with running("-m", lattice_folder) as server, server.socket() as sock:
        sock.sendall(b"POST /v1/stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        line = f'"{TEXT}"\n'.encode() * 200
        sock.sendall(b"%x\r\n%b\r\n" % (len(line), line))
        got = sock.recv(1 << 16)
        server.process.send_signal(signal.SIGTERM)
        while more := sock.recv(1 << 16):
            got += more
        assert server.process.wait(PATIENCE) == 0
        assert got.count(b'"spans"') == 200
        assert got.rstrip().endswith(b"0")  # the last chunk: it is a whole answer
        assert got.count(b'"status": 503') == 1


def test_what_the_time_to_stop_does_not_suffice_for_is_reported(lattice_folder):
    options = ["--drain", "1", "--max-body", "9000000", "--queue-total", "9000000"]
    with running("-m", lattice_folder, *options) as server, ThreadPoolExecutor(1) as pool:
        long = pool.submit(server.ask, "/v1/tag", {"texts": [TEXT * 40] * 900, "candidates": 100})
        wait_for(lambda: "hanlattice_batch_characters_count 0" not in server.ask("/metrics")[1])
        assert server.end() == 1
        assert (
            isinstance(long.exception(60), (OSError, http.client.HTTPException))
            or long.result()[0] == 500
        )


def test_no_room_for_its_counters(char_folder: Path) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # noqa: E731
    refused = run("serve", "--port", "0", "-m", char_folder, preexec_fn=limit)
    refused.refused("cannot write the counters of the server", "TMPDIR")
