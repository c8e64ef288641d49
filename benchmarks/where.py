"""Where the time of tagging goes, and how long one sentence of 50 characters takes.

    OMP_NUM_THREADS=1 python benchmarks/where.py FILE [--model ner] [--fast]

FILE has one text a line. All figures are processor time of this thread, so that other programs on
the machine disturb them little. A part is the time inside its functions, told apart by Python's
profiler, which costs some per cent where Python does the work; `perf record` tells products and
gates apart inside C. The sentences are the first characters of the lines that have 50, each tagged
alone; the figures are the median and the 99th percentile.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from pathlib import Path

import hanlattice
from hanlattice.output import as_jsonl

PARTS = {  # a function, and the file that it is in → what it does
    ("text/boundaries.py", "pieces"): "long texts cut at sentence ends",
    ("features/indexer.py", "read"): "text to numbers, without matching",
    ("text/lexicon.py", "match_joined"): "matching",
    ("tagger.py", "inputs"): "vectors",
    ("ops/lattice_lstm/native.py", "_run"): "lattice LSTM, in C",
    ("ops/crf/native.py", "_call"): "CRF, in C",
    ("output.py", "as_jsonl"): "JSON",
}
INSIDE = {"matching": "text to numbers, without matching"}  # a part of another one
CHARACTERS = 50
SENTENCES = 500


def measure(tagger: hanlattice.Predictor, texts: list[str]) -> tuple[float, dict[str, float]]:
    """Processor seconds in all, and of each part."""
    profile = cProfile.Profile(time.thread_time)
    begin = time.thread_time()
    profile.enable()
    for document in tagger.pipe(texts):
        as_jsonl(document)
    profile.disable()
    total = time.thread_time() - begin
    parts = dict.fromkeys(PARTS.values(), 0.0)
    for (file, _, function), row in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        for (end, name), part in PARTS.items():
            if function == name and Path(file).as_posix().endswith(end):
                parts[part] += row[3]
    for inner, outer in INSIDE.items():
        parts[outer] -= parts[inner]
    return total, {**parts, "all else": total - sum(parts.values())}


def latencies(tagger: hanlattice.Predictor, texts: list[str]) -> list[float]:
    """Processor seconds of each sentence, tagged alone."""
    found = []
    for text in [text[:CHARACTERS] for text in texts if len(text) >= CHARACTERS][:SENTENCES]:
        begin = time.thread_time()
        tagger(text)
        found.append(time.thread_time() - begin)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="ner", help="the name or folder of a model")
    parser.add_argument("--fast", action="store_true", help="with weights of 8 bits")
    options = parser.parse_args()
    texts = options.file.read_text(encoding="utf-8").splitlines()
    tagger = hanlattice.load(options.model, fast=options.fast)
    list(tagger.pipe(texts[:100]))  # what is made on first use
    total, parts = measure(tagger, texts)
    size = sum(map(len, texts))
    print("| part | µs a character | share |\n|---|--:|--:|")
    for part, seconds in parts.items():
        print(f"| {part} | {seconds / size * 1e6:.2f} | {seconds / total:.1%} |")
    print(
        f"| together, {size:,} characters | {total / size * 1e6:.2f} | {size / total:,.0f} "
        f"characters/s |"
    )
    each = latencies(tagger, texts)
    slow = statistics.quantiles(each, n=100)[-1]
    print(
        f"\none sentence of {CHARACTERS}: p50 {statistics.median(each) * 1e3:.2f} ms, p99 "
        f"{slow * 1e3:.2f} ms"
    )


if __name__ == "__main__":
    main()
