"""The CRF for a whole batch in PyTorch, with the names and signatures of reference.py.

Loops run over time only, and all is differentiable. What stands in `emissions` or `tags` beyond a
sentence's length is never used, not even if it is NaN. The sums stay in the log domain at every
step; README.md says why.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops.crf.values import FORBIDDEN, CRFScores, TaggedSpans


class _LogSumExp(torch.autograd.Function):
    """`torch.logsumexp`, several times as fast where much is forbidden: exp() is slow where it
    underflows.

    Beside the largest term, which is 1, no float64 sum can feel a term below 1e-17. Such a term is
    made an exact 0 without asking exp() for it, and the weights are kept, so that the gradient
    needs no exp() either.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        top = x.amax(dim, keepdim=True)
        # e⁻⁴⁰ is 4e-18, below the threshold.
        weights = (x - top).clamp_(min=-40.0).exp_()
        weights = F.threshold(weights, 1e-17, 0.0, inplace=True)
        total = weights.sum(dim, keepdim=True)
        ctx.save_for_backward(weights, total)
        ctx.dim = dim
        return (total.log() + top).squeeze(dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        weights, total = ctx.saved_tensors
        return weights * (gradient.unsqueeze(ctx.dim) / total), None


def _logsumexp(x: Tensor, dim: int) -> Tensor:
    result: Tensor = _LogSumExp.apply(x, dim)  # type: ignore[no-untyped-call]
    return result


class _Chain(NamedTuple):
    """A batch made safe and cut into steps once, so that no loop has to index a large tensor."""

    emissions: Tensor  # [B, T, K], zero beyond the lengths
    mask: Tensor  # [B, T], whether the character exists
    steps: tuple[Tensor, ...]  # T × [B, K]
    exists: tuple[Tensor, ...]  # T × [B, 1]


def _chain(emissions: Tensor, lengths: Tensor) -> _Chain:
    mask = torch.arange(emissions.shape[1], device=lengths.device) < lengths.unsqueeze(1)
    emissions = emissions.masked_fill(~mask.unsqueeze(2), 0.0)
    return _Chain(emissions, mask, emissions.unbind(1), mask.unsqueeze(2).unbind(1))


def _forward(chain: _Chain, scores: CRFScores) -> list[Tensor]:
    """Return T × [B, K]: log weights of all beginnings that end in a tag, constant past the end."""
    alphas = [scores.start + chain.steps[0]]
    for emission, exists in zip(chain.steps[1:], chain.exists[1:], strict=True):
        # [B, from, to] → [B, K]
        arrived = _logsumexp(alphas[-1].unsqueeze(2) + scores.transitions, 1)
        alphas.append(torch.where(exists, arrived + emission, alphas[-1]))
    return alphas


def _backward(chain: _Chain, scores: CRFScores) -> list[Tensor]:
    """Return T × [B, K]: log weights of all that may follow a tag, `end` from the last one on."""
    betas = [scores.end.expand_as(chain.steps[0])]
    for emission, exists in zip(chain.steps[:0:-1], chain.exists[:0:-1], strict=True):
        # [B, from, to] → [B, K]
        onward = _logsumexp(scores.transitions + (emission + betas[-1]).unsqueeze(1), 2)
        betas.append(torch.where(exists, onward, betas[-1]))
    return betas[::-1]


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log of the summed weight of all taggings."""
    return _logsumexp(_forward(_chain(emissions, lengths), scores)[-1] + scores.end, 1)


def log_likelihood(emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log probability of `tags` [B, T]."""
    chain = _chain(emissions, lengths)
    partition = _logsumexp(_forward(chain, scores)[-1] + scores.end, 1)
    tags = tags.masked_fill(~chain.mask, 0)
    last = tags.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)  # [B]
    emitted = chain.emissions.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1)
    steps = scores.transitions[tags[:, :-1], tags[:, 1:]]
    moved = steps.masked_fill(~chain.mask[:, 1:], 0.0).sum(1)
    likelihood: Tensor = scores.start[tags[:, 0]] + emitted + moved + scores.end[last] - partition
    return likelihood


def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    chain = _chain(emissions, lengths)
    alphas = _forward(chain, scores)
    betas = _backward(chain, scores)
    partition = _logsumexp(alphas[-1] + scores.end, 1)
    log_probability = torch.stack(alphas, 1) + torch.stack(betas, 1) - partition[:, None, None]
    return log_probability.exp().masked_fill(~chain.mask.unsqueeze(2), 0.0)


def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Tensor, Tensor]:
    """Return the best tagging, [B, T], 0 beyond the lengths, and its score, [B].

    The maxima run from right to left: the tags are then read from left to right, where the first of
    equals is taken.
    """
    chain = _chain(emissions, lengths)
    best = scores.end.expand_as(chain.steps[0])
    choices = []
    for emission, exists in zip(chain.steps[:0:-1], chain.exists[:0:-1], strict=True):
        # [B, from, to] → [B, K]
        onward, choice = (scores.transitions + (emission + best).unsqueeze(1)).max(2)
        best = torch.where(exists, onward, best)
        choices.append(choice)
    score, tag = (scores.start + chain.steps[0] + best).max(1)
    path = [tag.unsqueeze(1)]  # [B, 1]
    for choice in reversed(choices):
        path.append(choice.gather(1, path[-1]))
    return torch.cat(path, 1).masked_fill(~chain.mask, 0), score


def nbest(emissions: Tensor, lengths: Tensor, scores: CRFScores, n: int) -> tuple[Tensor, Tensor]:
    """Return the n best taggings, [B, n, T], and their scores, [B, n]; equals are in tag order.

    Where a sentence has fewer than n taggings, the rest are zeros with the score −∞. Forbidden
    taggings do count: they come last, with scores near FORBIDDEN.
    """
    chain = _chain(emissions, lengths)
    B, _, K = emissions.shape
    best = scores.end.new_full((B, K, n), -torch.inf)  # [B, K, n]: the n best ways on from each tag
    best[:, :, 0] = scores.end
    choices = []
    for emission, exists in zip(chain.steps[:0:-1], chain.exists[:0:-1], strict=True):
        # [B, from, to, n]
        ways = (emission.unsqueeze(2) + best).unsqueeze(1) + scores.transitions.unsqueeze(2)
        onward, choice = _first(ways.flatten(2), n)  # [B, K, n]: a choice is to·n + rank
        best = torch.where(exists.unsqueeze(2), onward, best)
        choices.append(choice)
    begin = (scores.start + chain.steps[0]).unsqueeze(2) + best
    score, choice = _first(begin.flatten(1), n)  # [B, n]
    path = [choice]
    for following in reversed(choices):
        path.append(following.flatten(1).gather(1, path[-1]))
    tags = torch.stack(path, 2).div(n, rounding_mode="floor")  # [B, n, T]
    return tags.masked_fill(~chain.mask.unsqueeze(1) | score.isinf().unsqueeze(2), 0), score


def _first(ways: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the n largest of the last dimension; unlike `topk`, it keeps the order of equals."""
    score, index = ways.sort(dim=-1, descending=True, stable=True)
    return score[..., :n], index[..., :n]


def span_log_probability(
    emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans
) -> Tensor:
    """[S]: the log probability of each tagged span, summed over all that may stand around it.

    Where nothing can stand around it the answer is near FORBIDDEN rather than −∞, so that its
    gradient is finite.
    """
    chain = _chain(emissions, lengths)
    alphas = _forward(chain, scores)
    betas = _backward(chain, scores)
    partition = _logsumexp(alphas[-1] + scores.end, 1)
    sums = partition, torch.stack(alphas, 1), torch.stack(betas, 1)
    return span_between(chain.emissions, lengths, scores, spans, sums)


def span_between(
    emissions: Tensor,
    lengths: Tensor,
    scores: CRFScores,
    spans: TaggedSpans,
    sums: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """Return `span_log_probability` from sums: log Z [B], alphas and betas, both [B, T, K]."""
    partition, alphas, betas = sums
    # What the span's tags after the first one earn: their emissions and the steps to them.
    offsets = torch.arange(1, spans.tags.shape[1], device=spans.tags.device)
    places = spans.start.unsqueeze(1) + offsets  # [S, L - 1]
    beyond = places >= spans.end.unsqueeze(1)
    tags = spans.tags[:, 1:].masked_fill(beyond, 0)
    before = spans.tags[:, :-1].masked_fill(beyond, 0)
    emitted = emissions[spans.sentence.unsqueeze(1), places.masked_fill(beyond, 0), tags]
    inside = (emitted + scores.transitions[before, tags]).masked_fill(beyond, 0.0).sum(1)
    # All that may follow the span's last tag, less what is blocked.
    last = spans.tags.gather(1, (spans.end - spans.start - 1).unsqueeze(1)).squeeze(1)  # [S]
    at_edge = spans.end == lengths[spans.sentence]
    next_at = spans.end.masked_fill(at_edge, 0)
    onward = emissions[spans.sentence, next_at] + betas[spans.sentence, next_at]  # [S, K]
    onward = scores.transitions[last] + onward + FORBIDDEN * spans.blocked_next
    right = torch.where(at_edge, scores.end[last], _logsumexp(onward, 1))
    # The alphas have the first tag's emission.
    left = alphas[spans.sentence, spans.start, spans.tags[:, 0]]
    result: Tensor = left + inside + right - partition[spans.sentence]
    return result
