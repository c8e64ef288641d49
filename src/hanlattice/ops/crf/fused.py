"""The CRF in one launch of a Triton kernel, with the names and signatures of batched.py.

One program takes one sentence, from its first character to the last and back. The transitions [P,
P] stay in registers. Alphas, or the tags chosen, go through global memory, where the way back reads
them; a barrier stands between the two. A step's emissions are loaded one step ahead. Nothing waits
for the device, and no sum depends on the order of programs.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# (Triton's language only looks like Python: its functions are compiled, and its values have no
# Python types.)

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops import gpu
from hanlattice.ops.crf import batched
from hanlattice.ops.crf.differentiable import differentiable
from hanlattice.ops.crf.values import CRFInputs, CRFScores, TaggedSpans, check, check_tags

# With more tags, the transitions of a sentence do not fit a program's registers.
LARGEST_K = 256
# The warps of a program for each power of two above the number of tags.
WARPS = {16: 1, 32: 2, 64: 8, 128: 8, 256: 16}
# The score of what only fills a power of two. Finite, so that no difference is NaN.
_NOWHERE = tl.constexpr(-1e30)


def _inputs(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> CRFInputs:
    check(emissions, lengths, scores)
    K = emissions.shape[2]
    if K > LARGEST_K:
        raise ValueError(
            f"the fused CRF takes at most {LARGEST_K} tags, not {K}: use backend='batched'"
        )
    is_double = torch.float64 in (emissions.dtype, scores.start.dtype)
    dtype = torch.float64 if is_double else torch.float32
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
    given: CRFInputs,
    tags: Tensor | None = None,
    gradient: bool = False,
    by_scores: bool = False,
    betas: bool = False,
) -> _Launch:
    """One launch. What is not asked for is neither computed nor has it memory."""
    emissions, lengths, scores = given
    B, T, K = emissions.shape
    nothing = emissions.new_empty(0)
    launch = _Launch(
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
            sums[(B,)](
                emissions, lengths, gold, *scores, launch.alphas, launch.betas, launch.value,
                launch.by_emission, launch.by_score, T, **flags, **_options(K),
            )  # fmt: skip
    return launch


class _FusedLogPartition(torch.autograd.Function):
    """log Z, or the log likelihood of tags; the same launch computes the gradient if needed."""

    @staticmethod
    def forward(
        ctx: Any,
        gradient: bool,
        tags: Tensor | None,
        lengths: Tensor,
        emissions: Tensor,
        *scores: Tensor,
    ) -> Tensor:
        given = CRFInputs(emissions, lengths, CRFScores(*scores))
        launch = _launch_sums(given, tags, gradient, by_scores=gradient)
        ctx.save_for_backward(launch.by_emission, launch.by_score)
        return launch.value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        by_emission, by_score = ctx.saved_tensors
        K = by_emission.shape[2]
        # This product is first: a thread's first call should not be one of cuBLAS.
        by_emission = gradient[:, None, None] * by_emission
        summed = (gradient @ by_score.flatten(1)).view(K + 2, K)
        return None, None, None, by_emission, summed[K], summed[:K], summed[K + 1]


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log of the summed weight of all taggings."""
    return differentiable(_FusedLogPartition, _inputs(emissions, lengths, scores), None)


def log_likelihood(emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log probability of `tags` [B, T]."""
    check_tags(emissions, tags)
    return differentiable(_FusedLogPartition, _inputs(emissions, lengths, scores), tags)


def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """Return [B, T, K]: the probability of each tag at each character, without a gradient."""
    with torch.no_grad():
        return _launch_sums(_inputs(emissions, lengths, scores), gradient=True).by_emission


def span_log_probability(
    emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans
) -> Tensor:
    """Return [S]: the log probability of each tagged span, without a gradient."""
    with torch.no_grad():
        given = _inputs(emissions, lengths, scores)
        launch = _launch_sums(given, betas=True)
        return batched.span_between(given.emissions, lengths, given.scores, spans, launch[:3])


def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Tensor, Tensor]:
    """Return the best tagging, [B, T], and its score, [B]; of equals, the first in tag order."""
    with torch.no_grad():
        given = _inputs(emissions, lengths, scores)
        B, T, K = given.emissions.shape
        choices = torch.empty(B, T, K, dtype=torch.uint8, device=lengths.device)
        tags = torch.empty(B, T, dtype=torch.int64, device=lengths.device)
        value = given.emissions.new_empty(B)
        if B:
            with gpu.device_of(emissions):
                best_tags[(B,)](
                    given.emissions, given.lengths, *given.scores,
                    choices, tags, value, T, **_options(K),
                )  # fmt: skip
    return tags, value


@triton.jit
def _first_max(x, axis: tl.constexpr, places, nobody: tl.constexpr):
    """Return the largest value along `axis` and its first place, which is 0 where all are NaN."""
    top = tl.max(x, axis)
    if axis == 1:
        first = tl.min(tl.where(x == top[:, None], places, nobody), axis)
    else:
        first = tl.min(tl.where(x == top, places, nobody), axis)
    return top, tl.where(first == nobody, 0, first)


@triton.jit
def _gold_score(emissions, tags, start, transitions, end, n, K: tl.constexpr, BLOCK: tl.constexpr):
    """Return what the given tags earn: NaN, rather than a read elsewhere, if one does not exist."""
    total = tl.full((), 0.0, tl.float64)
    for low in range(0, n, BLOCK):
        at = low + tl.arange(0, BLOCK)
        tag = tl.load(tags + at, mask=at < n, other=0)
        before = tl.load(tags + at - 1, mask=(at < n) & (at > 0), other=0)
        known = (tag >= 0) & (tag < K)
        emitted = tl.load(emissions + at * K + tag, mask=(at < n) & known, other=0.0).to(tl.float64)
        came = (at < n) & (at > 0) & known & (before >= 0) & (before < K)
        moved = tl.load(transitions + before * K + tag, mask=came, other=0.0).to(tl.float64)
        total += tl.sum(tl.where(known, emitted + moved, float("nan")), 0)
    first = tl.load(tags)
    last = tl.load(tags + n - 1)
    total += tl.load(start + first, mask=(first >= 0) & (first < K), other=0.0).to(tl.float64)
    return total + tl.load(end + last, mask=(last >= 0) & (last < K), other=0.0).to(tl.float64)


@triton.jit
def _store_gradient(to, marginal, tag, K: tl.constexpr, P: tl.constexpr, GOLD: tl.constexpr):
    """Store the expected number of each tag at a character; with GOLD, the gold number less it."""
    k = tl.arange(0, P)
    if GOLD:
        tl.store(to + k, tl.where(k == tl.load(tag).to(tl.int32), 1.0, 0.0) - marginal, mask=k < K)
    else:
        tl.store(to + k, marginal, mask=k < K)


@triton.jit(do_not_specialize=["T"])  # one compilation for all lengths
def sums(
    emissions,  # [B, T, K]
    lengths,  # [B]
    tags,  # [B, T], only with GOLD
    start,
    transitions,
    end,
    alphas,  # [B, T, K]: kept for the way back
    betas,  # [B, T, K], only with BETAS
    value,  # [B]: log Z, or with GOLD the log likelihood
    by_emission,  # [B, T, K]: the gradient of `value`, with GRADIENT
    # [B, K + 2, K]: the same by the transitions, the start and the end, with GRADIENT and SCORES.
    by_score,
    T,
    K: tl.constexpr,
    P: tl.constexpr,  # K, filled to a power of two
    GOLD: tl.constexpr,
    GRADIENT: tl.constexpr,
    SCORES: tl.constexpr,
    BETAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    # Clamped, so that a wrong length leads to no other sentence.
    n = tl.minimum(tl.maximum(tl.load(lengths + b).to(tl.int32), 1), T)
    emissions += b * T * K
    tags += b * T
    alphas += b * T * K
    betas += b * T * K
    by_emission += b * T * K
    by_score += b * (K + 2) * K
    k = tl.arange(0, P)
    is_tag = k < K
    row = k[:, None]
    column = k[None, :]
    both = (row < K) & (column < K)

    # From left to right. The largest score of a step is taken out and added up in float64: what
    # stays is small.
    # `step` is [to, from]: sums run along rows.
    step = tl.load(transitions + column * K + row, mask=both, other=_NOWHERE)
    alpha = tl.load(start + k, mask=is_tag, other=_NOWHERE)
    alpha += tl.load(emissions + k, mask=is_tag, other=0.0)
    top = tl.max(alpha, 0)
    alpha = tl.where(is_tag, alpha - top, _NOWHERE)
    taken = top.to(tl.float64)
    if BETAS:
        tl.store(alphas + k, alpha + taken, mask=is_tag)
    else:
        tl.store(alphas + k, alpha, mask=is_tag)
    ahead = tl.load(emissions + tl.minimum(1, n - 1) * K + k, mask=is_tag, other=0.0)
    for t in range(1, n):
        emission = ahead
        ahead = tl.load(emissions + tl.minimum(t + 1, n - 1) * K + k, mask=is_tag, other=0.0)
        ways = step + alpha[None, :]
        best = tl.max(ways, 1)
        total = tl.sum(tl.exp(ways - best[:, None]), 1)
        alpha = best + tl.log(total) + emission
        top = tl.max(tl.where(is_tag, alpha, _NOWHERE), 0)
        alpha = tl.where(is_tag, alpha - top, _NOWHERE)
        taken += top.to(tl.float64)
        if BETAS:
            tl.store(alphas + t * K + k, alpha + taken, mask=is_tag)
        else:
            tl.store(alphas + t * K + k, alpha, mask=is_tag)
    beta = tl.load(end + k, mask=is_tag, other=_NOWHERE)
    last = alpha + beta
    top = tl.max(last, 0)
    weight_of_all = tl.sum(tl.exp(last - top), 0)
    partition = taken + (top + tl.log(weight_of_all)).to(tl.float64)
    if GOLD:
        gold = _gold_score(emissions, tags, start, transitions, end, n, K, BLOCK)
        tl.store(value + b, gold - partition)
    else:
        tl.store(value + b, partition)

    # From right to left. A character's marginals sum to one, so its alphas and betas may lack any
    # constant.
    if GRADIENT or BETAS:
        tl.debug_barrier()  # the alphas were stored by other threads than those that read them now
        step = tl.load(transitions + row * K + column, mask=both, other=_NOWHERE)  # [from, to]
        marginal = tl.exp(last - top) / weight_of_all
        at_step = tl.zeros((P, P), dtype=step.dtype)
        taken = tl.full((), 0.0, tl.float64)
        ahead = tl.load(emissions + (n - 1) * K + k, mask=is_tag, other=0.0)
        before = tl.load(alphas + tl.maximum(n - 2, 0) * K + k, mask=is_tag, other=_NOWHERE)
        if BETAS:
            tl.store(betas + (n - 1) * K + k, beta, mask=is_tag)
        if SCORES:
            _store_gradient(by_score + (K + 1) * K, marginal, tags + n - 1, K, P, GOLD)
        for back in range(1, n):
            t = n - back  # the step from t − 1 to t
            emission = ahead
            alpha = before
            ahead = tl.load(emissions + (t - 1) * K + k, mask=is_tag, other=0.0)
            before = tl.load(alphas + tl.maximum(t - 2, 0) * K + k, mask=is_tag, other=_NOWHERE)
            ways = step + (emission + beta)[None, :]
            best = tl.max(ways, 1)
            weight = tl.exp(ways - best[:, None])
            total = tl.sum(weight, 1)
            if GRADIENT:
                _store_gradient(by_emission + t * K, marginal, tags + t, K, P, GOLD)
            beta = best + tl.log(total)
            # The betas stay close to the alphas' other side: no constant of their own has to be
            # found.
            if GRADIENT:
                here = alpha + beta
                top = tl.max(tl.where(is_tag, here, _NOWHERE), 0)
                marginal = tl.where(is_tag, tl.exp(here - top), 0.0)
                marginal = marginal / tl.sum(marginal, 0)
            else:
                top = tl.max(tl.where(is_tag, beta, _NOWHERE), 0)
            beta = tl.where(is_tag, beta - top, _NOWHERE)
            taken += top.to(tl.float64)
            if BETAS:
                tl.store(betas + (t - 1) * K + k, beta + taken, mask=is_tag)
            if SCORES:
                at_step += weight * (marginal / total)[:, None]
                if GOLD:
                    gold_from = tl.load(tags + t - 1).to(tl.int32)
                    gold_to = tl.load(tags + t).to(tl.int32)
                    at_step -= tl.where((row == gold_from) & (column == gold_to), 1.0, 0.0)
        if GRADIENT:
            _store_gradient(by_emission, marginal, tags, K, P, GOLD)
            for low in range(n * K, T * K, BLOCK):
                beyond = low + tl.arange(0, BLOCK)
                tl.store(
                    by_emission + beyond, tl.zeros((BLOCK,), dtype=step.dtype), mask=beyond < T * K
                )
            if SCORES:
                _store_gradient(by_score + K * K, marginal, tags, K, P, GOLD)
                if GOLD:
                    at_step = -at_step
                tl.store(by_score + row * K + column, at_step, mask=both)


@triton.jit(do_not_specialize=["T"])
def best_tags(
    emissions,  # [B, T, K]
    lengths,  # [B]
    start,
    transitions,
    end,
    choices,  # [B, T, K]: the tag that follows best
    tags,  # [B, T]
    value,  # [B]
    T,
    K: tl.constexpr,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    n = tl.minimum(
        tl.maximum(tl.load(lengths + b).to(tl.int32), 1), T
    )  # a wrong length leads nowhere else
    emissions += b * T * K
    choices += b * T * K
    tags += b * T
    k = tl.arange(0, P)
    is_tag = k < K
    row = k[:, None]
    column = k[None, :]
    step = tl.load(
        transitions + row * K + column, mask=(row < K) & (column < K), other=_NOWHERE
    )  # [from, to]
    best = tl.load(end + k, mask=is_tag, other=_NOWHERE)
    ahead = tl.load(emissions + (n - 1) * K + k, mask=is_tag, other=0.0)
    for back in range(1, n):
        t = n - back  # the step from t − 1 to t
        emission = ahead
        ahead = tl.load(emissions + (t - 1) * K + k, mask=is_tag, other=0.0)
        best, choice = _first_max(step + (emission + best)[None, :], 1, column, P)
        best = tl.where(is_tag, best, _NOWHERE)
        tl.store(choices + (t - 1) * K + k, choice.to(choices.dtype.element_ty), mask=is_tag)
    first = tl.load(start + k, mask=is_tag, other=_NOWHERE) + ahead + best
    score, tag = _first_max(first, 0, k, P)
    tl.store(value + b, score)
    tl.store(tags, tag.to(tl.int64))
    tl.debug_barrier()  # the choices were stored by other threads than those that follow them now
    for t in range(1, n):
        tag = tl.load(choices + (t - 1) * K + tag).to(tl.int32)
        tl.store(tags + t, tag.to(tl.int64))
    for low in range(n, T, BLOCK):
        beyond = low + tl.arange(0, BLOCK)
        tl.store(tags + beyond, tl.zeros((BLOCK,), dtype=tl.int64), mask=beyond < T)
