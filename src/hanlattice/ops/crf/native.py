"""The CRF in C (native_*.c), with the names and signatures of batched.py, for arrays of numpy.

A batch is cut into runs of sentences for the threads. The cut follows from the batch alone, and no
sentence feels it: the results do not depend on the number of threads. `differentiable.py` is for
tensors.
"""

from __future__ import annotations

from ctypes import Structure, c_int64, c_void_p, sizeof
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.ops import library
from hanlattice.ops.crf.values import (
    ArcMarginals,
    Arcs,
    CRFInputs,
    CRFScores,
    TaggedSpans,
    check,
    check_arcs,
    check_n,
    check_tags,
)
from hanlattice.ops.threads import run_calls

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

RUNS = 8  # of sentences that a large batch is cut into
SMALL = 1024  # characters, up to which a batch stays whole: a thread costs more than it saves


class _Batch(Structure):
    """crf_batch of native_crf.h, which says what each of them is."""

    _fields_ = (
        *((name, c_int64) for name in ["size", "low", "high", "T", "K", "n", "longest"]),
        *((name, c_void_p) for name in ["emissions", "lengths", "start", "transitions", "end"]),
        *(
            (name, c_void_p)
            for name in ["tags", "value", "alphas", "gradient", "by_emission", "by_score"]
        ),
        *(
            (name, c_void_p)
            for name in ["first", "span_start", "span_end", "span_tags", "blocked", "single"]
        ),
        *((name, c_void_p) for name in ["arcs", "arc_start", "arc_end", "arc_first", "arc_last"]),
        *((name, c_void_p) for name in ["arc_by_end", "arc_score", "arc_value"]),
    )


def takes(name: str, emissions: Any, scores: CRFScores) -> bool:
    """Whether the library is there, and has this function for these arrays, or tensors."""
    if name == "span_log_probability" and library.real_name(scores.start.dtype) == "float64":
        return library.available(*scores) and library.available(emissions)
    return library.available(emissions, *scores)


def inputs(name: str, emissions: Array, lengths: Array, scores: CRFScores) -> CRFInputs:
    """What C may read, checked."""
    check(emissions, lengths, scores)
    if not takes(name, emissions, scores):
        reason = library.missing() or "it takes tensors on the CPU, all float32 or all float64"
        raise ValueError(f"the native CRF cannot run here: {reason}; use backend='batched'")
    dense = CRFScores(*map(np.ascontiguousarray, scores))
    given = CRFInputs(
        np.ascontiguousarray(emissions), np.ascontiguousarray(lengths, dtype=np.int64), dense
    )
    if len(lengths):
        shortest = int(given.lengths.min())
        longest = int(given.lengths.max())
        if shortest < 1 or longest > emissions.shape[1]:
            raise ValueError(
                f"lengths must be from 1 to {emissions.shape[1]}, not from {shortest} to {longest}"
            )
    return given


def gold(tags: Array, given: CRFInputs) -> Ints:
    """The tags as C reads them, and nothing in them that would lead it astray."""
    check_tags(given.emissions, tags)
    _, T, K = given.emissions.shape
    found = np.where(np.arange(T) < given.lengths[:, None], tags.astype(np.int64), 0)
    if found.size and not 0 <= found.min() <= found.max() < K:
        raise IndexError(f"tags must be from 0 to {K - 1}, not from {found.min()} to {found.max()}")
    return found


class _SortedArcs(NamedTuple):
    """Arcs as C reads them: sentence by sentence, by their starts. `order` says which arc each of
    them was.
    """

    order: Ints
    fields: dict[str, Array]


def _sorted_arcs(given: CRFInputs, arcs: Arcs | None) -> _SortedArcs:
    if arcs is None:
        return _SortedArcs(np.empty(0, dtype=np.int64), {})
    types = [np.dtype(np.int64)] * 5 + [given.scores.start.dtype]
    dense = Arcs(*(np.asarray(part).astype(dtype) for part, dtype in zip(arcs, types, strict=True)))
    check_arcs(given.emissions, given.lengths, dense)
    order = np.lexsort((dense.start, dense.sentence))  # of equals the first stays first
    in_order = Arcs(*map(np.ascontiguousarray, dense.at(order)))
    fields = {
        f"arc_{name}": part for name, part in zip(in_order._fields[1:], in_order[1:], strict=True)
    }
    fields["arcs"] = np.searchsorted(in_order.sentence, np.arange(len(given.lengths) + 1))
    fields["arc_by_end"] = np.lexsort((in_order.end, in_order.sentence))
    return _SortedArcs(order, fields)


def _run_count(B: int, T: int) -> int:
    return min(B, RUNS) if B * T > SMALL else min(B, 1)


def _call(
    name: str, given: CRFInputs, by_score: Array | None = None, **asked: Array | int | None
) -> None:
    """C's function for each run of sentences. `by_score` [runs, K + 2, K] has one place for each of
    them.
    """
    B, T, K = given.emissions.shape
    runs = _run_count(B, T)
    arrays = {"emissions": given.emissions, "lengths": given.lengths, **given.scores._asdict()}
    fields = {
        field: value.ctypes.data if isinstance(value, np.ndarray) else value
        for field, value in (arrays | asked).items()
    }
    tasks = [
        _Batch(
            size=sizeof(_Batch), low=B * run // runs, high=B * (run + 1) // runs, T=T, K=K, **fields
        )
        for run in range(runs)
    ]
    if by_score is not None:
        for task, place in zip(tasks, by_score, strict=True):
            task.by_score = place.ctypes.data
    for status in run_calls(library.function(name, given.scores.start.dtype, c_void_p), tasks):
        if status == -1:
            raise RuntimeError(
                f"{name} of the C library is older than this package: install hanlattice again"
            )
        if status == -2:
            raise MemoryError(f"{name}: no memory for sentences of {T} characters and {K} tags")


def value(given: CRFInputs, tags: Ints | None, alphas: Array | None = None) -> Array:
    """[B]: log Z, or the log likelihood of tags; `alphas`, like the emissions, is filled for
    `gradient`.
    """
    found = np.empty(len(given.lengths), dtype=given.emissions.dtype)
    _call("crf_forward", given, tags=tags, alphas=alphas, value=found)
    return found


def gradient(
    given: CRFInputs, tags: Ints | None, alphas: Array, by_value: Array, by_scores: bool
) -> tuple[Array, Array]:
    """By the emissions, [B, T, K], and by transitions, start and end, [K + 2, K]: one sum a run,
    added in order.
    """
    B, T, K = given.emissions.shape
    by_emission = np.empty_like(given.emissions)
    by_score = np.empty(
        (_run_count(B, T) if by_scores else 0, K + 2, K), dtype=given.emissions.dtype
    )
    asked = {"tags": tags, "alphas": alphas, "gradient": by_value, "by_emission": by_emission}
    _call("crf_backward", given, by_score if by_scores else None, **asked)
    return by_emission, by_score.sum(0)


def log_partition(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B]: the log of the summed weight of all taggings."""
    return value(inputs("log_partition", emissions, lengths, scores), None)


def log_likelihood(emissions: Array, tags: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B]: the log probability of `tags` [B, T]."""
    given = inputs("log_likelihood", emissions, lengths, scores)
    return value(given, gold(tags, given))


def marginals(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    given = inputs("marginals", emissions, lengths, scores)
    alphas = np.empty_like(given.emissions)
    return gradient(given, None, alphas, np.ones_like(value(given, None, alphas)), by_scores=False)[
        0
    ]


def viterbi(
    emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs | None = None
) -> tuple[Ints, Array]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in
    tag order.

    The characters of an arc a have −1 − a instead of a tag.
    """
    given = inputs("viterbi", emissions, lengths, scores)
    sorted_arcs = _sorted_arcs(given, arcs)
    tags = np.empty(emissions.shape[:2], dtype=np.int64)
    score = np.empty(len(lengths), dtype=emissions.dtype)
    _call("crf_viterbi", given, tags=tags, value=score, **sorted_arcs.fields)
    return _with_given_arcs(tags, sorted_arcs), score


def nbest(
    emissions: Array, lengths: Array, scores: CRFScores, n: int, arcs: Arcs | None = None
) -> tuple[Ints, Array]:
    """The n best taggings, [B, n, T], and their scores, [B, n], best first; of equals, the first in
    tag order.
    """
    given = inputs("nbest", emissions, lengths, scores)
    sorted_arcs = _sorted_arcs(given, arcs)
    B, T, K = emissions.shape
    check_n(n, K)
    tags = np.empty((B, n, T), dtype=np.int64)
    score = np.empty((B, n), dtype=emissions.dtype)
    _call("crf_nbest", given, n=n, tags=tags, value=score, **sorted_arcs.fields)
    return _with_given_arcs(tags, sorted_arcs), score


def _with_given_arcs(tags: Ints, sorted_arcs: _SortedArcs) -> Ints:
    """The tags, with arcs by the numbers that the caller gave them."""
    in_arcs = tags < 0
    if len(sorted_arcs.order):
        tags[in_arcs] = -1 - sorted_arcs.order[-1 - tags[in_arcs]]
    return tags


def arc_marginals(emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs) -> ArcMarginals:
    """The log partition with these arcs, the probability of each tag, and the log probability of
    each arc.
    """
    given = inputs("arc_marginals", emissions, lengths, scores)
    order, fields = _sorted_arcs(given, arcs)
    found = np.empty(len(order), dtype=emissions.dtype)
    partition = np.empty(len(lengths), dtype=emissions.dtype)
    tags = np.empty_like(given.emissions)
    _call("crf_arcs", given, value=partition, by_emission=tags, arc_value=found, **fields)
    in_given_order = np.empty_like(found)
    in_given_order[order] = found
    return ArcMarginals(partition, tags, in_given_order)


def span_log_probability(
    emissions: Array,
    lengths: Array,
    scores: CRFScores,
    spans: TaggedSpans,
    arcs: Arcs | None = None,
) -> Array:
    """[S]: the log probability of each tagged span, summed over all that may stand around it, arcs
    too.

    In the dtype of the scores: float32 emissions need not be made float64 for it.
    """
    given = inputs("span_log_probability", emissions, lengths, scores)
    sentence, start, end, tags = (np.asarray(part, dtype=np.int64) for part in spans[:4])
    asked = TaggedSpans(sentence, start, end, tags, np.asarray(spans.blocked_next, dtype=np.bool_))
    _check_spans(given, asked)
    order = np.argsort(asked.sentence, kind="stable")
    within, low, high, tagged, blocked = (np.ascontiguousarray(part[order]) for part in asked)
    answer = np.empty(len(order), dtype=given.scores.start.dtype)
    _call(
        "crf_spans",
        given,
        longest=tagged.shape[1],
        first=np.searchsorted(within, np.arange(len(lengths) + 1)),
        span_start=low,
        span_end=high,
        span_tags=tagged,
        blocked=blocked,
        single=None if emissions.dtype == answer.dtype else given.emissions,
        value=answer,
        **_sorted_arcs(given, arcs).fields,
    )
    in_order = np.empty_like(answer)
    in_order[order] = answer
    return in_order


def _check_spans(given: CRFInputs, spans: TaggedSpans) -> None:
    """What C would follow outside the batch is an IndexError, as it is where torch looks up."""
    B, _, K = given.emissions.shape
    S, L = spans.tags.shape
    if spans.blocked_next.shape != (S, K) or any(len(part) != S for part in spans):
        shapes = ", ".join(str(part.shape) for part in spans)
        raise ValueError(
            f"spans must be [S], their tags [S, L] and blocked_next [S, {K}], not {shapes}"
        )
    if not S:
        return
    if not 0 <= spans.sentence.min() <= spans.sentence.max() < B:
        raise IndexError(f"spans must be of sentences from 0 to {B - 1}, not of {spans.sentence}")
    long = spans.end - spans.start
    ends = given.lengths[spans.sentence]
    if not ((spans.start >= 0) & (long > 0) & (long <= L) & (spans.end <= ends)).all():
        raise IndexError(
            "each span must lie in its sentence, hold a character and have a tag for each"
        )
    beyond = np.arange(L) >= long[:, None]
    if not (((spans.tags >= 0) & (spans.tags < K)) | beyond).all():
        raise IndexError(f"the tags of spans must be from 0 to {K - 1}")
