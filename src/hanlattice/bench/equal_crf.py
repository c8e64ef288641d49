"""The CRF by every backend: against the enumeration where that is possible, against `batched` at the usual size."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import torch
from torch import Tensor

from hanlattice.bench.compared import Compared
from hanlattice.ops import crf, library

SMALL, USUAL = ((5, 1, 4), 3), ((50, 23, 1, 40), 33)  # lengths, tags


def compare_crf(device: torch.device) -> Iterator[Compared]:
    cpu = torch.device("cpu")
    for (lengths, K), trusted in ((SMALL, "reference"), (USUAL, "batched")):
        case = f"T = {max(lengths)}, {K} tags"
        right = results(trusted, lengths, K, cpu, torch.float64)
        for dtype, precision in ((torch.float64, "float64"), (torch.float32, "fp32")):
            for name in backends_on(device):
                yield Compared(case, name, precision, results(name, lengths, K, device, dtype), right)


def backends_on(device: torch.device) -> list[str]:
    """Triton's interpreter, which can run `fused` on a CPU, is there to test it."""
    fused = device.type == "cuda" and find_spec("triton") is not None
    native = device.type == "cpu" and not library.missing()
    return ["auto", "batched", *["fused"] * fused, *["native"] * native]


def results(
    backend: str, lengths: tuple[int, ...], K: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The loss, its gradients by name, and the best tagging with its score."""
    generator = torch.Generator().manual_seed(0)
    B, T = len(lengths), max(lengths)
    shapes = {"emissions": (B, T, K), "start": (K,), "transitions": (K, K), "end": (K,)}
    drawn = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    tags = torch.randint(0, K, (B, T), generator=generator).to(device)
    given = {name: tensor.to(device, dtype).requires_grad_() for name, tensor in drawn.items()}
    emissions, *scores = given.values()
    sizes, chain = torch.tensor(lengths, device=device), crf.CRFScores(*scores)
    loss = -crf.log_likelihood(emissions, tags, sizes, chain, backend)
    found = torch.autograd.grad(loss.sum(), list(given.values()))
    with torch.no_grad():
        best, score = crf.viterbi(emissions, sizes, chain, backend)
    named = {f"gradient of {name}": gradient for name, gradient in zip(given, found, strict=True)}
    return {"loss": loss, **named, "best tagging": best, "best score": score}
