"""What a very large dictionary costs: to load, to give its words vectors, and to match afterwards.

    python benchmarks/large_dictionary.py --model seg --text FILE [--words 1000000] [--json
    OUT.json]

The words are made: pairs of the model's own, so that they share beginnings as real ones do, and few
stand in the text. Each time is taken once, as a user meets it, on one thread; matching is the
median of several runs, over that with the model's own lexicon. First every word found before must
be found afterwards, and the new ones are those that are found by looking at every piece of the
text.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import script

from hanlattice.errors import HanlatticeError
from hanlattice.files import read_text
from hanlattice.inference.device import use_threads
from hanlattice.predict import Predictor, load
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold

RUNS = 5
LONGEST = 8  # characters of a made word


def _show(options: argparse.Namespace) -> dict[str, Any]:
    use_threads(1)
    figures = _measure(options.model, options.text, options.words)
    print("| what | |\n|---|--:|")
    print("\n".join(f"| {name} | {value:,} |" for name, value in figures.items()))
    named = {"model": Path(options.model).name, "text": options.text.name}
    return {**script.facts(), **named, "figures": figures}


def _measure(folder: str, text: Path, count: int) -> dict[str, float]:
    predictor = load(folder)
    lines = [fold(line) for line in read_text(text).split("\n")]
    words = made_words(predictor.lexicon.folded(), count)
    figures: dict[str, float] = {
        "words of the model": len(predictor.lexicon),
        "words added": len(words),
    }
    predictor(lines[0])
    own = _matching(predictor.lexicon, lines)
    before = _found(predictor.lexicon, lines)
    memory = _memory()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as file:
        file.write("\n".join(words) + "\n")
        file.flush()
        figures["seconds: reading the file and adding its words"] = _once(
            lambda: predictor.lexicon.load(file.name)
        )
    figures["seconds: the table of all words, and new vectors"] = _once(
        lambda: predictor.lexicon.match("")
    )
    figures["seconds: the next text"] = _once(lambda: predictor(lines[0]))
    figures["MiB: the process has grown at most by"] = round(_memory() - memory)
    figures |= _vectors(predictor)
    _check(before, _found(predictor.lexicon, lines), lines, words)
    figures["matching: time, over that before"] = _matching(predictor.lexicon, lines) / own
    for number in range(900):
        predictor.lexicon.add(f"第{number}号词典")
    predictor.lexicon.match("")
    figures["matching, with 900 more, one by one: time, over that before"] = (
        _matching(predictor.lexicon, lines) / own
    )
    return {
        name: value if isinstance(value, int) else round(value, 2)
        for name, value in figures.items()
    }


def made_words(own: Sequence[str], count: int) -> list[str]:
    """Pairs of words of the lexicon, none twice, and none that it has."""
    rng = random.Random(1)
    known = set(own)
    short = [word for word in own if len(word) <= LONGEST // 2]
    made: dict[str, None] = {}
    while len(made) < count:
        word = rng.choice(short) + rng.choice(short)
        if word not in known:
            made[word] = None
    return list(made)


def _matching(lexicon: Lexicon, lines: Sequence[str]) -> float:
    return statistics.median(_once(lambda: lexicon.match_many(lines)) for _ in range(RUNS))


def _once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _found(lexicon: Lexicon, lines: Sequence[str]) -> set[tuple[int, int, int]]:
    counts, start, end, _ = lexicon.match_many(lines)
    places = zip(start.tolist(), end.tolist(), strict=True)
    return {(at, *next(places)) for at, count in enumerate(counts.tolist()) for _ in range(count)}


def _check(
    before: set[tuple[int, int, int]],
    after: set[tuple[int, int, int]],
    lines: Sequence[str],
    words: Sequence[str],
) -> None:
    new = set(words)
    wanted = {
        (at, start, end)
        for at, line in enumerate(lines)
        for start in range(len(line))
        for end in range(start + 2, min(start + LONGEST, len(line)) + 1)
        if line[start:end] in new
    }
    if after != before | wanted:
        raise HanlatticeError("the words that are found are not those that there are")


def _vectors(predictor: Predictor) -> dict[str, float]:
    table = predictor.model.tagger.lexicon
    assert table is not None
    return {"MiB: of that, vectors": round(table.added.nbytes / 2**20)}


def _memory() -> float:
    """The most that the process has had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--model", required=True, help="the name or folder of a model with a lexicon"
    )
    parser.add_argument("--text", type=Path, required=True, help="a text to match, one a line")
    parser.add_argument("--words", type=int, default=1_000_000, help="how many to add")
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
