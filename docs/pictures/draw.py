"""Draws the pictures of this folder that need no trained model: `python docs/pictures/draw.py`.

The others come from the command line, as nanjing.svg does:

    hanlattice explain "南京市长江大桥" --format svg --out docs/pictures/nanjing.svg
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from hanlattice import Lattice, Lexicon
from hanlattice.explain.svg import lattice
from hanlattice.files import writing
from hanlattice.nn.embeddings import WordPools
from hanlattice.nn.lattice_lstm import LatticeLSTM, Stack
from hanlattice.theme import BLUE, RED, plot, tidy

TEXT = "南京市长江大桥"
WORDS = ("南京", "南京市", "市长", "长江", "大桥", "长江大桥")
HERE = Path(__file__).parent
DIM, WORD, HIDDEN = 50, 64, 100
MODELS = (
    ("lattice", 1, False, "0.6"),
    ("with pools", 1, True, BLUE),
    ("two layers, whole words", 2, False, RED),
)


def main() -> None:
    with writing(HERE / "lattice.svg") as file:
        file.write(lattice(TEXT, Lexicon(WORDS).match(TEXT)))
    with plot(HERE / "drawbacks.svg", 6.4, 2.6) as figure:
        axis, places = figure.subplots(), np.arange(len(TEXT))
        for nth, (name, layers, with_pools, colour) in enumerate(MODELS):
            axis.bar(
                places + 0.27 * (nth - 1),
                change(layers, with_pools),
                0.25,
                label=name,
                color=colour,
            )
        axis.set_xticks(places, [*TEXT])
        axis.set_ylabel("change of the state, %")
        axis.set_axisbelow(True)
        axis.legend(frameon=False)
        tidy(axis, "y")


@torch.no_grad()
def change(layers: int, with_pools: bool) -> list[float]:
    """How much each character's state changes, relative to its norm, if the last word joins; mean
    of 20 models.
    """
    without, whole = (Lexicon(words).match(TEXT) for words in (WORDS[:-1], WORDS))
    found = []
    for seed in range(20):
        torch.manual_seed(seed)
        x, vectors = torch.randn(1, len(TEXT), DIM), torch.randn(len(WORDS), WORD)
        pools = WordPools(torch.zeros(0, dtype=torch.int32), WORD, DIM)
        parts = [
            LatticeLSTM(2 * HIDDEN if n else DIM * (1 + with_pools), WORD + 2 * HIDDEN * n, HIDDEN)
            for n in range(layers)
        ]
        encoder, states = Stack(parts, whole_words=True), []
        for matches in (without, whole):
            ids = [WORDS.index(word) for *_, word in matches]
            words = Lattice.from_words(
                [len(TEXT)], [(0, *match[:2], at) for match, at in zip(matches, ids, strict=True)]
            )
            rows = vectors[ids]
            read = (
                torch.cat([x, pools(rows, torch.tensor(ids), words, len(TEXT))], dim=2)
                if with_pools
                else x
            )
            states.append(encoder(read, rows, words)[0])
        found.append(100 * (states[1] - states[0]).norm(dim=1) / states[0].norm(dim=1))
    means: list[float] = torch.stack(found).mean(0).tolist()
    return means


if __name__ == "__main__":
    main()
