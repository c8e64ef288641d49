"""How much CPU time a new process takes until its first sentence is tagged: import, reading the model, the sentence.

    python benchmarks/startup.py [--model ner] [--text 南京市长江大桥] [--runs 5] [--json OUT.json]

Every run is a process of its own, on one thread, and every figure is the median of all runs; the whole is from the
start of the process to its end, Python's own start included. CPU time, since it depends little on what else runs here.
The first run is not counted: it may find the files on the disk alone, later ones find them in memory. Each run must
find what this process finds in the same text.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import script

from hanlattice.errors import HanlatticeError
from hanlattice.models.device import use_threads
from hanlattice.predict import load

RUN = """
import json, sys, time
start = time.process_time()
import hanlattice
from hanlattice.models.device import use_threads
use_threads(1)
imported = time.process_time()
tagger = hanlattice.load(sys.argv[1])
loaded = time.process_time()
spans = tagger(sys.argv[2]).spans
first = time.process_time()
tagger(sys.argv[2])
second = time.process_time()
times = {"import": imported - start, "reading the model": loaded - imported, "first sentence": first - loaded}
times |= {"the three together": first - start, "second sentence": second - first}
json.dump([times, [[span.start, span.end, span.label] for span in spans]], sys.stdout)
"""


def _show(options: argparse.Namespace) -> dict[str, Any]:
    seconds = _measure(options.model, options.text, options.runs)
    print("| what | seconds |\n|---|--:|")
    print("\n".join(f"| {name} | {value:.3f} |" for name, value in seconds.items()))
    named = {"model": Path(options.model).name, "text": options.text, "runs": options.runs}
    rounded = {name: round(value, 4) for name, value in seconds.items()}
    return {**script.facts(), **named, "seconds": rounded}


def _measure(model: str, text: str, runs: int) -> dict[str, float]:
    use_threads(1)
    wanted = [[span.start, span.end, span.label] for span in load(model)(text).spans]
    _run(model, text, wanted)
    times = [_run(model, text, wanted) for _ in range(runs)]
    return {name: statistics.median(each[name] for each in times) for name in times[0]}


def _run(model: str, text: str, wanted: Sequence[Any]) -> dict[str, float]:
    """One process: its times, if it has found what is wanted."""
    start = _spent()
    done = subprocess.run([sys.executable, "-c", RUN, model, text], capture_output=True, text=True, check=False)
    whole = _spent() - start
    if done.returncode:
        raise HanlatticeError(f"the process failed:\n{done.stderr}")
    times, found = json.loads(done.stdout)
    if found != wanted:
        raise HanlatticeError(f"a new process finds {found}, and this one {wanted}")
    return {**times, "the whole process": whole}


def _spent() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument("--model", default="ner", help="the name or folder of a model")
    parser.add_argument("--text", default="南京市长江大桥", help="what is tagged")
    parser.add_argument("--runs", type=int, default=5, help="processes that are timed")
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
