"""Run independent pieces of work on several threads: on as many as torch uses, if it is loaded.

`run_calls` runs a C function on the OpenMP threads of torch. Between two operations these threads
wait busily, so threads beside them would get only a part of a core. `run_all` runs Python functions
on threads of its own. `run_calls` uses them too where torch or its OpenMP library is missing, and
in a forked child, where that library would hang.
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

# The OpenMP libraries of GNU, Intel and LLVM. All of them have GOMP_parallel.
OPENMP = ("libgomp*", "libiomp5*", "libomp*")
MOST = 4096

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = Lock()
_is_fork = False
# The number given to `use`.
_wanted = 0


def use(count: int) -> None:
    """Use `count` CPU threads in one operation; 0 leaves the choice to torch or to the machine.

    The C code gives each thread whole sentences and synchronises once a batch; each of torch's own
    operations waits for its slowest thread. More threads are faster on an idle machine; one is
    faster where other programs run.
    """
    global _wanted
    if not 0 <= count <= MOST:
        raise InputError(f"threads must be from 0 to {MOST:,}, not {count}")
    _wanted = count
    share_with_torch()


def share_with_torch() -> None:
    """Give torch the number of threads of `use`, which may have been called before its import."""
    if _wanted and (torch := _torch()):
        torch.set_num_threads(_wanted)


def count() -> int:
    """Return the number of threads of an operation.

    It is torch's number if torch is loaded, else the number given to `use`, else OMP_NUM_THREADS as
    it was at the first call, else one thread for each core.
    """
    if torch := _torch():
        return int(torch.get_num_threads())
    return _wanted or _default_count()


@cache
def _default_count() -> int:
    environment = os.environ.get("OMP_NUM_THREADS", "")
    if environment.isdecimal() and int(environment):
        return int(environment)
    # The cores that this process may use can be fewer than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _torch() -> Any:
    """Return torch if this process has loaded it; this module never imports it."""
    torch = sys.modules.get("torch")
    # While another thread imports torch, its module exists without its functions.
    return torch if hasattr(torch, "set_num_threads") else None


def run_calls(call: Any, tasks: Sequence[ctypes.Structure]) -> list[int]:
    """Call a C function with the address of each task.

    Args:
        call: A `library.function` with one parameter, a c_void_p.
        tasks: What it is called with, in any order.

    Returns:
        What it returned for each task.
    """
    threads = count()
    if threads == 1 or len(tasks) == 1:
        return [call(ctypes.addressof(task)) for task in tasks]
    results = (ctypes.c_int64 * len(tasks))()
    if len(tasks) > 1 and not _is_fork and _torch() and (parallel := openmp()):
        addresses = (ctypes.c_void_p * len(tasks))(*map(ctypes.addressof, tasks))
        # As many threads as torch asks for, even if there are fewer tasks: OpenMP would end the
        # threads left out.
        _c_run()(
            parallel, threads, ctypes.cast(call, ctypes.c_void_p), addresses, results, len(tasks)
        )
        return list(results)

    def run_one(n: int) -> None:
        results[n] = call(ctypes.addressof(tasks[n]))

    run_all([partial(run_one, n) for n in range(len(tasks))])
    return list(results)


@cache
def openmp() -> int | None:
    """Return the address of GOMP_parallel in the OpenMP library that torch has loaded."""
    # With RTLD_NOLOAD a file opens only if it is loaded already: a second OpenMP would have threads
    # of its own.
    only_loaded = getattr(os, "RTLD_NOLOAD", None)
    if only_loaded is None:
        return None
    home = Path(_torch().__file__).parent
    for name in OPENMP:
        for file in (*home.glob(f"lib/{name}"), *home.glob(f"../torch.libs/{name}")):
            try:
                opened = ctypes.CDLL(str(file), mode=ctypes.DEFAULT_MODE | only_loaded)
                return ctypes.cast(opened.GOMP_parallel, ctypes.c_void_p).value
            except (OSError, AttributeError):
                continue
    return None


@cache
def _c_run() -> Any:
    """Return hanlattice_run of library.c, which hands out the tasks."""
    run = library.shared().hanlattice_run
    pointer = ctypes.c_void_p
    number = ctypes.c_int64
    run.argtypes = [pointer, number, pointer, pointer, pointer, number]
    run.restype = None
    return run


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Run every task, in any order; the caller's thread works too. Put the long ones first."""
    helpers = min(count(), len(tasks)) - 1
    # next() on a list's iterator is one step under Python's lock: no task is done twice.
    remaining = iter(tasks)
    pending = []
    if helpers > 0:
        with _lock:
            if helpers not in _pools:
                _pools[helpers] = ThreadPoolExecutor(helpers, thread_name_prefix="hanlattice")
            pool = _pools[helpers]
        pending = [pool.submit(_work, remaining) for _ in range(helpers)]
    try:
        _work(remaining)
    finally:
        # exception() waits: when this function returns, nobody uses the memory of a task any more.
        errors = [error for future in pending if (error := future.exception())]
    if errors:
        raise errors[0]


def _work(tasks: Iterator[Callable[[], object]]) -> None:
    for task in tasks:
        task()


def _after_fork() -> None:
    """Forget the threads of the parent process, of which its child has none."""
    global _lock, _is_fork
    _pools.clear()
    _default_count.cache_clear()
    # Another thread may have held the old lock when the child began.
    _lock = Lock()
    _is_fork = True
    # torch's own operations would wait for their threads without end.
    if (torch := _torch()) and torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        # On ARM, oneDNN runs on threads of another library, whose number cannot be set.
        if platform.machine() in ("aarch64", "arm64"):
            torch.backends.mkldnn.set_flags(False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
