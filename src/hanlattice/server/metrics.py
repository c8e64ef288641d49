"""Metrics for Prometheus: of all workers together, through files in a folder that they share."""

from __future__ import annotations

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
    """Make it before the process forks."""

    def __init__(self, folder: Path) -> None:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]  # it was chosen at the import
        self.folder = folder
        own = CollectorRegistry()
        self.requests = Counter(
            "hanlattice_requests", "Requests by path and status", ("path", "status"), registry=own
        )
        self.seconds = Histogram(
            "hanlattice_request_seconds",
            "Time to answer",
            ("path",),
            registry=own,
            buckets=_SECONDS,
        )
        self.waiting = Gauge(
            "hanlattice_waiting_characters",
            "Characters in the queue",
            registry=own,
            multiprocess_mode="livesum",
        )
        self.batches = Histogram(
            "hanlattice_batch_characters",
            "Characters of a batch",
            registry=own,
            buckets=_CHARACTERS,
        )
        self.texts = Counter("hanlattice_texts", "Texts and pieces of texts computed", registry=own)
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.busy = Counter("hanlattice_compute_seconds", "Time spent in computation", registry=own)

    def request(self, path: str, status: int, seconds: float) -> None:
        if (path, status) not in self._known:  # `labels` takes longer than to count
            self._known[path, status] = (
                self.requests.labels(path, str(status)),
                self.seconds.labels(path),
            )
        count, times = self._known[path, status]
        count.inc()
        times.observe(seconds)

    def batch(self, texts: int, characters: int, seconds: float, waiting: int) -> None:
        self.waiting.set(waiting)
        self.texts.inc(texts)
        self.batches.observe(characters)
        self.busy.inc(seconds)

    def page(self) -> tuple[bytes, str]:
        """What Prometheus reads, and its media type."""
        every = CollectorRegistry()
        _Workers(every, path=str(self.folder))  # type: ignore[no-untyped-call]
        return generate_latest(every), CONTENT_TYPE_LATEST


class _Workers(shared.MultiProcessCollector):
    def collect(self) -> Any:
        """Of all files but empty ones, which are an error: a worker is making one, or was killed
        when it did.
        """
        files = [str(each) for each in Path(self._path).glob("*.db") if _has_content(each)]
        return self.merge(files)  # type: ignore[no-untyped-call]


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:  # a worker's that has just gone
        return False


def forget_worker(folder: Path, pid: int) -> None:
    """What a worker that has gone counted stays; its gauges do not."""
    shared.mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]
