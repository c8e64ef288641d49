"""Metrics for Prometheus, which the workers add up through files in a shared folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    values,
)
from prometheus_client import multiprocess as shared

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_CHARACTERS = (16, 64, 256, 1024, 2048, 4096, 8192, 16384)


class Metrics:
    """The counters of a worker; make them before the process forks."""

    def __init__(self, folder: Path) -> None:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        # The library chose its class at the import, when this variable was not set.
        values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
        self.folder = folder
        own = CollectorRegistry()
        self.requests = Counter(
            "hanlattice_requests", "Requests by path and status", ("path", "status"), registry=own
        )
        name = "hanlattice_request_seconds"
        self.seconds = Histogram(name, "Time to answer", ("path",), registry=own, buckets=_SECONDS)
        # `livesum` leaves out workers that have ended.
        name = "hanlattice_waiting_characters"
        help = "Characters in the queue"
        self.waiting = Gauge(name, help, registry=own, multiprocess_mode="livesum")
        name = "hanlattice_batch_characters"
        help = "Characters of a batch"
        self.batches = Histogram(name, help, registry=own, buckets=_CHARACTERS)
        self.texts = Counter("hanlattice_texts", "Texts and pieces of texts computed", registry=own)
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.busy = Counter("hanlattice_compute_seconds", "Time spent in computation", registry=own)

    def request(self, path: str, status: int, seconds: float) -> None:
        # `labels` takes longer than counting.
        if (path, status) not in self._known:
            count = self.requests.labels(path, str(status))
            self._known[path, status] = count, self.seconds.labels(path)
        count, times = self._known[path, status]
        count.inc()
        times.observe(seconds)

    def batch(self, texts: int, characters: int, seconds: float, waiting: int) -> None:
        self.waiting.set(waiting)
        self.texts.inc(texts)
        self.batches.observe(characters)
        self.busy.inc(seconds)

    def page(self) -> tuple[bytes, str]:
        """Return the metrics of all workers as text for Prometheus, and its media type."""
        registry = CollectorRegistry()
        _Workers(registry, path=str(self.folder))  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


class _Workers(shared.MultiProcessCollector):
    def collect(self) -> Any:
        files = []
        for path in Path(self._path).glob("*.db"):
            # The file of a worker that has just ended may be gone.
            with contextlib.suppress(FileNotFoundError):
                # The library fails on an empty file, which a worker is making or died making.
                if path.stat().st_size > 0:
                    files.append(str(path))
        return self.merge(files)  # type: ignore[no-untyped-call]


def forget_worker(folder: Path, pid: int) -> None:
    """Remove the gauges of a worker that has ended; its counters stay."""
    shared.mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]
