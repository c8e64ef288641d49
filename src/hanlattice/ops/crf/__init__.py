"""The linear-chain CRF: likelihood, partition, Viterbi, marginals, n-best and the probability of a span.

Each function exists for any tensor (`batched`), as one launch on a GPU (`fused`) and in C (`native`); `reference` holds
their twins, which enumerate every tagging. See README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from hanlattice.ops import gpu
from hanlattice.ops.crf import batched, native, reference
from hanlattice.ops.crf.values import FORBIDDEN, CRFScores, TaggedSpans, forbid

__all__ = [
    "BACKENDS",
    "FORBIDDEN",
    "CRFScores",
    "TaggedSpans",
    "forbid",
    "log_likelihood",
    "log_partition",
    "marginals",
    "nbest",
    "reference",
    "span_log_probability",
    "viterbi",
]

BACKENDS = ("auto", "batched", "fused", "native", "reference")
_TRAINS = ("log_partition", "log_likelihood")  # what fused and native have a gradient for; batched has all


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores, backend: str = "auto") -> Tensor:
    """[B]: the log of the summed weight of all taggings."""
    value: Tensor = _choose("log_partition", backend, emissions, scores)(emissions, lengths, scores)
    return value


def log_likelihood(
    emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores, backend: str = "auto"
) -> Tensor:
    """[B]: the log probability of `tags` [B, T]."""
    value: Tensor = _choose("log_likelihood", backend, emissions, scores)(emissions, tags, lengths, scores)
    return value


def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores, backend: str = "auto") -> Tensor:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    value: Tensor = _choose("marginals", backend, emissions, scores)(emissions, lengths, scores)
    return value


def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in tag order."""
    tags, score = _choose("viterbi", backend, emissions, scores)(emissions, lengths, scores)
    return tags, score


def nbest(
    emissions: Tensor, lengths: Tensor, scores: CRFScores, n: int, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """The n best taggings, [B, n, T], and their scores, [B, n], best first; of equals, the first in tag order.

    Where a sentence has fewer than n taggings, the rest are zeros with the score −∞. Forbidden taggings do count: they
    come last, with scores near FORBIDDEN.
    """
    if n < 1:
        raise ValueError(f"n must be 1 or more, not {n}")
    tags, score = _choose("nbest", backend, emissions, scores)(emissions, lengths, scores, n)
    return tags, score


def span_log_probability(
    emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans, backend: str = "auto"
) -> Tensor:
    """[S]: the log probability of each tagged span, summed over all that may stand around it.

    Where nothing can stand around it the answer is near FORBIDDEN rather than −∞, so that its gradient is finite.
    """
    value: Tensor = _choose("span_log_probability", backend, emissions, scores)(emissions, lengths, scores, spans)
    return value


def _choose(name: str, backend: str, emissions: Tensor, scores: CRFScores) -> Callable[..., Any]:
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in (emissions, *scores))
    chosen = _fastest(name, emissions, scores, trains) if backend == "auto" else _named(backend, emissions)
    if not hasattr(chosen, name):
        raise ValueError(f"{name} has no {backend} backend: use backend='auto'")
    if trains and name not in _TRAINS and chosen is not batched and chosen is not reference:
        raise ValueError(f"{name} has a gradient in backend='batched' alone: use that, 'auto', or torch.no_grad()")
    function: Callable[..., Any] = getattr(chosen, name)
    return function


def _fastest(name: str, emissions: Tensor, scores: CRFScores, trains: bool) -> ModuleType:
    if trains and name not in _TRAINS:
        return batched
    if emissions.is_cuda:
        return _fused() if _fits(name, emissions) else batched
    return native if native.takes(name, emissions, scores) else batched


def _fits(name: str, emissions: Tensor) -> bool:
    return not gpu.why_not(emissions) and hasattr(_fused(), name) and emissions.shape[2] <= _fused().LARGEST_K


def _named(backend: str, emissions: Tensor) -> ModuleType:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if backend != "fused":
        return {"batched": batched, "native": native, "reference": reference}[backend]
    if reason := gpu.why_not(emissions):
        raise ValueError(f"backend='fused' cannot be used: {reason}")
    return _fused()


def _fused() -> ModuleType:
    """The Triton kernels, loaded only when they are wanted."""
    from hanlattice.ops.crf import fused

    return fused
