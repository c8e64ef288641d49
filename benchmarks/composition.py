"""How near a composed vector comes to the real one, on words that were held out.

    python benchmarks/composition.py --vectors @simplechinese/words.bin [--every 10] [--json
    OUT.json]

Every tenth word of two characters or more is held out; the composer learns from the others and
their vectors. Beside it stand what is simpler: the mean of all vectors, the mean of the known words
inside the word, and characters alone. The last row is the composed vector, stretched to the mean
length of the real ones. `error` is the squared distance to the real vector over its square, on
average: 1 is what a vector of zeros has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import script
import torch
from torch import Tensor

from hanlattice.checkpoint.compose import compose, known_ends, learn
from hanlattice.data.download import resolve
from hanlattice.inference.device import use_threads
from hanlattice.nn.embeddings import WordEmbedding
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.vectors import read_vectors

LENGTHS = (2, 3, 4, 5)  # the last stands for all that are longer


@dataclass(frozen=True)
class Row:
    way: str
    cosine: float
    error: float
    length: float  # of the vector, over that of the real one
    by_length: dict[int, float]  # cosines


def _show(options: argparse.Namespace) -> dict[str, Any]:
    use_threads(1)
    held, summary, rows = _measure(options.vectors, options.every)
    print(_table(rows))
    print("\n" + ", ".join(f"{name} {value:,}" for name, value in summary.items()))
    found = {
        "vectors": Path(options.vectors).name,
        "held": held,
        **summary,
        "rows": [vars(row) for row in rows],
    }
    return {**script.facts(), **found}


@torch.no_grad()
def _measure(name: str, every: int) -> tuple[int, dict[str, float], list[Row]]:
    words, vectors = _read(name)
    held = np.arange(len(words)) % every == 0
    new, known = [list(np.array(words, dtype=object)[which]) for which in (held, ~held)]
    real, rest = (vectors[torch.from_numpy(which)] for which in (held, ~held))
    lexicon = Lexicon(known)
    table = WordEmbedding.from_vectors(rest)
    lexicon.match("")  # so that its table is there before the clock starts
    start = time.perf_counter()
    ends = known_ends(known, lexicon, table)
    composer = learn(known, rest.numpy(), ends)
    learnt = time.perf_counter()
    composed = torch.from_numpy(compose(new, lexicon, table, composer)).float()
    done = time.perf_counter()
    alone = np.zeros_like(ends)
    alone[:, 0] = 1
    characters = torch.from_numpy(learn(known, rest.numpy(), alone)(new, alone[: len(new)]))
    stretched = composed * (rest.norm(dim=1).mean() / composed.norm(dim=1).mean())
    ways = {
        "mean of all words": rest.mean(0).expand(len(new), -1),
        "mean of the words inside": _inside(new, lexicon, table),
        "characters": characters,
        "characters and known ends": composed,
        "the same, stretched": stretched,
    }
    size = sum(array.nbytes for array in composer.tensors().values())
    summary = {
        "words": len(known),
        "characters": len(composer.characters),
        "bytes": size,
        "seconds to learn": round(learnt - start, 2),
        "seconds to compose": round(done - learnt, 2),
    }
    return len(new), summary, [_row(way, made, real, new) for way, made in ways.items()]


def _read(name: str) -> tuple[list[str], Tensor]:
    vectors = read_vectors(resolve(name))
    lexicon = Lexicon()
    rows = np.flatnonzero(lexicon.add_many(vectors.words))
    return lexicon.folded(), torch.from_numpy(vectors.matrix[rows])


def _inside(words: Sequence[str], lexicon: Lexicon, table: WordEmbedding) -> Tensor:
    """The mean over the known words inside each word; zeros where there is none."""
    counts, _, _, found = lexicon.match_many(words)
    there = torch.from_numpy(counts)
    row = torch.repeat_interleave(torch.arange(len(words)), there)
    total = torch.zeros(len(words), table.dim).index_add_(
        0, row, table.rows(torch.from_numpy(found))
    )
    return total / there.clamp(min=1)[:, None]


def _row(way: str, made: Tensor, real: Tensor, words: Sequence[str]) -> Row:
    cosine = torch.cosine_similarity(made, real)
    error = ((made - real) ** 2).sum() / (real**2).sum()
    lengths = torch.tensor([min(len(word), LENGTHS[-1]) for word in words])
    each = {length: float(cosine[lengths == length].mean()) for length in LENGTHS}
    return Row(
        way,
        float(cosine.mean()),
        float(error),
        float(made.norm(dim=1).mean() / real.norm(dim=1).mean()),
        each,
    )


def _table(rows: Sequence[Row]) -> str:
    heads = " | ".join(
        f"{length}{' or more' if length == LENGTHS[-1] else ''}" for length in LENGTHS
    )
    lines = [
        f"| way | cosine | error | length | cosine by characters: {heads} |",
        "|---|" + "--:|" * (3 + len(LENGTHS)),
    ]
    for row in rows:
        figures = [row.cosine, row.error, row.length, *row.by_length.values()]
        lines.append(f"| {row.way} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument(
        "--vectors", required=True, help="word vectors, or @name/file from `hanlattice data get`"
    )
    parser.add_argument("--every", type=int, default=10, help="one word of so many is held out")
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
