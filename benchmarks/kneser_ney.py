"""An interpolated Kneser–Ney character n-gram on the text, split and symbols of `hanlattice
pretrain lm`, by KenLM.

    python benchmarks/kneser_ney.py corpora/raw/*.xz --lmplz PATH [--also FILE …] [--out FILE.json]

It wants the program `lmplz` of KenLM, which its sources build with cmake, and the Python module
(pip install kenlm). Lines are read, held out and mapped to a closed vocabulary by the code that
trains our language model: rare characters are one symbol, unknown, which is a token like others. So
both models predict the same symbols: each character, and the end of each line. No n-gram is pruned.
The backward model is one of the mirrored lines.

Before a perplexity is told: at some contexts the probabilities of all symbols sum to 1, no held-out
symbol is outside the vocabulary, and perplexity falls from order 1 to the order asked. A file after
--also, raw text, is scored too.

Raw text repeats itself. Held-out lines that do not stand in the training part, letter by letter,
are scored once more by themselves; --new-lines writes them to a file, so that `hanlattice lm score`
can be asked about the same lines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
import numpy.typing as npt
import script
import torch

from hanlattice.checkpoint.language_model import DIRECTIONS
from hanlattice.events import ignore
from hanlattice.files import atomic_write, printable_path, sha256
from hanlattice.lab.bench.timing import machine, versions
from hanlattice.lab.pretrain.lm.recipe import MIN_COUNT, Recipe
from hanlattice.lab.pretrain.lm.text import BREAK_ID, Lines, hold_out, read_lines_of, read_source
from hanlattice.text.vocab import Vocab, seen_as

UNKNOWN_ID = 0


def sentences(lines: Lines) -> Iterator[str]:
    """A symbol's id is its token, so that no character can be taken for white space or a mark of
    KenLM's own.
    """
    names = [str(number) for number in range(int(lines.ids.max(initial=0)) + 1)]
    for start, length in zip(lines.starts.tolist(), lines.lengths.tolist(), strict=True):
        yield " ".join([names[number] for number in lines.ids[start : start + length].tolist()])


def read(file: Path, vocab: Vocab) -> Lines:
    codes = read_lines_of([file])
    return Lines(seen_as(vocab)(codes.ids), codes.starts, codes.lengths)


def unknown(lines: Lines) -> int:
    return sum(sentence.split().count(str(UNKNOWN_ID)) for sentence in sentences(lines))


class Trainer:
    """Runs lmplz in a folder of its own. Its built-in discounts are asked for only where it cannot
    estimate them.
    """

    def __init__(self, lmplz: Path, folder: Path, memory: str) -> None:
        self.lmplz = lmplz
        self.folder = folder
        self.memory = memory

    def write(self, lines: Lines, name: str) -> Path:
        path = self.folder / f"{name}.txt"
        with atomic_write(path) as file:
            file.writelines(f"{sentence}\n" for sentence in sentences(lines))
        return path

    def train(self, text: Path, order: int) -> tuple[Path, dict[str, Any]]:
        """(the ARPA file, what is known of it)."""
        arpa = text.with_suffix(f".{order}.arpa")
        options = [
            "-o",
            order,
            "-S",
            self.memory,
            "-T",
            f"{self.folder}/",
            "--text",
            text,
            "--arpa",
            arpa,
        ]
        begin = time.perf_counter()
        for fallback in ([], ["--discount_fallback"]):
            command = [str(self.lmplz), *map(str, options), *fallback]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not (done.returncode and "discount" in done.stderr and not fallback):
                break
        if done.returncode:
            raise SystemExit(f"lmplz failed: {done.stderr[-2000:]}")
        facts = {
            "seconds": round(time.perf_counter() - begin, 1),
            "discount_fallback": bool(fallback),
        }
        return arpa, {"order": order, **facts, "n-grams and discounts": statistics(done.stderr)}


def statistics(told: str) -> list[str]:
    """The lines `order count D1=… D2=… D3+=…` of what lmplz tells."""
    lines = told.partition("Statistics:\n")[2].splitlines()
    return [line for line in lines if line[:1].isdigit() and "D1=" in line]


def perplexity(log10: float, lines: Lines) -> float:
    return float(10 ** (-log10 / lines.symbols))


def log10_of(model: kenlm.Model, lines: Lines) -> tuple[float, int]:
    """(log₁₀ of the probability of all lines with their ends, tokens that the model does not
    know).
    """
    total = 0.0
    outside = 0
    for sentence in sentences(lines):
        scores = list(model.full_scores(sentence, bos=True, eos=True))
        total += math.fsum(score for score, _, _ in scores)
        outside += sum(is_outside for _, _, is_outside in scores)
    return total, outside


def unigram_perplexity(arpa: Path, lines: Lines) -> float:
    """KenLM loads no model of order 1, so its table is read here."""
    with arpa.open(encoding="utf-8") as file:
        rows = (line.split("\t") for line in file if line[:1] in "-0123456789")
        table = {row[1].strip(): float(row[0]) for row in rows if len(row) > 1}
    total = math.fsum(table[token] for s in sentences(lines) for token in (*s.split(), "</s>"))
    return perplexity(total, lines)


def sums(model: kenlm.Model, tokens: Sequence[str], lines: Lines) -> list[float]:
    """Return the probability of any symbol after beginnings of 0, 1, 2 … characters."""
    found = []
    for length, sentence in zip((0, 1, 2, 3, 4, 5, 20, 50), sentences(lines), strict=False):
        state = kenlm.State()
        after = kenlm.State()
        model.BeginSentenceWrite(state)
        for token in sentence.split()[:length]:
            model.BaseScore(state, token, after)
            state, after = after, state
        found.append(math.fsum(10 ** model.BaseScore(state, token, after) for token in tokens))
    return found


def check(condition: bool, problem: str) -> None:
    if not condition:
        raise SystemExit(f"something is wrong, so no figure is told: {problem}")


def checked_sums(model: kenlm.Model, vocab: Vocab, lines: Lines) -> list[float]:
    known = [str(number) for number in range(len(vocab)) if number != BREAK_ID]
    found = sums(model, [*known, "</s>", "<unk>"], lines)
    check(all(abs(total - 1) < 1e-4 for total in found), f"probabilities sum to {found}")
    return found


def lower_orders(trainer: Trainer, text: Path, order: int, held: Lines) -> dict[str, Any]:
    """Perplexity on held-out lines of each order below, and the orders whose discounts could not be
    estimated.
    """
    found = dict[int, float]()
    fallbacks = list[int]()
    for lower in range(1, order):
        arpa, facts = trainer.train(text, lower)
        fallbacks += [lower] if facts["discount_fallback"] else []
        if lower == 1:
            found[lower] = unigram_perplexity(arpa, held)
        else:
            found[lower] = perplexity(log10_of(kenlm.Model(str(arpa)), held)[0], held)
        arpa.unlink()
        print(f"  order {lower}: perplexity {found[lower]:.3f}", flush=True)
    return {"perplexity": found, "discount_fallback": fallbacks}


def is_new(train: Lines, held: Lines) -> npt.NDArray[np.bool_]:
    """[L]: the held-out line does not stand in the training part."""
    seen = set(sentences(train))
    return np.array([sentence not in seen for sentence in sentences(held)])


def write_new(
    path: Path, files: Sequence[Path], held_out: float, new: npt.NDArray[np.bool_]
) -> None:
    """These held-out lines as they stand in the files."""
    held = hold_out(read_lines_of(files), held_out)[1].take(new)
    with atomic_write(path, binary=True) as file:
        for start, length in zip(held.starts.tolist(), held.lengths.tolist(), strict=True):
            file.write(
                held.ids[start : start + length + 1]
                .astype("<i4")
                .tobytes()
                .decode("utf-32-le")
                .encode()
            )


def run(options: argparse.Namespace) -> dict[str, Any]:
    recipe = Recipe(min_count=options.min_count, held_out=options.held_out, batch_size=1, length=1)
    source = read_source(recipe, options.files, DIRECTIONS, ignore)
    vocab = source.vocab
    train = source.train
    held = source.held_out
    new = is_new(train, held)
    if options.new_lines:
        write_new(options.new_lines, options.files, options.held_out, new)
    more = {f"also {printable_path(path)}": read(path, vocab) for path in options.also}
    named = {"train": train, "held out": held, "held out, not in train": held.take(new), **more}
    counts = {
        n: {"lines": len(part), "symbols": part.symbols, "unknown": unknown(part)}
        for n, part in named.items()
    }
    print(f"{len(vocab):,} symbols known; {json.dumps(counts, ensure_ascii=False)}", flush=True)
    result: dict[str, Any] = {"vocabulary": len(vocab), "text": counts}
    with tempfile.TemporaryDirectory(prefix="kneser-ney-", dir=options.work) as folder:
        trainer = Trainer(options.lmplz, Path(folder), options.memory)
        for direction in DIRECTIONS:
            parts = {
                n: part if direction == "forward" else part.mirrored() for n, part in named.items()
            }
            result[direction] = one_way(trainer, direction, options.order, vocab, parts)
    return result


def one_way(
    trainer: Trainer, direction: str, order: int, vocab: Vocab, parts: dict[str, Lines]
) -> dict[str, Any]:
    text = trainer.write(parts["train"], direction)
    held = parts["held out"]
    print(f"{direction}:", flush=True)
    below = lower_orders(trainer, text, order, held) if direction == "forward" else {}
    arpa, facts = trainer.train(text, order)
    model = kenlm.Model(str(arpa))
    totals = checked_sums(model, vocab, held)
    perplexities = {}
    for name, lines in parts.items():
        if name != "train" and len(lines):
            log10, outside = log10_of(model, lines)
            check(outside == 0, f"{outside} tokens of {name} are not in the model's vocabulary")
            perplexities[name] = perplexity(log10, lines)
    falling = [*below.get("perplexity", {}).values(), perplexities["held out"]]
    check(
        falling == sorted(falling, reverse=True),
        f"perplexity does not fall with the order: {falling}",
    )
    for name, value in perplexities.items():
        print(
            f"  order {order}: perplexity {value:.3f}, {math.log2(value):.4f} bits a symbol: "
            f"{name}",
            flush=True,
        )
    arpa.unlink()  # it is large
    return {
        "perplexity": perplexities,
        **facts,
        "sums of probabilities": totals,
        "lower orders": below,
    }


def parse() -> argparse.Namespace:
    parser = script.make_parser(__doc__, json="--out")
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--lmplz", type=Path, default=Path("lmplz"))
    parser.add_argument("--order", type=int, default=5, choices=range(2, 7))
    parser.add_argument("--min-count", type=int, default=MIN_COUNT)
    parser.add_argument("--held-out", type=float, default=Recipe.held_out)
    parser.add_argument("--also", type=Path, action="append", default=[])
    parser.add_argument("--new-lines", type=Path)
    parser.add_argument("--memory", default="20%")
    parser.add_argument("--work", type=Path, help="where a temporary folder of large files is made")
    options = parser.parse_args()
    if options.json and (
        options.json.is_dir() or not os.access(f"{options.json.parent}/.", os.W_OK)
    ):
        parser.error(
            f"--out {options.json}: expected a file in a folder that is there and can be written to"
        )
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "versions": {**versions(), "kenlm": version("kenlm")},
        "machine": machine(torch.device("cpu")),
        **{name: getattr(options, name) for name in ("order", "min_count", "held_out")},
        "files": {printable_path(path): sha256(path) for path in (*options.files, *options.also)},
        **run(options),
    }


if __name__ == "__main__":
    script.run(measure, parse())
