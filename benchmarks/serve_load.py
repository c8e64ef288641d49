"""Load on `hanlattice serve` over the loopback, with and without micro-batches, beside FastAPI
without a queue.

    python benchmarks/serve_load.py [--seconds 8] [--workers 2] [--cores 0,2] [--connections 64]
    [--json OUT]
    python benchmarks/serve_load.py --memory 600      # only: memory of a worker under load, for so
    many seconds
    python benchmarks/serve_load.py --idle 10000      # only: answers while so many connections do
    nothing

The server has a worker for each core, or as many as `--workers` says; FastAPI computes on all of
them, in the threads of its pool. The load comes from another process, on the same cores, or on the
others if `--cores` says which ones the servers have. A request is one text of 50 characters.
Capacity is what the server with micro-batches does in a closed loop: so many connections, each
asking again once it has its answer. Then requests come at random times (an open loop) at 0.5, 1, 2
and 4 times that rate, to every server alike. A time is counted from the moment at which the request
is sent; how long after it was due that is, because the load itself gets no CPU or no connection, is
a column of its own (lag). The load runs with priority, if it may. Every accepted answer must be
what the library finds: the same spans, and scores that differ by rounding only.

Where other programs run on the same cores, compare requests per second of the server's own CPU
time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import script

from hanlattice.errors import HanlatticeError
from hanlattice.evaluation.report import Table
from hanlattice.inference.device import use_threads
from hanlattice.predict import load

TEXT = (
    "国家主席江泽民在北京会见了联合国秘书长安南，双方就国际形势和共同关心的问题交换了意见。南京市长江大桥昨天下午举行通车典礼，"
    "上海市市长徐匡迪出席并讲话。新华社记者李明从广州报道，中国人民银行行长戴相龙表示，今年将继续执行适度从紧的货币政策。"
    "北京大学教授王小东和清华大学的张三一起去了深圳，参观华为公司的总部，并和工程师们座谈。"
)
# characters of a request; how far a score may be off
LENGTH = 50
SLACK = 0.0002
LOADS = (0.5, 1.0, 2.0, 4.0)
POOL = 400  # connections of an open loop
PORT = int(os.environ.get("PORT", "8431"))
BASELINE = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
import hanlattice
from hanlattice.inference.device import use_threads
use_threads(1)
tagger = hanlattice.load(sys.argv[1])
app = FastAPI()
class Ask(BaseModel):
    text: str
@app.post("/v1/tag")
def tag(ask: Ask):
    document = tagger(ask.text)
    return {"text": document.text, "spans": [span.as_dict() for span in document.spans]}
@app.get("/ready")
def ready():
    return {}
uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)
"""
SERVERS = {
    "micro-batches": [],
    "a batch a text": ["--batch-chars", "1", "--batch-ms", "0"],
    "FastAPI": None,
}


@dataclass
class Outcome:
    """Times in seconds, of what was accepted and of what was refused."""

    accepted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    late: int = 0  # requests without an answer at the end
    seconds: float = 0.0
    cpu: tuple[float, float] = (
        0.0,
        0.0,
    )  # seconds, of the server: of its event loops, of its other threads

    @property
    def rate(self) -> float:
        """Requests per second of CPU time."""
        return len(self.accepted) / max(sum(self.cpu), 0.01)

    def row(self, server: str, load: str) -> tuple[str, ...]:
        times = sorted(self.accepted)
        refused = sorted(self.refused)
        cells = [f"{1000 * quantile(times, q):.0f}" if times else "" for q in (0.5, 0.95, 0.99)]
        total = len(times) + len(refused) + self.late
        more = f"{1000 * quantile(refused, 0.99):.0f}" if refused else ""
        share = f"{100 * len(refused) / max(1, total):.0f}%"
        rates = (f"{len(times) / self.seconds:.0f}", f"{self.rate:.0f}")
        lag = f"{1000 * quantile(sorted(self.lag), 0.99):.0f}" if self.lag else ""
        return (server, load, *rates, *cells, share, more, lag, str(self.late))


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Of a process and its children: of the first thread of each, which has the event loop, and of
    the others.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    loops = others = 0.0
    for each in (str(pid), *children):
        for task in Path(f"/proc/{each}/task").iterdir():
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            loops, others = (
                (loops + seconds, others) if task.name == each else (loops, others + seconds)
            )
    return loops, others


def quantile(times: list[float], q: float) -> float:
    return times[min(len(times) - 1, int(q * len(times)))]


class Load:
    """Requests over plain HTTP/1.1, with little work of their own."""

    def __init__(self, wanted: dict[str, list[Any]]) -> None:
        self.wanted = wanted
        self.requests: dict[str, bytes] = {}
        self.seen: dict[str, set[bytes]] = {}  # answers that were found to be right
        for text in wanted:
            body = json.dumps({"text": text}).encode()
            head = (
                f"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
                f"json\r\nContent-Length: {len(body)}"
            )
            self.requests[text] = f"{head}\r\n\r\n".encode() + body
        self.texts = list(wanted)

    async def ask(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], text: str
    ) -> int:
        reader, writer = streams
        writer.write(self.requests[text])
        head = await reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        status = int(head[9:12])
        if status == 200:
            self.check(text, body)
        elif status != 429:
            raise HanlatticeError(f"status {status}: {body.decode()}")
        return status

    def check(self, text: str, body: bytes) -> None:
        if body in self.seen.setdefault(text, set()):
            return
        spans = [
            [each["start"], each["end"], each["label"], each["score"]]
            for each in json.loads(body)["spans"]
        ]
        same = [each[:3] for each in spans] == [each[:3] for each in self.wanted[text]]
        if not same or any(
            abs(a[3] - b[3]) > SLACK for a, b in zip(spans, self.wanted[text], strict=True)
        ):
            raise HanlatticeError(f"{text}: {spans}, and the library finds {self.wanted[text]}")
        self.seen[text].add(body)

    async def closed(self, port: int, connections: int, seconds: float) -> Outcome:
        outcome = Outcome()
        end = time.perf_counter() + seconds
        began = time.perf_counter()

        async def one(nth: int) -> None:
            rng = random.Random(nth)
            streams = await asyncio.open_connection("127.0.0.1", port)
            while (start := time.perf_counter()) < end:
                status = await self.ask(streams, rng.choice(self.texts))
                (outcome.accepted if status == 200 else outcome.refused).append(
                    time.perf_counter() - start
                )
            streams[1].close()

        await asyncio.gather(*(one(nth) for nth in range(connections)))
        outcome.seconds = time.perf_counter() - began
        return outcome

    async def open(self, port: int, rate: float, seconds: float) -> Outcome:
        outcome = Outcome()
        rng = random.Random(0)
        free: asyncio.Queue[Any] = asyncio.Queue()
        for _ in range(POOL):
            free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
        tasks: set[asyncio.Task[None]] = set()

        async def one(due: float) -> None:
            streams = await free.get()
            start = time.perf_counter()
            outcome.lag.append(start - due)
            status = await self.ask(streams, rng.choice(self.texts))
            (outcome.accepted if status == 200 else outcome.refused).append(
                time.perf_counter() - start
            )
            free.put_nowait(streams)

        began = due = time.perf_counter()
        while due < began + seconds:
            due += rng.expovariate(rate)
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.create_task(one(due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        done, late = await asyncio.wait(tasks, timeout=10) if tasks else (set(), set())
        for task in done:
            task.result()
        outcome.late = len(late)
        outcome.seconds = time.perf_counter() - began
        for task in late:
            task.cancel()
        while not free.empty():
            free.get_nowait()[1].close()
        return outcome


@contextlib.contextmanager
def running(
    model: str, options: list[str] | None, cores: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-c", BASELINE, model, str(PORT)]
    if options is not None:
        program = [
            sys.executable,
            "-m",
            "hanlattice",
            "serve",
            "-m",
            model,
            "--port",
            str(PORT),
            *options,
        ]
    if cores:
        program = ["taskset", "--cpu-list", cores, *program]
    process = subprocess.Popen(
        program, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    try:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -10)  # after the server was started, which has none
        asyncio.run(ready())
        yield process
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


async def ready() -> None:
    for _ in range(600):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            writer.write(b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            if b" 200 " in await reader.readline():
                return
        except OSError:
            await asyncio.sleep(0.1)
    raise HanlatticeError("the server did not start within a minute")


def _wanted(model: str) -> dict[str, list[Any]]:
    use_threads(1)
    tagger = load(model)
    texts = [(TEXT * 2)[at : at + LENGTH] for at in range(0, len(TEXT), 2)]
    return {
        each.text: [[span.start, span.end, span.label, span.score] for span in each.spans]
        for each in tagger(texts)
    }


def _loads(options: argparse.Namespace) -> dict[str, Any]:
    load = Load(_wanted(options.model))
    rows = []
    rates: dict[str, tuple[float, float]] = {}
    parts: dict[str, list[float]] = {}
    seconds = options.seconds
    connections = options.connections
    capacity = 0.0
    if options.cores:
        os.sched_setaffinity(
            0, os.sched_getaffinity(0) - {int(each) for each in options.cores.split(",")}
        )
    for name, given in SERVERS.items():
        more = given if given is None else [*given, "--workers", str(options.workers)]
        with running(options.model, more, options.cores) as process:

            def measured(work: Coroutine[Any, Any, Outcome], pid: int = process.pid) -> Outcome:
                before = cpu_seconds(pid)
                outcome = asyncio.run(work)
                loops, others = before
                after = cpu_seconds(pid)
                outcome.cpu = after[0] - loops, after[1] - others
                return outcome

            measured(load.closed(PORT, connections, 2))
            closed = measured(load.closed(PORT, connections, seconds))
            rates[name] = len(closed.accepted) / closed.seconds, closed.rate
            parts[name] = [round(1000 * each / len(closed.accepted), 2) for each in closed.cpu]
            capacity = capacity or rates[name][0]
            rows.append(closed.row(name, f"closed, {connections}"))
            for factor in LOADS:
                print(*rows[-1], flush=True)
                rows.append(
                    measured(load.open(PORT, factor * capacity, seconds)).row(name, f"{factor:g} ×")
                )
    headings = (
        "server",
        "load",
        "accepted/s",
        "per CPU s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "refused",
        "refused p99 ms",
        "lag p99 ms",
        "late",
    )
    table = Table("", headings, tuple(rows), words=2)
    print(*table.markdown(), sep="\n")
    first = next(iter(rates.values()))
    ratio = {
        name: [round(a / b, 2) for a, b in zip(first, rate, strict=True)]
        for name, rate in rates.items()
    }
    print(
        f"\ncapacity {capacity:.0f} requests/s; times the closed loop of each, by time and by "
        f"CPU time: {ratio}"
    )
    print(f"ms of CPU a request there, in event loops and in the threads that compute: {parts}")
    record = {
        "capacity": round(capacity, 1),
        "ratio": ratio,
        "ms of CPU a request": parts,
        "table": table.as_dict(),
    }
    return {**script.facts(), **record}


def _memory(options: argparse.Namespace) -> dict[str, Any]:
    """Private memory of the worker in MB, every tenth of the time, in a closed loop with
    dictionaries in between.
    """
    load = Load(_wanted(options.model))
    found = []
    for nth, text in enumerate(load.texts):  # every third brings a word of its own
        if nth % 3 == 0:
            body = json.dumps({"text": text, "dictionary": [f"占位词{nth}"]}).encode()
            head = (
                f"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
                f"json\r\nContent-Length: {len(body)}"
            )
            load.requests[text] = f"{head}\r\n\r\n".encode() + body
    with running(options.model, []) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for _ in range(11):
            outcome = asyncio.run(load.closed(PORT, options.connections, options.memory / 11))
            rollup = (
                Path(f"/proc/{children.read_text().split()[0]}/smaps_rollup")
                .read_text()
                .splitlines()
            )
            private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private"))
            found.append(round(private / 1024, 1))
            print(
                f"{found[-1]} MB private, {len(outcome.accepted) / outcome.seconds:.0f} requests/s",
                flush=True,
            )
    return {**script.facts(), "seconds": options.memory, "private MB": found}


def _idle(options: argparse.Namespace) -> dict[str, Any]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    load = Load(_wanted(options.model))

    async def go() -> Outcome:
        writers = [
            (await asyncio.open_connection("127.0.0.1", PORT))[1] for _ in range(options.idle)
        ]
        print(f"{len(writers)} connections are open", flush=True)
        outcome = await load.closed(PORT, 4, options.seconds)
        for writer in writers:
            writer.close()
        return outcome

    with running(options.model, ["--idle-timeout", "120"]):
        row = asyncio.run(go()).row("micro-batches", f"{options.idle} idle, 4 asking")
    print(row)
    return {**script.facts(), "row": row}


def main() -> None:
    parser = script.make_parser(__doc__)
    parser.add_argument("--model", default="ner", help="the model that is served")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="of the server; FastAPI has all cores"
    )
    parser.add_argument(
        "--cores", default="", help="those of the servers, as 0,2; the load has the others"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--connections", type=int, default=64, help="of the closed loop")
    parser.add_argument("--memory", type=float, help="only: memory over so many seconds")
    parser.add_argument("--idle", type=int, help="only: with so many connections that do nothing")
    options = parser.parse_args()
    script.run(_memory if options.memory else _idle if options.idle else _loads, options)


if __name__ == "__main__":
    main()
