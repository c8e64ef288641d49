"""A process that loads model folders with little memory: `python -m tests.checkpoint.hostile`, one
folder a line.

A folder that makes it crash, or ask for much memory, ends or limits this process and not the one
that tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.documents import ROOT

TEXTS = ["南京市长江大桥", " x 南京 ", "江大桥" * 9]
ROOM = 1 << 30  # bytes beside those of the process with everything imported


class Child:
    """The process, started when the first folder comes, and again after it crashed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def use(self, folder: Path) -> dict[str, Any]:
        """Return what `load` says of a folder, or {"crash": the signal} if it ends the process."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.checkpoint.hostile"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
        if answer := process.stdout.readline():
            return dict(json.loads(answer))
        self._process = None
        return {"crash": signal.Signals(-process.wait()).name}

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def load(folder: Path) -> dict[str, str]:
    """For each way of loading, return a digest of what the model computes, or the error."""
    from hanlattice.checkpoint.load import load_model
    from hanlattice.text.sentence import Sentence
    from tests.helpers.untrained import in_twos

    found = {}
    is_lattice = (
        json.loads((folder / "config.json").read_text("utf-8"))["config"]["model"]["encoder"]
        == "lattice"
    )
    ways: dict[str, dict[str, Any]] = {"arrays": {}, "modules": {"modules": True}}
    for way, options in (ways | ({"fast": {"fast": True}} if is_lattice else {})).items():
        try:
            model = load_model(folder, **options)
            sentences = [in_twos(Sentence(text)) for text in TEXTS]
            emissions = model.tagger.emissions(
                model.indexer.examples(sentences).batch(range(len(sentences)))
            )
            if not isinstance(emissions, np.ndarray):
                emissions = emissions.detach().numpy()
            found[way] = hashlib.sha256(np.ascontiguousarray(emissions).tobytes()).hexdigest()
        except Exception as error:
            found[way] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    import torch

    import tests.helpers.untrained  # noqa: F401 (all is imported before memory is limited)

    torch.set_num_threads(1)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(load(Path(line.rstrip("\n")))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
