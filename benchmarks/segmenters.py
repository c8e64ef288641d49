"""Word segmenters on one gold file: how well they cut it, and how fast, from file to file on
two cores.

    python benchmarks/segmenters.py --gold corpora/cws/pku/test.txt --train \
        corpora/cws/pku/train.txt \
        --holdout 0.1 --model lattice=runs/pku-lattice [--model NAME=FOLDER …] [--with jieba] \
            [--with rjieba] \
        [--json OUT.json]

Each segmenter is a program of its own that reads a file and writes one, on the first two cores
that this process may
use: `hanlattice segment` as it comes; jieba with `enable_parallel(2)` (pip install jieba: it is
no dependency); rjieba
in two processes (pip install 'hanlattice[segment]'). None is told of the training words; ours
had them in training.

First each must give the gold text back, with nothing but spaces added. Then its words are
scored, as the bakeoff does
it. Then the text, repeated until it is long enough, is timed, loading of the models and
dictionaries included: they
take turns, and the figure is the median. Ratios are to the first segmenter of the table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import script
import torch

from hanlattice.data.corpus import hold_out
from hanlattice.data.formats.segmented import from_words, read_segmented
from hanlattice.errors import HanlatticeError, InputError
from hanlattice.evaluation.report import percent
from hanlattice.evaluation.segmentation import SegmentationReport, score_segmentation, words_in
from hanlattice.files import atomic_write, read_lines, sha256
from hanlattice.lab.bench.timing import Timing, machine, medians, versions
from hanlattice.optional import installed
from hanlattice.text.sentence import Sentence

OURS = "from hanlattice.cli import main; main()"
JIEBA = r"""
import logging, sys, jieba
jieba.setLogLevel(logging.ERROR)
jieba.enable_parallel(2)
with open(sys.argv[1], encoding="utf-8", newline="\n") as file:
    words = jieba.cut(file.read())
with open(sys.argv[2], "w", encoding="utf-8", newline="\n") as file:
    file.write(" ".join(words).replace(" \n", "\n").replace("\n ", "\n"))
"""
RJIEBA = r"""
import multiprocessing, sys, rjieba
def cut(line):
    return " ".join(rjieba.cut(line.rstrip("\n"))) + "\n"
with open(sys.argv[1], encoding="utf-8", newline="\n") as file, multiprocessing.Pool(2) as pool:
    with open(sys.argv[2], "w", encoding="utf-8", newline="\n") as out:
        out.writelines(pool.imap(cut, file, 256))
"""
INSTALL = {"jieba": "pip install jieba", "rjieba": "pip install 'hanlattice[segment]'"}


@dataclass(frozen=True)
class Segmenter:
    """A program that is given the file to read and the file to write."""

    name: str
    code: str
    before: tuple[str, ...] = ()  # arguments that come first
    between: tuple[str, ...] = ()  # and before the output

    def run(self, source: Path, out: Path) -> None:
        command = [
            sys.executable,
            "-c",
            self.code,
            *self.before,
            str(source),
            *self.between,
            str(out),
        ]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise HanlatticeError(f"{self.name} failed:\n{done.stderr}")


def segmenters(models: Sequence[str], others: Sequence[str]) -> list[Segmenter]:
    """Those to be compared, ours first."""
    found = []
    for given in models:
        name, equals, folder = given.partition("=")
        if not (name and equals and folder):
            raise InputError(f"--model wants NAME=FOLDER, not {given!r}")
        found.append(Segmenter(name, OURS, ("segment", "-m", folder), ("--out",)))
    for name in others:
        if installed(name) is None:
            raise HanlatticeError(f"{name} is not installed: {INSTALL[name]}")
        found.append(Segmenter(name, {"jieba": JIEBA, "rjieba": RJIEBA}[name]))
    if len({each.name for each in found}) < max(1, len(found)):
        raise InputError(
            "give at least one segmenter, --model NAME=FOLDER or --with jieba, and no name twice"
        )
    return found


def score(
    segmenter: Segmenter, gold: Sequence[Sentence], known: set[str], folder: Path
) -> SegmentationReport:
    """Its score; a text that does not come back is an error."""
    texts = [sentence.text for sentence in gold]
    source = folder / "gold.txt"
    out = folder / f"{segmenter.name}.txt"
    write(source, texts)
    segmenter.run(source, out)
    found = [from_words(line.split()) for _, line in read_lines(out)]
    if [sentence.text for sentence in found] != texts:
        at = next(
            (n for n, (a, b) in enumerate(zip(found, texts, strict=False)) if a.text != b),
            len(found),
        )
        raise HanlatticeError(
            f"{segmenter.name} does not give the text back: line {at + 1} of {len(texts)}"
        )
    return score_segmentation(
        texts, [s.spans or () for s in gold], [s.spans or () for s in found], known
    )


def write(path: Path, texts: Sequence[str]) -> None:
    with atomic_write(path) as file:
        file.writelines(f"{text}\n" for text in texts)


def repeated(gold: Sequence[Sentence], characters: int) -> list[str]:
    """The texts, over and over, until they have so many characters."""
    texts = [sentence.text for sentence in gold]
    return texts * -(-characters // sum(map(len, texts)))


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    head = "| segmenter | P | R | F1 | OOV recall | IV recall | characters/s | to the first |"
    lines = [head, "|---|" + "--:|" * 7]
    for row in rows:
        bakeoff, oov, iv = (row["score"][name] for name in ("bakeoff", "oov", "iv"))
        shares = [
            *(bakeoff[name] for name in ("precision", "recall", "f1")),
            oov["recall"],
            iv["recall"],
        ]
        cells = [*map(percent, shares), f"{row['characters/s']:,}", f"{row['ratio']:.2f}"]
        lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def row(
    name: str, report: SegmentationReport, timing: Timing, first: Timing, characters: int
) -> dict[str, Any]:
    return {
        "name": name,
        "score": report.as_dict(words=20),
        "seconds": round(timing.seconds, 2),
        "calls": timing.calls,
        "characters/s": round(characters / timing.seconds),
        "ratio": round(first.seconds / timing.seconds, 3),
    }


def use_two_cores() -> int:
    """This process and those that it starts run on two cores, if there are so many; how many
    it is.
    """
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    return len(cores)


def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cores = use_two_cores()
    gold, train = (read_segmented(path).sentences for path in (options.gold, options.train))
    train = hold_out(train, options.holdout)[0]
    if not gold:
        raise InputError("there is no sentence in it", options.gold)
    compared = segmenters(options.model, options.others)
    reports = {each.name: score(each, gold, words_in(train), folder) for each in compared}
    texts = repeated(gold, options.characters)
    write(folder / "timed.txt", texts)
    works = {
        each.name: partial(each.run, folder / "timed.txt", folder / "timed.out")
        for each in compared
    }
    times = medians(works, options.seconds)
    characters = sum(map(len, texts))
    first = times[compared[0].name]
    return {
        "gold": {"file": options.gold.name, "sha256": sha256(options.gold), "sentences": len(gold)},
        "train": {
            "file": options.train.name,
            "sha256": sha256(options.train),
            "sentences": len(train),
            "holdout": options.holdout,
        },
        "characters": characters,
        "machine": machine(torch.device("cpu")) | {"cores": cores},
        "versions": versions() | {"jieba": installed("jieba")},
        "segmenters": [
            row(name, reports[name], times[name], first, characters) for name in reports
        ],
    }


def _show(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        record = compare(options, Path(folder))
    print(
        f"{record['characters']:,} characters, {record['machine']['cores']} cores, "
        f"{record['machine']['cpu']}\n"
    )
    print(markdown(record["segmenters"]))
    return record


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--gold", type=Path, required=True, help="segmented lines to be cut and scored"
    )
    parser.add_argument(
        "--train", type=Path, required=True, help="segmented lines that say which words are known"
    )
    parser.add_argument(
        "--holdout",
        type=float,
        default=0.0,
        help="the share of them that the models did not learn from",
    )
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument(
        "--with", dest="others", action="append", default=[], choices=sorted(INSTALL)
    )
    parser.add_argument("--characters", type=int, default=1_000_000, help="the least that is timed")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="the least that each is timed for"
    )
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
