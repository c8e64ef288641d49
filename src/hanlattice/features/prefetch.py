"""Prefetching: the host prepares the next batches while the device works on this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def prefetch(make: Callable[[Item], Made], items: Iterable[Item], depth: int) -> Generator[Made]:
    """`map(make, items)`, computed in a thread up to `depth` items ahead; 0 is without a thread.

    What `make` raises comes out in its turn, where the item would have come. The thread ends with
    the generator: close it (`contextlib.closing`) if it may not be read to its end.
    """
    if not depth:
        yield from map(make, items)
        return
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
    under_way: deque[Future[Made]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(make, item))
            if len(under_way) > depth:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
