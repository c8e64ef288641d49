"""Prepare the next batches in a thread while the device works on the current one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

X = TypeVar("X")
Y = TypeVar("Y")


def prefetch(make: Callable[[X], Y], items: Iterable[X], depth: int) -> Generator[Y]:
    """Yield `make(item)` for each item, computed in a thread up to `depth` items ahead.

    An error of `make` is raised where its result would have come. Close the generator
    (`contextlib.closing`) unless it is read to its end: that ends the thread.

    Args:
        make: Called in the thread.
        items: Iterated in the caller's thread.
        depth: 0 computes without a thread.
    """
    if not depth:
        yield from map(make, items)
        return
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
    pending: deque[Future[Y]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(make, item))
            if len(pending) > depth:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        # Wait for the running call only: nobody will read the results of the others.
        pool.shutdown(cancel_futures=True)
