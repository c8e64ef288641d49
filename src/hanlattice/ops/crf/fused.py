"""The CRF in one launch (kernels.py, in Triton), with the names and signatures of batched.py.

Nothing here waits for the device, and nothing is added up in an order that chance decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops import gpu
from hanlattice.ops.crf import batched, kernels
from hanlattice.ops.crf.values import CRFInputs, CRFScores, TaggedSpans, check, check_tags, differentiable

LARGEST_K = 256  # tags: above it the transitions of a sentence do not fit a program's registers
WARPS = {16: 1, 32: 2, 64: 8, 128: 8, 256: 16}  # for each power of two above the number of tags


def _inputs(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> CRFInputs:
    check(emissions, lengths, scores)
    K = emissions.shape[2]
    if K > LARGEST_K:
        raise ValueError(f"the fused CRF takes at most {LARGEST_K} tags, not {K}: use backend='batched'")
    dtype = torch.float64 if torch.float64 in (emissions.dtype, scores.start.dtype) else torch.float32
    parts = CRFScores(*(part.to(dtype).contiguous() for part in scores))
    return CRFInputs(emissions.to(dtype).contiguous(), lengths.contiguous(), parts)


def _options(K: int) -> dict[str, int]:
    """The size of a program: so many warps that a thread holds few of the P² transitions."""
    P = max(16, triton.next_power_of_2(K))
    return {"K": K, "P": P, "BLOCK": 128, "num_warps": WARPS[P], "num_stages": 1}


class _Launch(NamedTuple):
    value: Tensor  # [B]
    alphas: Tensor  # [B, T, K]
    betas: Tensor
    by_emission: Tensor
    by_score: Tensor  # [B, K + 2, K]: transitions, start, end


def _launch_sums(
    given: CRFInputs, tags: Tensor | None = None, gradient: bool = False, by_scores: bool = False, betas: bool = False
) -> _Launch:
    """One launch. What is not asked for is neither computed nor has it memory."""
    emissions, lengths, scores = given
    B, T, K = emissions.shape
    nothing = emissions.new_empty(0)
    made = _Launch(
        value=emissions.new_empty(B),
        alphas=torch.empty_like(emissions),
        betas=torch.empty_like(emissions) if betas else nothing,
        by_emission=torch.empty_like(emissions) if gradient else nothing,
        by_score=emissions.new_empty(B, K + 2, K) if by_scores else nothing,
    )
    flags = {"GOLD": tags is not None, "GRADIENT": gradient, "SCORES": by_scores, "BETAS": betas}
    gold = lengths if tags is None else tags.contiguous()
    if B:
        with gpu.device_of(emissions):
            kernels.sums[(B,)](
                emissions, lengths, gold, *scores, made.alphas, made.betas, made.value, made.by_emission, made.by_score,
                T, **flags, **_options(K),
            )  # fmt: skip
    return made


class _Value(torch.autograd.Function):
    """log Z, or the log likelihood of tags; where a gradient will be wanted, the same launch computes it."""

    @staticmethod
    def forward(
        ctx: Any, gradient: bool, tags: Tensor | None, lengths: Tensor, emissions: Tensor, *scores: Tensor
    ) -> Tensor:
        given = CRFInputs(emissions, lengths, CRFScores(*scores))
        made = _launch_sums(given, tags, gradient, by_scores=gradient)
        ctx.save_for_backward(made.by_emission, made.by_score)
        return made.value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        by_emission, by_score = ctx.saved_tensors
        K = by_emission.shape[2]
        by_emission = gradient[:, None, None] * by_emission  # first: a thread's first call should not be one of cuBLAS
        summed = (gradient @ by_score.flatten(1)).view(K + 2, K)
        return None, None, None, by_emission, summed[K], summed[:K], summed[K + 1]


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log of the summed weight of all taggings."""
    return differentiable(_Value, _inputs(emissions, lengths, scores), None)


def log_likelihood(emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log probability of `tags` [B, T]."""
    check_tags(emissions, tags)
    return differentiable(_Value, _inputs(emissions, lengths, scores), tags)


def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths. Without a gradient."""
    with torch.no_grad():
        return _launch_sums(_inputs(emissions, lengths, scores), gradient=True).by_emission


def span_log_probability(emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans) -> Tensor:
    """[S]: the log probability of each tagged span, summed over all that may stand around it. Without a gradient."""
    with torch.no_grad():
        given = _inputs(emissions, lengths, scores)
        made = _launch_sums(given, betas=True)
        return batched.span_between(given.emissions, lengths, given.scores, spans, made[:3])


def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Tensor, Tensor]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in tag order."""
    with torch.no_grad():
        given = _inputs(emissions, lengths, scores)
        B, T, K = given.emissions.shape
        choices = torch.empty(B, T, K, dtype=torch.uint8, device=lengths.device)
        tags = torch.empty(B, T, dtype=torch.int64, device=lengths.device)
        value = given.emissions.new_empty(B)
        if B:
            with gpu.device_of(emissions):
                kernels.best_tags[(B,)](
                    given.emissions, given.lengths, *given.scores, choices, tags, value, T, **_options(K)
                )
    return tags, value
