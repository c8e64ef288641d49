"""Whether a backend gives the reference's outputs and gradients, which is checked before timing.

The difference is a norm over the norm of what is right in float64; the tolerance depends on the
precision alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from hanlattice.errors import HanlatticeError
from hanlattice.lab.bench.inputs import BenchSettings, make_examples
from hanlattice.ops import crf, gpu, library
from hanlattice.ops.crf import CRFScores
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, lattice_lstm, runnable
from hanlattice.ops.lattice_lstm.weights import weight_shapes
from hanlattice.text.lattice import Lattice

TOLERANCES = {"float64": 1e-9, "fp32": 1e-5, "tf32": 5e-3, "bf16": 2e-2}
PRECISIONS = ((torch.float64, "float64"), (torch.float32, "fp32"))  # of what has no other name
LARGEST = {"cpu": 33, "cuda": 1024}  # sentences: float64 takes long on a CPU
# lengths, tags
SMALL_CHAIN = ((5, 1, 4), 3)
USUAL_CHAIN = ((50, 23, 1, 40), 33)

# Words side by side, overlapping, twice on one span, over the whole sentence; one character; no
# words.
SMALL = Lattice.from_words(
    (17, 9, 1, 5, 12),
    [(0, at, at + 2 + at % 3, 0) for at in range(13)]
    + [(0, 0, 17, 1), (0, 3, 5, 2), (0, 3, 5, 3), (0, 15, 17, 4)]
    + [(1, 0, 9, 1), (1, 7, 9, 2), (1, 0, 2, 5), (4, 10, 12, 6), (4, 2, 12, 7), (4, 2, 4, 8)],
)


def largest_difference(
    found: Mapping[str, Tensor], right: Mapping[str, Tensor]
) -> tuple[str, float]:
    """Return the largest relative difference with its name; NaN counts as ∞."""
    differences = {name: relative_difference(found[name], value) for name, value in right.items()}
    name = max(differences, key=differences.__getitem__)
    return name, differences[name]


def relative_difference(found: Tensor, right: Tensor) -> float:
    """Return the norm of the difference over the norm of what is right, 1e-6 at least."""
    found, right = (tensor.detach().to(right.device, torch.float64) for tensor in (found, right))
    difference = float((found - right).norm() / right.norm().clamp(min=1e-6))
    return math.inf if math.isnan(difference) else difference


@dataclass(frozen=True)
class LSTMCase:
    """Inputs of a lattice LSTM in one or two directions; no backend may read padding, NaN."""

    lattice: Lattice
    x: Tensor
    word_x: Tensor
    weights: tuple[LatticeLSTMWeights, ...]
    coupled: bool = True

    @classmethod
    def draw(
        cls,
        lattice: Lattice,
        H: int,
        coupled: bool = True,
        *,
        D: int = 24,
        E: int = 20,
        directions: int = 2,
        extra: int = 0,  # columns beyond the longest sentence
        scale: float | None = None,  # of the weights: H^−½
        seed: int = 0,
    ) -> Self:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        x = draw(len(lattice.lengths), int(lattice.lengths.max(initial=0)) + extra, D)
        for row, length in zip(x, lattice.lengths, strict=True):
            row[length:] = torch.nan
        word_x = draw(len(lattice), E)
        shapes = weight_shapes(D, E, H, coupled)
        size = H**-0.5 if scale is None else scale
        weights = [
            LatticeLSTMWeights(*(size * draw(*shape) for shape in shapes))
            for _ in range(directions)
        ]
        return cls(lattice, x, word_x, tuple(weights), coupled).to("cpu", torch.float64)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Self:
        """Return the same numbers as tensors of their own, which all get gradients."""

        def move(tensor: Tensor) -> Tensor:
            return tensor.detach().to(device, dtype, copy=True).requires_grad_()

        weights = tuple(LatticeLSTMWeights(*map(move, part)) for part in self.weights)
        return replace(self, x=move(self.x), word_x=move(self.word_x), weights=weights)

    def named(self) -> dict[str, Tensor]:
        """Return everything that gets a gradient."""
        found = {"x": self.x, "word_x": self.word_x}
        for way, weights in zip(("forward", "backward"), self.weights, strict=False):
            found |= {f"{way} {name}": tensor for name, tensor in weights._asdict().items()}
        return found

    def run(self, backend: str) -> Tensor:
        if len(self.weights) == 1:
            one: Tensor = lattice_lstm(
                self.x, self.word_x, self.lattice, self.weights[0], self.coupled, backend
            )
            return one
        forward, backward = self.weights
        both: Tensor = bidirectional(
            self.x, self.word_x, self.lattice, forward, backward, self.coupled, backend
        )
        return both

    def values(self, backend: str) -> dict[str, Tensor]:
        """Return h, and the gradients of a sum in which no two outputs have the same weight."""
        return self.with_gradients(self.run(backend))

    def with_gradients(self, h: Tensor) -> dict[str, Tensor]:
        return {"h": h, **_gradients(h, self.named())}

    def __str__(self) -> str:
        lengths = self.lattice.lengths
        sizes = f"B = {len(lengths)}, T = {lengths.max()}, H = {self.weights[0].hidden}"
        return f"{sizes}, {'coupled' if self.coupled else 'not coupled'}"


@dataclass(frozen=True)
class CRFCase:
    """Inputs of a CRF, and tags to be learnt."""

    emissions: Tensor
    tags: Tensor
    lengths: Tensor
    scores: CRFScores

    @classmethod
    def draw(cls, lengths: Sequence[int], K: int) -> Self:
        generator = torch.Generator().manual_seed(0)
        B = len(lengths)
        T = max(lengths)
        emissions, *scores = (
            torch.randn(shape, generator=generator, dtype=torch.float64)
            for shape in ((B, T, K), (K,), (K, K), (K,))
        )
        tags = torch.randint(0, K, (B, T), generator=generator)
        return cls(emissions, tags, torch.tensor(lengths), CRFScores(*scores))

    def values(
        self, backend: str, device: torch.device | str, dtype: torch.dtype
    ) -> dict[str, Tensor]:
        """Return the loss, its gradients, and the best tagging with its score."""
        inputs = {"emissions": self.emissions, **self.scores._asdict()}
        moved = {
            name: tensor.detach().to(device, dtype, copy=True).requires_grad_()
            for name, tensor in inputs.items()
        }
        emissions, *scores = moved.values()
        lengths = self.lengths.to(device)
        chain = CRFScores(*scores)
        loss = -crf.log_likelihood(emissions, self.tags.to(device), lengths, chain, backend)
        with torch.no_grad():
            best, score = crf.viterbi(emissions, lengths, chain, backend)
        return {"loss": loss, **_gradients(loss, moved), "best tagging": best, "best score": score}


def _gradients(output: Tensor, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return gradients by name; zeros for what the output does not depend on."""
    if not output.requires_grad:  # nothing but empty sentences
        return {f"gradient of {name}": torch.zeros_like(tensor) for name, tensor in inputs.items()}
    weight = torch.linspace(
        -1, 2, output.numel(), dtype=output.dtype, device=output.device
    ).view_as(output)
    found = torch.autograd.grad(
        output, list(inputs.values()), weight, allow_unused=True, materialize_grads=True
    )
    return {f"gradient of {name}": gradient for name, gradient in zip(inputs, found, strict=True)}


def check_backends(
    settings: BenchSettings, device: torch.device, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return a row for each case, with its largest difference, and raise if one is too large.

    With many sentences the reference would take too long: `batched` in float64, compared before,
    takes its place.
    """
    tell("equality with the reference")
    cpu = torch.device("cpu")
    rows = list[dict[str, Any]]()
    largest = min(max(settings.batches), LARGEST[device.type])
    usual = make_examples(settings, largest).batch(range(largest)).lattice
    for hidden in settings.hidden:
        for coupled in (True, False):
            rows += _check_lstm(LSTMCase.draw(SMALL, hidden, coupled), "reference", cpu, device)
        rows += _check_lstm(LSTMCase.draw(usual, hidden), "batched", device, device)
    rows += _check_crf(SMALL_CHAIN, "reference", device)
    rows += _check_crf(USUAL_CHAIN, "batched", device)
    return rows


def _check_lstm(
    case: LSTMCase, trusted: str, there: torch.device, device: torch.device
) -> Iterator[dict[str, Any]]:
    right = case.to(there, torch.float64).values(trusted)
    for dtype, plain in PRECISIONS:
        here = case.to(device, dtype)
        for name, full in runnable(here.x).items():
            if name == "reference" or (name == trusted and dtype == torch.float64):
                continue
            label = name if name == full else f"{name} ({full})"
            precision = full.partition("-")[2] or plain
            yield _row("lattice LSTM", str(case), label, precision, here.values(name), right)


def _check_crf(
    chain: tuple[Sequence[int], int], trusted: str, device: torch.device
) -> Iterator[dict[str, Any]]:
    lengths, K = chain
    case = CRFCase.draw(lengths, K)
    right = case.values(trusted, "cpu", torch.float64)
    fused = device.type == "cuda" and not gpu.why_not(torch.empty(0, device=device))
    native = device.type == "cpu" and not library.missing()
    for dtype, precision in PRECISIONS:
        for name in ["auto", "batched", *["fused"] * fused, *["native"] * native]:
            title = f"T = {max(lengths)}, {K} tags"
            yield _row("CRF", title, name, precision, case.values(name, device, dtype), right)


def _row(
    op: str,
    case: str,
    backend: str,
    precision: str,
    found: Mapping[str, Tensor],
    right: Mapping[str, Tensor],
) -> dict[str, Any]:
    worst, difference = largest_difference(found, right)
    tolerance = TOLERANCES[precision]
    if not difference <= tolerance:
        raise HanlatticeError(
            f"{op}, backend {backend} in {precision}, {case}: {worst} differs from the reference "
            f"by {difference:.1e}, and {tolerance:.0e} is allowed; nothing was timed"
        )
    row = {"op": op, "case": case, "backend": backend, "precision": precision, "worst": worst}
    return {**row, "difference": difference, "tolerance": tolerance}
