"""Settings with which everything is measured in seconds."""

from __future__ import annotations

from hanlattice.lab.bench import BenchSettings

SMALL = BenchSettings(
    threads=1,
    batches=(1, 3),
    hidden=(4, 5),
    seconds=0.001,
    length=6,
    dim=3,
    words=40,
    texts=5,
    lengths=(4, 9),
)
