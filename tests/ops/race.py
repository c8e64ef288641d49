"""Everything that the C code does on several threads, called from several more: run under
ThreadSanitizer.

`python -m tests.ops.race FOLDER TIMES` with a model's folder; with `--race` only what the sanitizer
must report.
"""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import torch

from hanlattice.ops import library, threads
from tests.ops.operations import assert_same, operations

CALLERS = 3
THREADS = 3


class Task(ctypes.Structure):
    _fields_ = (("size", ctypes.c_int64),)


def main(folder: str, times: int) -> None:
    torch.set_num_threads(THREADS)
    shared = library.shared()
    parallel = ctypes.cast(shared.test_parallel, ctypes.c_void_p).value
    if folder == "--race":
        with mock.patch.object(threads, "openmp", return_value=parallel):
            threads.run_calls(shared.test_race, [Task() for _ in range(8)])
        return
    for how in (parallel, None):  # threads of OpenMP, and Python's own
        with (
            mock.patch.object(threads, "openmp", return_value=how),
            ThreadPoolExecutor(CALLERS) as pool,
        ):
            for do in operations(folder).values():
                right = do()
                for found in pool.map(lambda _, do=do: do(), range(CALLERS * times)):
                    assert_same(found, right)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
