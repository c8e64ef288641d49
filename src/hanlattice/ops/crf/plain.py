"""The CRF in numpy, for a whole batch, where there is no C library: loops over time only, in the log domain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops.crf.values import FORBIDDEN, CRFScores, TaggedSpans

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


class _Sums(NamedTuple):
    """Logarithms of summed weights: of all beginnings that end in a tag here, of all that may follow it, of all."""

    alphas: Array  # [B, T, K]
    betas: Array  # [B, T, K]
    partition: Array  # [B]


def _clean(emissions: Array, lengths: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The emissions, zero beyond the lengths; and which characters exist, [B, T]."""
    exists = np.arange(emissions.shape[1]) < lengths[:, None]
    return np.where(exists[:, :, None], emissions, emissions.dtype.type(0)), exists


def _logsumexp(x: Array, axis: int) -> Array:
    top = x.max(axis, keepdims=True)
    found: Array = np.log(np.exp(np.maximum(x - top, -700)).sum(axis)) + top.squeeze(axis)
    return found


def _sums(emissions: Array, lengths: Array, scores: CRFScores) -> _Sums:
    steps, exists = _clean(emissions, lengths)
    alphas, betas = np.empty_like(steps), np.empty_like(steps)
    alphas[:, 0], betas[:, -1] = scores.start + steps[:, 0], scores.end
    for t in range(1, steps.shape[1]):
        arrived = _logsumexp(alphas[:, t - 1, :, None] + scores.transitions, 1) + steps[:, t]
        alphas[:, t] = np.where(exists[:, t, None], arrived, alphas[:, t - 1])
    for t in range(steps.shape[1] - 1, 0, -1):
        onward = _logsumexp(scores.transitions + (steps[:, t] + betas[:, t])[:, None], 2)
        betas[:, t - 1] = np.where(exists[:, t, None], onward, betas[:, t])
    return _Sums(alphas, betas, _logsumexp(alphas[:, -1] + scores.end, 1))


def log_partition(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B]: the log of the summed weight of all taggings."""
    return _sums(emissions, lengths, scores).partition


def marginals(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    sums, (_, exists) = _sums(emissions, lengths, scores), _clean(emissions, lengths)
    found: Array = np.exp(np.maximum(sums.alphas + sums.betas - sums.partition[:, None, None], -700))
    return found * exists[:, :, None]


def viterbi(emissions: Array, lengths: Array, scores: CRFScores) -> tuple[Ints, Array]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in tag order."""
    tags, score = nbest(emissions, lengths, scores, 1)
    return tags[:, 0], score[:, 0]


def nbest(emissions: Array, lengths: Array, scores: CRFScores, n: int) -> tuple[Ints, Array]:
    """The n best taggings, [B, n, T], and their scores, [B, n], best first; of equals, the first in tag order.

    The maxima run from right to left: the tags are then read from left to right, where the first of equals is taken.
    """
    steps, exists = _clean(emissions, lengths)
    B, T, K = steps.shape
    best = np.full((B, K, n), -np.inf, dtype=steps.dtype)  # the n best ways on from each tag
    best[:, :, 0] = scores.end
    choices = np.empty((T, B, K * n), dtype=np.int64)  # at t, for each tag before it: to·n + rank
    for t in range(T - 1, 0, -1):
        ways = (steps[:, t, :, None] + best)[:, None] + scores.transitions[:, :, None]  # [B, from, to, n]
        onward, choice = _first(ways.reshape(B, K, K * n), n)
        best = np.where(exists[:, t, None, None], onward, best)
        choices[t] = choice.reshape(B, K * n)
    score, choice = _first(((scores.start + steps[:, 0])[:, :, None] + best).reshape(B, K * n), n)
    path = [choice]
    for t in range(1, T):
        path.append(np.take_along_axis(choices[t], path[-1], 1))
    tags = np.stack(path, 2) // n if T else np.empty((B, n, 0), dtype=np.int64)
    return np.where(exists[:, None] & np.isfinite(score)[:, :, None], tags, 0), score


def _first(ways: Array, n: int) -> tuple[Array, Ints]:
    """The n largest of the last axis, in order; of equals the first. Fewer than n there cannot be: there are K·n."""
    index = ways.argmax(-1)[..., None] if n == 1 else np.argsort(-ways, axis=-1, kind="stable")[..., :n]
    return np.take_along_axis(ways, index, -1), index


def span_log_probability(emissions: Array, lengths: Array, scores: CRFScores, spans: TaggedSpans) -> Array:
    """[S]: the log probability of each tagged span, summed over all that may stand around it.

    In the dtype of the scores. Where nothing can stand around it the answer is near FORBIDDEN rather than −∞.
    """
    emissions, _ = _clean(emissions.astype(scores.start.dtype, copy=False), lengths)
    sums = _sums(emissions, lengths, scores)
    sentence, start, end, tags, blocked = spans
    at = start[:, None] + np.arange(1, tags.shape[1])  # [S, L - 1]
    inside = at < end[:, None]
    before, here = np.where(inside, tags[:, :-1], 0), np.where(inside, tags[:, 1:], 0)
    earned = emissions[sentence[:, None], np.where(inside, at, 0), here] + scores.transitions[before, here]
    last = np.take_along_axis(tags, (end - start - 1)[:, None], 1)[:, 0]
    at_edge = end == lengths[sentence]
    next_at = np.where(at_edge, 0, end)
    onward = scores.transitions[last] + emissions[sentence, next_at] + sums.betas[sentence, next_at]
    right = np.where(at_edge, scores.end[last], _logsumexp(onward + FORBIDDEN * blocked, 1))
    left = sums.alphas[sentence, start, tags[:, 0]]
    found: Array = left + np.where(inside, earned, 0).sum(1) + right - sums.partition[sentence]
    return found
