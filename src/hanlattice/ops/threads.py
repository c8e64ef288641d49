"""Independent pieces of work on several threads: as many as torch uses, in a process that has
loaded it.

`run_calls` is for calls of a C function: they go to the OpenMP threads that torch already has.
Between two operations these threads wait busily, so work on threads beside them would get only a
part of a core. Where there is no torch or no OpenMP library of it, and in a forked child, where
that library would hang, `run_all` does the calls on threads of its own.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

from hanlattice.errors import InputError
from hanlattice.ops import library

OPENMP = ("libgomp*", "libiomp5*", "libomp*")  # GNU's, Intel's and LLVM's; all have GOMP_parallel

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = Lock()
_is_fork = False
_asked = 0  # by `use`
MOST = 4096


def use(count: int) -> None:
    """Use so many CPU threads in one operation; 0 leaves the choice to the machine, or to torch.

    The C code gives each thread whole sentences and synchronises once a batch; each of torch's own
    operations waits for its slowest thread. More threads are faster on an idle machine; one is
    faster where other programs run.
    """
    global _asked
    if not 0 <= count <= MOST:
        raise InputError(f"threads must be from 0 to {MOST:,}, not {count}")
    _asked = count
    share_with_torch()


def share_with_torch() -> None:
    """Give torch the number of threads that `use` was given, perhaps before torch was loaded."""
    if _asked and (torch := _torch()):
        torch.set_num_threads(_asked)


def count() -> int:
    """How many threads an operation uses: torch's number if it is loaded; else what was asked for,
    or every core.
    """
    if torch := _torch():
        return int(torch.get_num_threads())
    asked = _asked or os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if str(asked).isdecimal() and int(asked) else _cores()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _torch() -> Any:
    """torch, if this process has loaded it; this module never does."""
    found = sys.modules.get("torch")
    return found if hasattr(found, "set_num_threads") else None


def run_calls(call: Any, tasks: Sequence[ctypes.Structure]) -> list[int]:
    """call(address of a task) for every task: what each returned. call is a `library.function` of
    one c_void_p.
    """
    threads = count()
    parallel = None if _is_fork or _torch() is None else openmp()
    results = (ctypes.c_int64 * len(tasks))()
    if threads > 1 and len(tasks) > 1 and parallel:
        addresses = (ctypes.c_void_p * len(tasks))(*map(ctypes.addressof, tasks))
        # As many threads as torch asks for, even if that is more than tasks: OpenMP would end those
        # left out.
        _c_run()(
            parallel, threads, ctypes.cast(call, ctypes.c_void_p), addresses, results, len(tasks)
        )
        return list(results)

    def one(n: int) -> None:
        results[n] = call(ctypes.addressof(tasks[n]))

    run_all([partial(one, n) for n in range(len(tasks))])
    return list(results)


@cache
def openmp() -> int | None:
    """The address of GOMP_parallel in the OpenMP library that torch has loaded."""
    home = Path(_torch().__file__).parent
    only_loaded = getattr(os, "RTLD_NOLOAD", None)
    if only_loaded is None:
        return None
    for file in (
        file
        for name in OPENMP
        for folder in ("lib", "../torch.libs")
        for file in home.glob(f"{folder}/{name}")
    ):
        try:
            found = ctypes.CDLL(str(file), mode=ctypes.DEFAULT_MODE | only_loaded).GOMP_parallel
        except (OSError, AttributeError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value
    return None


@cache
def _c_run() -> Any:
    """hanlattice_run in library.c, which hands out the tasks."""
    run = library.shared().hanlattice_run
    pointer = ctypes.c_void_p
    number = ctypes.c_int64
    run.argtypes = [pointer, number, pointer, pointer, pointer, number]
    run.restype = None
    return run


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Do every task, in any order; the caller's thread works too. Put the long ones first."""
    helpers = min(count(), len(tasks)) - 1
    left = iter(
        tasks
    )  # next() on a list's iterator is one step under Python's lock: no task is done twice
    pending = [_pool(helpers).submit(_work, left) for _ in range(helpers)]
    try:
        _work(left)
    finally:
        failed = [error for error in (future.exception() for future in pending) if error]
    if failed:
        raise failed[0]


def _work(left: Iterator[Callable[[], object]]) -> None:
    for task in left:
        task()


def _pool(helpers: int) -> ThreadPoolExecutor:
    with _lock:
        if helpers not in _pools:
            _pools[helpers] = ThreadPoolExecutor(helpers, thread_name_prefix="hanlattice")
        return _pools[helpers]


def _forget() -> None:
    """A child process has none of its parent's threads, and the lock may have been held when it
    began.

    torch's own operations would wait for theirs without end, so there it computes on one thread;
    and on ARM without oneDNN, whose threads there are those of another library, which cannot be
    told.
    """
    global _lock, _is_fork
    _pools.clear()
    _lock = Lock()
    _is_fork = True
    if (torch := _torch()) and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        if platform.machine() in ("aarch64", "arm64"):
            torch.backends.mkldnn.set_flags(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
