"""Every task is done once, on torch's number of threads; an error arrives; a forked child can go
on.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from unittest import mock

import pytest
import torch

from hanlattice.ops import library
from hanlattice.ops import threads as ops_threads
from hanlattice.ops.threads import run_all, run_calls
from tests.helpers.patience import PATIENCE

FORK = """
import ctypes, os, torch
from hanlattice.ops import library
from hanlattice.ops.threads import run_all, run_calls

class Size(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int64)]

def go(done):
    run_all([lambda: done.append(0)] * 8)
    if not library.missing():
        call = library.function("lattice_forward", torch.float32, ctypes.c_void_p)
        assert run_calls(call, [Size(0)] * 8) == [-1] * 8
    return len(done)

torch.set_num_threads(3)
torch.ones(500_000).exp()
assert go([]) == 8
child = os.fork()
if child == 0:
    os._exit(go([]) != 8)
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_every_task_is_done_once(threads: int, count: int) -> None:
    done: list[int] = []
    run_all([partial(done.append, n) for n in range(count)])
    assert sorted(done) == list(range(count))


def test_tasks_run_at_the_same_time(threads: int) -> None:
    """Each waits for all others: with fewer threads than tasks this would never end."""
    meeting = threading.Barrier(threads, timeout=PATIENCE)
    run_all([meeting.wait] * threads)
    assert not meeting.broken


def test_an_error_arrives(threads: int) -> None:
    def fail() -> None:
        raise MemoryError("none left")

    with pytest.raises(MemoryError, match="none left"):
        run_all([fail, *[lambda: None] * 20])
    with pytest.raises(MemoryError, match="none left"):
        run_all([*[lambda: None] * 20, fail])


class Refused(ctypes.Structure):
    """A task that every C function refuses: its size is wrong."""

    _fields_ = (("size", ctypes.c_int64),)


@pytest.mark.skipif(bool(library.missing()), reason=f"no C library: {library.missing()}")
@pytest.mark.parametrize("count", [0, 1, 2, 300])
@pytest.mark.parametrize("has_openmp", [True, False])
def test_every_call_is_done(threads: int, count: int, has_openmp: bool) -> None:
    call = library.function("lattice_forward", torch.float32, ctypes.c_void_p)
    with mock.patch.object(
        ops_threads, "openmp", return_value=ops_threads.openmp() if has_openmp else None
    ):
        assert run_calls(call, [Refused(0) for _ in range(count)]) == [-1] * count


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system cannot fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=PATIENCE)
