"""The CRF's backends side by side, in one process: milliseconds a call, medians, after a check that
they agree.

    python benchmarks/crf.py [--device cuda] [--threads 1] [--out FILE.json]

Sentences of 20 to 50 characters, BMES tags of 8 labels (K = 33) and of 3 (K = 13), with the
scheme's forbidden steps, float32. On a GPU what the host takes to launch is in the figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import script
import torch
from torch import Tensor

from hanlattice.lab.bench.timing import medians
from hanlattice.nn.crf import CRF
from hanlattice.ops import crf
from hanlattice.text.tags import tag_set

T = 50
LABELS = "ABCDEFGH"
SIZES = {"cpu": (1, 8, 32, 128), "cuda": (1, 32, 128, 1024)}
FAST = {"cpu": "native", "cuda": "fused"}


def calls(
    backend: str, B: int, labels: int, device: torch.device
) -> dict[str, Callable[[], Tensor]]:
    generator = torch.Generator().manual_seed(B)
    module = CRF(tag_set(LABELS[:labels], "BMES"), "BMES").to(device)
    emissions = (
        torch.randn(B, T, len(module.tags), generator=generator).mul(2).to(device).requires_grad_()
    )
    lengths = torch.randint(20, T + 1, (B,), generator=generator).to(device)
    tags = torch.zeros(B, T, dtype=torch.int64, device=device)
    for weight in module.parameters():
        torch.nn.init.normal_(weight)
    scores = module.scores

    def loss() -> Tensor:
        emissions.grad = None
        value = crf.log_likelihood(emissions, tags, lengths, module.scores, backend=backend).sum()
        value.backward()
        return emissions.grad  # type: ignore[return-value]

    def quietly(function: Callable[..., Tensor | tuple[Tensor, Tensor]]) -> Callable[[], Tensor]:
        def call() -> Tensor:
            with torch.no_grad():
                found = function(emissions, lengths, scores, backend=backend)
            return found[0] if isinstance(found, tuple) else found

        return call

    return {
        "loss and its gradient": loss,
        "Viterbi": quietly(crf.viterbi),
        "marginals": quietly(crf.marginals),
    }


def _show(options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    fast = FAST[options.device]
    rows = []
    for labels in (8, 3):
        for B in SIZES[options.device]:
            torch.manual_seed(0)
            ours = calls(fast, B, labels, device)
            torch.manual_seed(0)
            theirs = calls("batched", B, labels, device)
            for name, call in ours.items():
                torch.testing.assert_close(call(), theirs[name](), rtol=1e-3, atol=1e-4)
                timed = medians({fast: call, "batched": theirs[name]}, options.seconds, device)
                times = {backend: 1e3 * timing.seconds for backend, timing in timed.items()}
                rows.append({"K": 4 * labels + 1, "B": B, "call": name, **times})
                print(f"K = {4 * labels + 1:2}, B = {B:4}, {name:21}", end="")
                print("".join(f"  {backend} {value:8.3f} ms" for backend, value in times.items()))
    return {**script.facts(options.device), "T": T, "milliseconds": rows}


def _options() -> argparse.Namespace:
    parser = script.make_parser(__doc__, json="--out")
    parser.add_argument("--device", default="cpu", choices=SIZES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3)
    return parser.parse_args()


if __name__ == "__main__":
    script.run(_show, _options())
