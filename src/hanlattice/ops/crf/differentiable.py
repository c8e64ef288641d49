"""The CRF in C for tensors of the CPU: `native` with a gradient for log Z and for the log
likelihood of tags.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from hanlattice.ops.crf import native
from hanlattice.ops.crf.values import CRFInputs, CRFScores, TaggedSpans

takes = native.takes


def differentiable(function: type[Function], given: CRFInputs, tags: Tensor | None) -> Tensor:
    """The [B] values of a function of (whether a gradient is wanted, tags, lengths, emissions,
    *scores).
    """
    inputs = (given.emissions, *given.scores)
    gradient = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    values: Tensor = function.apply(gradient, tags, given.lengths, *inputs)  # type: ignore[no-untyped-call]
    return values


class _NativeLogPartition(Function):
    """log Z, or the log likelihood of tags."""

    @staticmethod
    def forward(
        ctx: Any,
        gradient: bool,
        tags: Tensor | None,
        lengths: Tensor,
        emissions: Tensor,
        *scores: Tensor,
    ) -> Tensor:
        given = _given("log_likelihood", emissions, lengths, CRFScores(*scores))
        gold = None if tags is None else native.gold(tags.numpy(), given)
        alphas = (
            torch.empty_like(emissions, memory_format=torch.contiguous_format) if gradient else None
        )
        value = native.value(given, gold, None if alphas is None else alphas.numpy())
        ctx.save_for_backward(tags, alphas, lengths, emissions, *scores)
        return torch.from_numpy(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tags, alphas, lengths, emissions, *scores = ctx.saved_tensors
        given = _given("log_likelihood", emissions, lengths, CRFScores(*scores))
        gold = None if tags is None else native.gold(tags.numpy(), given)
        by_value = gradient.contiguous().numpy()
        by_emission, by_score = map(
            torch.from_numpy, native.gradient(given, gold, alphas.numpy(), by_value, True)
        )
        return None, None, None, by_emission, by_score[-2], by_score[:-2], by_score[-1]


def _arrays(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Any, Any, CRFScores]:
    plain = (tensor.detach().cpu().numpy() for tensor in (emissions, lengths, *scores))
    return next(plain), next(plain), CRFScores(*plain)


def _given(name: str, emissions: Tensor, lengths: Tensor, scores: CRFScores) -> CRFInputs:
    return native.inputs(name, *_arrays(emissions, lengths, scores))


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log of the summed weight of all taggings."""
    return differentiable(_NativeLogPartition, CRFInputs(emissions, lengths, scores), None)


def log_likelihood(emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log probability of `tags` [B, T]."""
    return differentiable(_NativeLogPartition, CRFInputs(emissions, lengths, scores), tags)


def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths. Without a
    gradient.
    """
    return torch.from_numpy(native.marginals(*_arrays(emissions, lengths, scores)))


def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Tensor, Tensor]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in
    tag order.
    """
    tags, score = native.viterbi(*_arrays(emissions, lengths, scores))
    return torch.from_numpy(tags), torch.from_numpy(score)


def nbest(emissions: Tensor, lengths: Tensor, scores: CRFScores, n: int) -> tuple[Tensor, Tensor]:
    """The n best taggings, [B, n, T], and their scores, [B, n], best first; of equals, the first in
    tag order.
    """
    tags, score = native.nbest(*_arrays(emissions, lengths, scores), n)
    return torch.from_numpy(tags), torch.from_numpy(score)


def span_log_probability(
    emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans
) -> Tensor:
    """[S]: the log probability of each tagged span, summed over all that may stand around it.
    Without a gradient.
    """
    asked = TaggedSpans(*(tensor.numpy() for tensor in spans))
    return torch.from_numpy(
        native.span_log_probability(*_arrays(emissions, lengths, scores), asked)
    )
