"""Every allocation of the C code fails once: a MemoryError, nothing leaks, and the next call is right."""

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
import numpy as np, torch
from hanlattice.bench.equality import SMALL, LSTMCase
from hanlattice.ops import library
from hanlattice.ops.crf import differentiable as crf
from hanlattice.predict import load
from tests.ops.test_crf_native import everything, make

lib = library.shared()
at, count, live = (ctypes.c_int64.in_dll(lib, f"failing_{name}") for name in ("at", "count", "live"))
case = LSTMCase.draw(SMALL, 5).to("cpu", torch.float32)
quick, plain = (load(sys.argv[1], fast=fast) for fast in (True, False))
text = "王小明在青石镇工作。昨天李芳到白沙市开会"

def spans(documents):
    return {"spans": torch.tensor([[s.start, s.end, s.score or 0] for d in documents for s in d.spans])}

operations = {
    "lattice": lambda: case.values("native"),
    "chain": lambda: everything(crf, make(0, 4, 9, 5)),
    "text": lambda: spans(plain([text] * 3)),
    "readings": lambda: spans(plain.readings(text, 3)),
    "candidates": lambda: {"count": torch.tensor(len(list(plain.pipe([text], candidates=5))[0].candidates))},
    "8 bits": lambda: spans(quick([text] * 3)),
}
torch.set_num_threads(int(sys.argv[2]))
total = 0
for name, do in operations.items():
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
            raise SystemExit(f"{name}: {live.value - before} blocks leak where allocation {n} fails")
        total += 1
    again = do()
    for key, value in right.items():
        torch.testing.assert_close(again[key], value, equal_nan=True)
print(total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the linker of Linux can wrap malloc")
@pytest.mark.skipif(bool(library.missing()), reason=f"no C library: {library.missing()}")
def test_every_allocation_fails_once(tmp_path: Path, lattice_folder: Path) -> None:
    build, file = load(ROOT / "hatch_build.py"), tmp_path / "libhanlattice.so"
    wraps = [f"-Wl,--wrap={name}" for name in ("malloc", "aligned_alloc", "free")]
    target = build.this_machine()
    link = [str(Path(__file__).with_name("failing.c")), "-fPIC", *target.link, *wraps]
    build.build(file, target=target._replace(link=link, flags=["-O0"]))
    environment = {**os.environ, "HANLATTICE_LIBRARY": str(file), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FAIL, str(lattice_folder), "3"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 10
