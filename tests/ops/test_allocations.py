"""Every allocation of the C code fails once: a MemoryError, nothing leaks, and the next call is
right.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hanlattice.ops import library
from tests.test_build import ROOT, load

FAIL = """
import ctypes, sys
import torch
from hanlattice.ops import library
from tests.ops.operations import assert_same, operations

names = ("failing_at", "failing_count", "failing_live")
at, count, live = (ctypes.c_int64.in_dll(library.shared(), name) for name in names)
torch.set_num_threads(int(sys.argv[2]))
total = 0
for name, do in operations(sys.argv[1]).items():
    right = do()
    at.value, count.value = -1, 0
    before = live.value
    do()
    for n in range(count.value):
        at.value, count.value = n, 0
        try:
            do()
        except MemoryError:
            pass
        else:
            raise SystemExit(f"{name}: allocation {n} failed, and no MemoryError came")
        at.value = -1
        if live.value != before:
            leaked = live.value - before
            raise SystemExit(f"{name}: {leaked} blocks leak where allocation {n} fails")
        total += 1
    assert_same(do(), right)
print(total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the linker of Linux can wrap malloc")
@pytest.mark.skipif(bool(library.missing()), reason=f"no C library: {library.missing()}")
def test_every_allocation_fails_once(tmp_path: Path, lattice_folder: Path) -> None:
    build = load(ROOT / "hatch_build.py")
    file = tmp_path / "libhanlattice.so"
    wraps = [f"-Wl,--wrap={name}" for name in ("malloc", "aligned_alloc", "free")]
    target = build.this_machine()
    link = [str(Path(__file__).with_name("failing.c")), "-fPIC", *target.link, *wraps]
    build.build(file, target=target._replace(link=link, flags=["-O0"]))
    environment = {
        **os.environ,
        "HANLATTICE_LIBRARY": str(file),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", FAIL, str(lattice_folder), "3"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 10
