"""The CRF in numpy, for a whole batch, where there is no C library: loops over time only, in the
log domain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops.crf.values import (
    FORBIDDEN,
    ArcMarginals,
    Arcs,
    CRFScores,
    TaggedSpans,
    check,
    check_arcs,
    check_n,
)

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


class _Sums(NamedTuple):
    """Logarithms of summed weights: of all beginnings that end in a tag here, of all that may
    follow it, of all.
    """

    alphas: Array  # [B, T, K]
    betas: Array  # [B, T, K]
    following: (
        Array  # [B, T, K]: of all that begins with a tag here; the first character is left out
    )
    partition: Array  # [B]
    arcs: Array  # [A]: of all taggings with each arc


def _clean(emissions: Array, lengths: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The emissions, zero beyond the lengths; and which characters exist, [B, T]."""
    exists = np.arange(emissions.shape[1]) < lengths[:, None]
    return np.where(exists[:, :, None], emissions, emissions.dtype.type(0)), exists


def _logsumexp(x: Array, axis: int) -> Array:
    top = x.max(axis, keepdims=True)
    found: Array = np.log(np.exp(np.maximum(x - top, -700)).sum(axis)) + top.squeeze(axis)
    return found


def _sums(emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs | None = None) -> _Sums:
    arcs = _checked(emissions, lengths, scores, arcs)
    steps, exists = _clean(emissions, lengths)
    T = steps.shape[1]
    if not T:
        return _Sums(steps, steps, steps, np.empty(0, dtype=steps.dtype), arcs.score)
    sentence, start, end, first, last, score = arcs
    opened = _by_character(start, T)
    closed = _by_character(end - 1, T)
    before = np.empty_like(score)
    after = np.empty_like(score)
    alphas = np.empty_like(steps)
    betas = np.empty_like(steps)
    following = steps.copy()
    betas[:, -1] = scores.end
    for t in range(T):
        arrived = np.broadcast_to(scores.start, steps[:, 0].shape)
        if t:
            arrived = _logsumexp(alphas[:, t - 1, :, None] + scores.transitions, 1)
        before[opened[t]] = arrived[sentence[opened[t]], first[opened[t]]]
        arrived = arrived + steps[:, t]
        here = closed[t]
        np.logaddexp.at(arrived, (sentence[here], last[here]), before[here] + score[here])
        alphas[:, t] = np.where(exists[:, t, None], arrived, alphas[:, t - 1]) if t else arrived
    for t in range(T - 1, -1, -1):
        after[closed[t]] = betas[sentence[closed[t]], t, last[closed[t]]]
        if t:
            begun = following[:, t]
            begun += betas[:, t]
            here = opened[t]
            np.logaddexp.at(begun, (sentence[here], first[here]), score[here] + after[here])
            onward = _logsumexp(scores.transitions + begun[:, None], 2)
            betas[:, t - 1] = np.where(exists[:, t, None], onward, betas[:, t])
    partition = _logsumexp(alphas[:, -1] + scores.end, 1)
    return _Sums(alphas, betas, following, partition, before + score + after)


def _checked(emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs | None) -> Arcs:
    check(emissions, lengths, scores)
    if arcs is None:
        nothing = np.empty(0, dtype=np.int64)
        return Arcs(nothing, nothing, nothing, nothing, nothing, np.empty(0, dtype=emissions.dtype))
    check_arcs(emissions, lengths, arcs)
    return arcs._replace(score=np.asarray(arcs.score, dtype=scores.start.dtype))


def _by_character(places: Ints, T: int) -> list[Ints]:
    """For each character the numbers of what has this place, in order."""
    order = np.argsort(places, kind="stable")
    return np.split(order, np.searchsorted(places[order], np.arange(1, T)))


def log_partition(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B]: the log of the summed weight of all taggings."""
    return _sums(emissions, lengths, scores).partition


def marginals(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    return _tag_marginals(_sums(emissions, lengths, scores), _clean(emissions, lengths)[1])


def arc_marginals(emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs) -> ArcMarginals:
    """The log partition with these arcs, the probability of each tag, and the log probability of
    each arc.
    """
    sums = _sums(emissions, lengths, scores, arcs)
    tags = _tag_marginals(sums, _clean(emissions, lengths)[1])
    return ArcMarginals(sums.partition, tags, sums.arcs - sums.partition[arcs.sentence])


def _tag_marginals(sums: _Sums, exists: npt.NDArray[np.bool_]) -> Array:
    log = sums.alphas + sums.betas - sums.partition[:, None, None]
    found: Array = np.exp(np.maximum(log, -700)) * exists[:, :, None]
    return found


def viterbi(
    emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs | None = None
) -> tuple[Ints, Array]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in
    tag order.

    The characters of an arc a have −1 − a instead of a tag.
    """
    tags, score = nbest(emissions, lengths, scores, 1, arcs)
    return tags[:, 0], score[:, 0]


class _Ways(NamedTuple):
    """The n best ways on, best first, all [B, K, n]."""

    score: Array
    begins: (
        Ints  # the rank among a tag's own ways, or n · (1 + arc) + rank among those after the arc
    )


def nbest(
    emissions: Array, lengths: Array, scores: CRFScores, n: int, arcs: Arcs | None = None
) -> tuple[Ints, Array]:
    """The n best taggings, [B, n, T], and their scores, [B, n], best first; of equals, the first in
    tag order.

    The maxima run from right to left: the tags are then read from left to right, where the first of
    equals is taken.
    """
    arcs = _checked(emissions, lengths, scores, arcs)
    steps, exists = _clean(emissions, lengths)
    B, T, K = steps.shape
    check_n(n, K)
    if not T:
        return np.empty((B, n, 0), dtype=np.int64), np.empty((B, n), dtype=steps.dtype)
    opened = _by_character(arcs.start, T)
    best = np.full((T, B, K, n), -np.inf, dtype=steps.dtype)  # the n best ways on from each tag
    best[T - 1, :, :, 0] = scores.end
    following: list[
        _Ways
    ] = []  # the n best ways that begin with each tag, from the last character to the first
    choices = np.empty((T, B, K * n), dtype=np.int64)  # at t, for each tag before it: to·n + rank
    for t in range(T - 1, 0, -1):
        following.append(_with_arcs(steps[:, t, :, None] + best[t], best, arcs, opened[t]))
        ways = following[-1].score[:, None] + scores.transitions[:, :, None]  # [B, from, to, n]
        onward, choice = _first(ways.reshape(B, K, K * n), n)
        best[t - 1] = np.where(exists[:, t, None, None], onward, best[t])
        choices[t] = choice.reshape(B, K * n)
    plain = (scores.start + steps[:, 0])[:, :, None] + best[0]
    entered = arcs._replace(score=arcs.score + scores.start[arcs.first])
    following.append(_with_arcs(plain, best, entered, opened[0]))
    score, choice = _first(following[-1].score.reshape(B, K * n), n)
    tags = _read(following[::-1], choices, choice, arcs, lengths)
    return np.where(exists[:, None] & np.isfinite(score)[:, :, None], tags, 0), score


def _with_arcs(plain: Array, best: Array, arcs: Arcs, opened: Ints) -> _Ways:
    """The n best ways that begin with each tag at a character, from which these arcs start."""
    n = plain.shape[2]
    ways = _Ways(plain.copy(), np.broadcast_to(np.arange(n), plain.shape).copy())
    for a in opened.tolist():
        row = arcs.sentence[a], arcs.first[a]
        behind = arcs.score[a] + best[arcs.end[a] - 1, arcs.sentence[a], arcs.last[a]]
        both = np.concatenate([ways.score[row], behind])
        begins = np.concatenate([ways.begins[row], n * (1 + a) + np.arange(n)])
        order = np.argsort(-both, kind="stable")[:n]
        ways.score[row] = both[order]
        ways.begins[row] = begins[order]
    return ways


def _read(following: list[_Ways], choices: Ints, first: Ints, arcs: Arcs, lengths: Array) -> Ints:
    """[B, n, T]: the tags of the ways that begin with `first` [B, n], from left to right."""
    T = len(following)
    B, n = first.shape
    tags = np.zeros((B, n, T), dtype=np.int64)
    at = first.copy()
    free_from = np.zeros((B, n), dtype=np.int64)  # where the arc that a way is in ends
    sentences = np.arange(B)[:, None]
    for t in range(T):
        free = (free_from <= t) & (t < lengths[:, None])
        if t:
            at = np.where(free, choices[t][sentences, at], at)
        tag = at // n
        rank = at % n
        begins = following[t].begins[sentences, tag, rank]
        arc = begins // n - 1
        jumps = free & (arc >= 0)
        tags[:, :, t] = np.where(free, np.where(jumps, -1 - arc, tag), tags[:, :, t - 1])
        if jumps.any():
            free_from[jumps] = arcs.end[arc[jumps]]
            tag = tag.copy()
            tag[jumps] = arcs.last[arc[jumps]]
        at = np.where(free, tag * n + begins % n, at)
    return tags


def _first(ways: Array, n: int) -> tuple[Array, Ints]:
    """The n largest of the last axis, in order; of equals the first. Fewer than n there cannot be:
    there are K·n.
    """
    index = (
        ways.argmax(-1)[..., None] if n == 1 else np.argsort(-ways, axis=-1, kind="stable")[..., :n]
    )
    return np.take_along_axis(ways, index, -1), index


def span_log_probability(
    emissions: Array,
    lengths: Array,
    scores: CRFScores,
    spans: TaggedSpans,
    arcs: Arcs | None = None,
) -> Array:
    """[S]: the log probability of each tagged span, summed over all that may stand around it, arcs
    too.

    In the dtype of the scores. Where nothing can stand around it the answer is near FORBIDDEN
    rather than −∞.
    """
    emissions, _ = _clean(emissions.astype(scores.start.dtype, copy=False), lengths)
    sums = _sums(emissions, lengths, scores, arcs)
    sentence, start, end, tags, blocked = spans
    at = start[:, None] + np.arange(1, tags.shape[1])  # [S, L - 1]
    inside = at < end[:, None]
    before = np.where(inside, tags[:, :-1], 0)
    here = np.where(inside, tags[:, 1:], 0)
    earned = (
        emissions[sentence[:, None], np.where(inside, at, 0), here]
        + scores.transitions[before, here]
    )
    last = np.take_along_axis(tags, (end - start - 1)[:, None], 1)[:, 0]
    at_edge = end == lengths[sentence]
    next_at = np.where(at_edge, 0, end)
    onward = scores.transitions[last] + sums.following[sentence, next_at]
    right = np.where(at_edge, scores.end[last], _logsumexp(onward + FORBIDDEN * blocked, 1))
    left = sums.alphas[sentence, start, tags[:, 0]]
    found: Array = left + np.where(inside, earned, 0).sum(1) + right - sums.partition[sentence]
    return found
