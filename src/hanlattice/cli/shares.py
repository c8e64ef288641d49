"""Texts shared out to threads, each of which computes on its own, as one model on one core would.

Most of the time is spent in C, which lets other threads run. These threads hardly meet; threads inside an operation do
at the end of each one, and wait busily, so that other programs on the same cores slow them down far more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np


def share_out(
    work: Callable[[list[str]], list[str]],
    texts: Iterable[str],
    batch_size: int,
    threads: int,
    ahead: bool = True,
) -> Iterator[str]:
    """The results of `work` for all texts, in their order. It is called from as many threads at a time.

    With `ahead` the next group is read while threads are busy with one. Without it the results of a group come before
    the next is waited for, as somebody who answers them line by line must have it.
    """
    from hanlattice.predict import chunks

    pool = ThreadPoolExecutor(threads, thread_name_prefix="hanlattice")
    pending: deque[Future[list[str]]] = deque()
    try:
        for group in chunks(texts, batch_size):
            pending.extend(pool.submit(work, share) for share in shares(group, threads))
            while len(pending) > (threads if ahead else 0):
                yield from pending.popleft().result()
        for last in pending:
            yield from last.result()
    finally:
        pool.shutdown(cancel_futures=True)


def shares(texts: Sequence[str], count: int) -> list[list[str]]:
    """The texts in at most `count` runs of about equally many characters; none is empty."""
    ends = np.cumsum([len(text) + 1 for text in texts])  # an empty text is work too
    edges = np.searchsorted(ends, ends[-1] * np.arange(1, count) / count, side="left") + 1
    return [list(texts[low:high]) for low, high in pairwise([0, *edges.tolist(), len(texts)]) if low < high]
