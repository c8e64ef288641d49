"""A process that has tagged may fork: the child tags as well, whatever computes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.patience import PATIENCE
from tests.test_build import ROOT

FORK = """
import os, signal, sys
from hanlattice.checkpoint.load import load_model
from hanlattice.ops import threads
from hanlattice.predict import Predictor

folder, kind = sys.argv[1:]
if kind != "runtime":
    import torch
    torch.set_num_threads(2)
    torch.ones(500_000).exp()  # now it has a second thread
threads.use(2)
tagger = Predictor(load_model(folder, modules=kind == "torch"))
texts = ["王小明在青石镇工作。", "昨天李芳和陈伟到白沙市开会"] * 4
before = list(tagger.pipe(texts))
for _ in range(2):  # a child, and a child of it
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) and 1)
    signal.alarm(120)
    if kind != "runtime":
        torch.ones(500_000).exp()
    tagger.lexicon.add("云栖小镇")
    for found, expected in zip(tagger.pipe(texts), before, strict=True):
        near = all(abs(a.score - b.score) < 1e-5 for a, b in zip(found.spans, expected.spans))
        if found.spans != expected.spans or not near:
            os._exit(3)
os._exit(0)
"""

COMPUTED = """
import os, signal, threading, time
from hanlattice.text.fork_safety import cached_property

class Slow:
    def __init__(self, seconds):
        self.seconds = seconds

    @cached_property
    def value(self):
        inside.set()
        time.sleep(self.seconds)
        return self.seconds

inside = threading.Event()
threading.Thread(target=lambda: Slow(0.5).value).start()
inside.wait()
if os.fork() == 0:
    signal.alarm(30)
    quick = Slow(0)
    os._exit(quick.value or "value" not in vars(quick))
_, status = os.wait()
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize(
    ("kind", "native"), [("runtime", "1"), ("runtime", "0"), ("torch beside", "1"), ("torch", "1")]
)
def test_a_forked_child_tags(lattice_folder: Path, kind: str, native: str) -> None:
    environment = {
        **os.environ,
        "HANLATTICE_NATIVE": native,
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",
    }
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(lattice_folder), kind],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_computes_what_another_thread_was_computing() -> None:
    """In Python 3.11 functools' own property has a lock, which the child would wait for without
    end.
    """
    subprocess.run([sys.executable, "-c", COMPUTED], check=True, timeout=PATIENCE)


def test_no_other_properties_are_computed_once() -> None:
    files = (ROOT / "src").rglob("*.py")
    users = {
        file.name
        for file in files
        if re.search("functools import.*cached_property", file.read_text("utf-8"))
    }
    assert users == set()
