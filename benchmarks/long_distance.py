"""What gates are for: a character that decides a label far behind it, read by a plain RNN and by
two LSTMs.

    python benchmarks/long_distance.py [--short] [--steps 2000] [--seeds 3] [--json OUT.json]
    [--plot OUT.svg]

A made text is one of eight keys, characters that say nothing, and a question, whose label is the
key. The key stands d characters before it; in training d is drawn evenly from 1 to 80, the same for
a whole batch; with --short it is the logarithm that is even, so that half of the texts have fewer
than 9. The encoders are those of `char-rnn`, `char` and `char-coupled`, with 32 units a direction;
only the one from the left can know the key. The first table is the accuracy on fresh texts by
distance, up to 160: twice as far as any text of training. The second is how much the state at the
question depends on the input d characters before it: the Frobenius norm of ∂h_t/∂x_{t−d}, as a
share of the one at d = 0, before and after training; the plot has it for every distance.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import script
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hanlattice import Lattice
from hanlattice.evaluation.report import Table
from hanlattice.inference.device import use_threads
from hanlattice.nn.baselines import CharLSTM, CharRNN
from hanlattice.nn.lattice_lstm import CoupledLSTM
from hanlattice.theme import check_plot, plot, tidy

KEYS = 8
OTHERS = 20
TRAINED = 80
LONGEST = 160
DISTANCES = (5, 10, 20, 40, 80, 160)
DIM = 16
HIDDEN = 32
BATCH = 32
RATE = 3e-3
CLIP = 5.0
# texts whose labels, and whose gradients, are measured
FRESH = 500
PROBED = 32
ENCODERS: dict[str, Callable[[int, int], nn.Module]] = {
    "tanh RNN": CharRNN,
    "LSTM": CharLSTM,
    "coupled LSTM": CoupledLSTM,
}
COLOURS = {"tanh RNN": "#c1272d", "LSTM": "#3b5b92", "coupled LSTM": "#187a35"}


class Reader(nn.Module):
    """Characters → scores of the keys at the last of them."""

    def __init__(self, encoder: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.vectors = nn.Embedding(KEYS + OTHERS + 1, DIM)
        self.encoder = encoder(DIM, HIDDEN)
        self.output = nn.Linear(2 * HIDDEN, KEYS)

    def forward(self, chars: Tensor) -> Tensor:
        scores: Tensor = self.output(self.states(self.vectors(chars))[:, -1])
        return scores

    def states(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, T, 2H]"""
        states: Tensor = self.encoder(x, None, Lattice.from_words([x.shape[1]] * len(x), ()))
        return states


@dataclass(frozen=True)
class Run:
    encoder: str
    seed: int
    accuracy: dict[int, float]
    before: list[float]  # the norm for each distance from 0 on, as a share of the first
    after: list[float]
    seconds: float


def texts(count: int, distance: int, generator: torch.Generator) -> Tensor:
    """[count, distance + 1]: a key, others, the question."""
    chars = torch.randint(KEYS, KEYS + OTHERS, (count, distance + 1), generator=generator)
    chars[:, 0] = torch.randint(KEYS, (count,), generator=generator)
    chars[:, -1] = KEYS + OTHERS
    return chars


def train(encoder: str, seed: int, steps: int, short: bool) -> Run:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    started = time.perf_counter()
    reader = Reader(ENCODERS[encoder])
    before = gradients(reader)
    optimizer = torch.optim.AdamW(reader.parameters(), RATE, weight_decay=0.0)
    for _ in range(steps):
        drawn = float(torch.rand((), generator=generator))
        chars = texts(
            BATCH, int((TRAINED + 1) ** drawn if short else 1 + TRAINED * drawn), generator
        )
        optimizer.zero_grad()
        F.cross_entropy(reader(chars), chars[:, 0]).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(reader.parameters(), CLIP)
        optimizer.step()
    accuracy = {distance: score(reader, distance) for distance in DISTANCES}
    return Run(encoder, seed, accuracy, before, gradients(reader), time.perf_counter() - started)


@torch.no_grad()
def score(reader: Reader, distance: int) -> float:
    chars = texts(FRESH, distance, torch.Generator().manual_seed(distance))
    return float((reader(chars).argmax(1) == chars[:, 0]).double().mean())


def gradients(reader: Reader) -> list[float]:
    """For each distance up to LONGEST, ‖∂h_t/∂x_{t−d}‖ over ‖∂h_t/∂x_t‖, in float64; the root of
    the mean square.

    For a random v of independent signs, ‖Jᵀv‖² is ‖J‖² on average.
    """
    generator = torch.Generator().manual_seed(0)
    reader = reader.double()
    x = reader.vectors(texts(PROBED, LONGEST, generator)).detach().requires_grad_()
    h = reader.states(x)[:, -1, :HIDDEN]
    signs = torch.randint(2, h.shape, generator=generator).double() * 2 - 1
    (found,) = torch.autograd.grad((h * signs).sum(), x)
    reader.float()
    norms = found.square().sum(2).mean(0).sqrt().flip(0)  # [LONGEST + 1], from d = 0 on
    return [float(f"{share:.3e}") for share in (norms / norms[0]).tolist()]


def _show(options: argparse.Namespace) -> dict[str, Any]:
    if options.plot:
        check_plot(options.plot)
    use_threads(1)
    torch.set_flush_denormal(True)  # vanished gradients would be slow
    runs = [
        train(encoder, seed, options.steps, options.short)
        for encoder in ENCODERS
        for seed in range(1, options.seeds + 1)
    ]
    for table in (_accuracies(runs), _norms(runs)):
        print("\n".join([table.title, "", *table.markdown(), ""]))
    print(f"{sum(run.seconds for run in runs):.0f} seconds")
    if options.plot:
        draw(runs, options.plot)
    settings = {
        "short": options.short,
        "steps": options.steps,
        "batch": BATCH,
        "lr": RATE,
        "hidden": HIDDEN,
        "dim": DIM,
        "keys": KEYS,
        "trained": TRAINED,
    }
    return {**script.facts(), "settings": settings, "runs": [vars(run) for run in runs]}


def _accuracies(runs: Sequence[Run]) -> Table:
    rows = []
    for encoder in ENCODERS:
        each = [
            [100 * run.accuracy[distance] for run in runs if run.encoder == encoder]
            for distance in DISTANCES
        ]
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in each]
        rows.append(
            (
                encoder,
                *(f"{statistics.mean(v):.1f} ± {s:.1f}" for v, s in zip(each, spread, strict=True)),
            )
        )
    title = f"Accuracy in per cent by distance; chance is {100 / KEYS:g}."
    return Table(title, ("encoder", *map(str, DISTANCES)), tuple(rows))


def _norms(runs: Sequence[Run]) -> Table:
    rows = []
    for encoder in ENCODERS:
        for when in ("before", "after"):
            curve = mean_curve(runs, encoder, when)
            rows.append(
                (
                    f"{encoder}, {when} training",
                    *(f"{curve[distance]:.1e}" for distance in DISTANCES),
                )
            )
    return Table(
        "The gradient over distance, as a share of that at 0.",
        ("encoder", *map(str, DISTANCES)),
        tuple(rows),
    )


def mean_curve(
    runs: Sequence[Run], encoder: str, when: str
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The geometric mean over seeds."""
    curves = np.array([getattr(run, when) for run in runs if run.encoder == encoder])
    mean: np.ndarray[Any, np.dtype[np.float64]] = np.exp(np.log(np.maximum(curves, 1e-300)).mean(0))
    return mean


def draw(runs: Sequence[Run], path: Path) -> None:
    with plot(path, 7.5, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        for encoder, colour in COLOURS.items():
            for when, line in (("before", "--"), ("after", "-")):
                left.semilogy(mean_curve(runs, encoder, when), line, color=colour)
            means = [
                statistics.mean(r.accuracy[d] for r in runs if r.encoder == encoder)
                for d in DISTANCES
            ]
            right.semilogx(
                DISTANCES, [100 * mean for mean in means], "o-", color=colour, label=encoder
            )
        left.set(
            xlabel="distance d", ylabel="‖∂h(t) / ∂x(t − d)‖, share of d = 0", ylim=(1e-24, 10)
        )
        for when, line in (("before", "--"), ("after", "-")):
            left.plot([], [], line, color="0.4", label=f"{when} training")
        left.legend(frameon=False, loc=(0.5, 0.6))
        right.legend(frameon=False, loc="center right")
        right.axhline(100 / KEYS, color="0.6", linewidth=0.8, linestyle=":")
        right.set(xlabel="distance d", ylabel="accuracy, per cent", ylim=(0, 103))
        right.set_xticks(DISTANCES, [str(distance) for distance in DISTANCES])
        right.minorticks_off()
        for axis in (left, right):
            tidy(axis)


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__)
    parser.add_argument("--short", action="store_true", help="train on short distances above all")
    parser.add_argument("--steps", type=int, default=2000, help="batches of training")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each encoder")
    parser.add_argument(
        "--plot", type=Path, help="draw the second table and the first: .svg or .png"
    )
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
