"""The linear-chain CRF: likelihood, partition, Viterbi, marginals, n-best, span probabilities.

Each function exists for any tensor (`batched`), as one launch on a GPU (`fused`), in C (`native`;
for tensors `differentiable`) and, for arrays without C, in numpy (`plain`); `reference` holds their
twins, which enumerate every tagging. Arrays of numpy go in and come out where tensors do, and torch
is not imported for them. See README.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from hanlattice.ops.crf import native, plain
from hanlattice.ops.crf.values import (
    FORBIDDEN,
    ArcMarginals,
    Arcs,
    CRFScores,
    TaggedSpans,
    Values,
    check_n,
    fill_forbidden,
    forbid,
)

__all__ = [
    "BACKENDS",
    "FORBIDDEN",
    "ArcMarginals",
    "Arcs",
    "CRFScores",
    "TaggedSpans",
    "arc_marginals",
    "fill_forbidden",
    "forbid",
    "log_likelihood",
    "log_partition",
    "marginals",
    "nbest",
    "span_log_probability",
    "viterbi",
]

BACKENDS = ("auto", "batched", "fused", "native", "reference")
# What fused and native have a gradient for; batched has one for everything.
_TRAINS = ("log_partition", "log_likelihood")


def log_partition(
    emissions: Values, lengths: Values, scores: CRFScores, backend: str = "auto"
) -> Values:
    """Return [B]: the log of the summed weight of all taggings."""
    value: Values = _choose("log_partition", backend, emissions, scores)(emissions, lengths, scores)
    return value


def log_likelihood(
    emissions: Values, tags: Values, lengths: Values, scores: CRFScores, backend: str = "auto"
) -> Values:
    """Return [B]: the log probability of `tags` [B, T]."""
    function = _choose("log_likelihood", backend, emissions, scores)
    value: Values = function(emissions, tags, lengths, scores)
    return value


def marginals(
    emissions: Values, lengths: Values, scores: CRFScores, backend: str = "auto"
) -> Values:
    """Return [B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    value: Values = _choose("marginals", backend, emissions, scores)(emissions, lengths, scores)
    return value


def viterbi(
    emissions: Values,
    lengths: Values,
    scores: CRFScores,
    backend: str = "auto",
    arcs: Arcs | None = None,
) -> tuple[Values, Values]:
    """Return the best tagging, [B, T], 0 beyond the lengths, and its score, [B].

    Of equals it is the first in tag order. With `arcs`, which only arrays can have, the characters
    of an arc a have −1 − a instead of a tag.
    """
    function = _choose("viterbi", backend, emissions, scores, arcs)
    tags, score = function(emissions, lengths, scores)
    return tags, score


def nbest(
    emissions: Values,
    lengths: Values,
    scores: CRFScores,
    n: int,
    backend: str = "auto",
    arcs: Arcs | None = None,
) -> tuple[Values, Values]:
    """Return the n best taggings, [B, n, T], and their scores, [B, n]; equals are in tag order.

    Where a sentence has fewer than n taggings, the rest are zeros with the score −∞. Forbidden
    taggings do count: they come last, with scores near FORBIDDEN. `arcs` are those of `viterbi`.
    """
    check_n(n, emissions.shape[-1])
    tags, score = _choose("nbest", backend, emissions, scores, arcs)(emissions, lengths, scores, n)
    return tags, score


def span_log_probability(
    emissions: Values,
    lengths: Values,
    scores: CRFScores,
    spans: TaggedSpans,
    backend: str = "auto",
    arcs: Arcs | None = None,
) -> Values:
    """Return [S]: the log probability of each tagged span, summed over all that may surround it.

    Where nothing can stand around it the answer is near FORBIDDEN rather than −∞, so that its
    gradient is finite. `arcs`, which arrays alone can have, may stand around a span too; it is no
    arc itself.
    """
    function = _choose("span_log_probability", backend, emissions, scores, arcs)
    value: Values = function(emissions, lengths, scores, spans)
    return value


def arc_marginals(
    emissions: Values, lengths: Values, scores: CRFScores, arcs: Arcs
) -> ArcMarginals:
    """Return log Z of a chain with arcs and the probabilities of each tag and arc, for arrays."""
    function = _choose("arc_marginals", "auto", emissions, scores, arcs)
    sums: ArcMarginals = function(emissions, lengths, scores)
    return sums


def _choose(
    name: str, backend: str, emissions: Values, scores: CRFScores, arcs: Arcs | None = None
) -> Callable[..., Any]:
    """Return the function of this name for such values, with the arcs already given."""
    if isinstance(emissions, np.ndarray):
        chosen: ModuleType = native if native.takes(name, emissions, scores) else plain
    elif arcs is not None:
        raise ValueError(
            f"{name} takes arcs with arrays of numpy, not with tensors: use emissions.numpy()"
        )
    else:
        chosen = _for_tensors(name, backend, emissions, scores)
    function: Callable[..., Any] = getattr(chosen, name)
    return function if arcs is None else partial(function, arcs=arcs)


def _for_tensors(name: str, backend: str, emissions: Values, scores: CRFScores) -> ModuleType:
    import torch

    from hanlattice.ops.crf import batched, reference

    trains = torch.is_grad_enabled() and any(x.requires_grad for x in (emissions, *scores))
    if backend == "auto":
        chosen = _fastest(name, emissions, scores, trains)
    else:
        chosen = _named(backend, emissions)
    if not hasattr(chosen, name):
        raise ValueError(f"{name} has no {backend} backend: use backend='auto'")
    if trains and name not in _TRAINS and chosen is not batched and chosen is not reference:
        raise ValueError(
            f"{name} has a gradient only in backend='batched': use that, 'auto', or torch.no_grad()"
        )
    return chosen


def _fastest(name: str, emissions: Values, scores: CRFScores, trains: bool) -> ModuleType:
    from hanlattice.ops import gpu
    from hanlattice.ops.crf import batched, differentiable

    if trains and name not in _TRAINS:
        return batched
    if emissions.is_cuda:
        if gpu.why_not(emissions):
            return batched
        fused = _fused()
        fits = hasattr(fused, name) and emissions.shape[2] <= fused.LARGEST_K
        return fused if fits else batched
    return differentiable if native.takes(name, emissions, scores) else batched


def _named(backend: str, emissions: Values) -> ModuleType:
    from hanlattice.ops import gpu
    from hanlattice.ops.crf import batched, differentiable, reference

    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if backend != "fused":
        return {"batched": batched, "native": differentiable, "reference": reference}[backend]
    if reason := gpu.why_not(emissions):
        raise ValueError(f"backend='fused' cannot be used: {reason}")
    return _fused()


def _fused() -> ModuleType:
    """Import the Triton kernels only when they are wanted."""
    from hanlattice.ops.crf import fused

    return fused
