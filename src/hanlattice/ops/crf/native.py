"""The CRF in C (native_*.c), with the names and signatures of batched.py, for NumPy arrays.

A batch is cut into runs of sentences for the threads. The cut depends on the batch alone, and each
sentence is computed by itself, so the results do not depend on the number of threads.
`differentiable.py` is for tensors.
"""

from __future__ import annotations

from ctypes import Structure, c_int64, c_void_p, sizeof
from typing import Any

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

# A large batch is cut into so many runs of sentences.
RUNS = 8
# A batch of up to so many characters stays whole: a thread would cost more than it saves.
WHOLE_CHARACTERS = 1024


class _Batch(Structure):
    """The twin of crf_batch in native_crf.h, which explains each field."""

    _fields_ = (
        *((name, c_int64) for name in ["size", "low", "high", "T", "K", "n", "longest"]),
        *((name, c_void_p) for name in ["emissions", "lengths", "start", "transitions", "end"]),
        *(
            (name, c_void_p)
            for name in ["tags", "value", "alphas", "gradient", "by_emission", "by_score"]
        ),
        *((name, c_void_p) for name in ["first", "span_start", "span_end", "span_tags", "blocked"]),
        *((name, c_void_p) for name in ["single", "arcs", "arc_start", "arc_end", "arc_first"]),
        *((name, c_void_p) for name in ["arc_last", "arc_by_end", "arc_score", "arc_value"]),
    )


def takes(name: str, emissions: Any, scores: CRFScores) -> bool:
    """Return whether the library has this function for these arrays or tensors."""
    if name == "span_log_probability" and library.real_name(scores.start.dtype) == "float64":
        # It reads emissions of float32 too, as its only function.
        return library.available(*scores) and library.available(emissions)
    return library.available(emissions, *scores)


def inputs(name: str, emissions: Array, lengths: Array, scores: CRFScores) -> CRFInputs:
    """Return what C may read: dense arrays, with lengths inside the emissions."""
    K = len(scores.start)
    # Shapes that fit, the usual case, are told here at once; `check` names what is wrong.
    fits = (
        emissions.size > 0
        and emissions.shape[2:] == (K,)
        and lengths.shape == emissions.shape[:1]
        and scores.start.shape == scores.end.shape == (K,)
        and scores.transitions.shape == (K, K)
    )
    if not fits:
        check(emissions, lengths, scores)
    if not takes(name, emissions, scores):
        reason = library.missing() or "it takes tensors on the CPU, all float32 or all float64"
        raise ValueError(f"the native CRF cannot run here: {reason}; use backend='batched'")
    lengths = np.ascontiguousarray(lengths, dtype=np.int64)
    T = emissions.shape[1]
    if len(lengths) and not 1 <= lengths.min() <= lengths.max() <= T:
        raise ValueError(
            f"lengths must be from 1 to {T}, not from {lengths.min()} to {lengths.max()}"
        )
    dense = CRFScores(*map(np.ascontiguousarray, scores))
    return CRFInputs(np.ascontiguousarray(emissions), lengths, dense)


def gold(tags: Array, given: CRFInputs) -> Ints:
    """Return the tags as C reads them, 0 beyond the lengths; refuse one that does not exist."""
    check_tags(given.emissions, tags)
    _, T, K = given.emissions.shape
    dense = np.where(np.arange(T) < given.lengths[:, None], tags.astype(np.int64), 0)
    if dense.size and not 0 <= dense.min() <= dense.max() < K:
        raise IndexError(f"tags must be from 0 to {K - 1}, not from {dense.min()} to {dense.max()}")
    return dense


def _sorted_arcs(given: CRFInputs, arcs: Arcs | None) -> tuple[Ints, dict[str, Array]]:
    """Sort arcs by sentence and start, as C reads them: their order, and the fields of the batch."""
    if arcs is None:
        return np.empty(0, dtype=np.int64), {}
    types = [np.dtype(np.int64)] * 5 + [given.scores.start.dtype]
    dense = Arcs(*(np.asarray(part).astype(dtype) for part, dtype in zip(arcs, types, strict=True)))
    check_arcs(given.emissions, given.lengths, dense)
    # The sort is stable: of equal arcs the first stays first.
    order = np.lexsort((dense.start, dense.sentence))
    in_order = Arcs(*map(np.ascontiguousarray, dense.at(order)))
    fields = {f"arc_{name}": part for name, part in in_order._asdict().items()}
    # The field `arcs` says where those of each sentence begin instead.
    del fields["arc_sentence"]
    fields["arcs"] = np.searchsorted(in_order.sentence, np.arange(len(given.lengths) + 1))
    fields["arc_by_end"] = np.lexsort((in_order.end, in_order.sentence))
    return order, fields


def _run_count(B: int, T: int) -> int:
    return min(B, RUNS if B * T > WHOLE_CHARACTERS else 1)


def _call(
    name: str, given: CRFInputs, by_score: Array | None = None, **more: Array | int | None
) -> None:
    """Call C's function for each run of sentences; run n writes by_score[n], [K + 2, K]."""
    B, T, K = given.emissions.shape
    runs = _run_count(B, T)
    batch = _Batch(size=sizeof(_Batch), T=T, K=K)
    arrays = {"emissions": given.emissions, "lengths": given.lengths, **given.scores._asdict()}
    for field, content in (arrays | more).items():
        setattr(batch, field, content.ctypes.data if isinstance(content, np.ndarray) else content)
    tasks = []
    for run in range(runs):
        task = _Batch.from_buffer_copy(batch)
        task.low = B * run // runs
        task.high = B * (run + 1) // runs
        if by_score is not None:
            task.by_score = by_score[run].ctypes.data
        tasks.append(task)
    # The codes are those of native_crf.h.
    codes = run_calls(library.function(name, given.scores.start.dtype, c_void_p), tasks)
    if -1 in codes:
        raise RuntimeError(
            f"{name} of the C library is older than this package: install hanlattice again"
        )
    if -2 in codes:
        raise MemoryError(f"{name}: no memory for sentences of {T} characters and {K} tags")


def value(given: CRFInputs, tags: Ints | None, alphas: Array | None = None) -> Array:
    """Return [B]: log Z, or the log likelihood of tags.

    `alphas`, of the shape of the emissions, is filled for `gradient`.
    """
    values = np.empty(len(given.lengths), dtype=given.emissions.dtype)
    _call("crf_forward", given, tags=tags, alphas=alphas, value=values)
    return values


def gradient(
    given: CRFInputs, tags: Ints | None, alphas: Array, by_value: Array, by_scores: bool
) -> tuple[Array, Array]:
    """Return the gradients by the emissions, [B, T, K], and by all scores, [K + 2, K].

    The rows of the second are those of the transitions, then start and end.
    """
    B, T, K = given.emissions.shape
    by_emission = np.empty_like(given.emissions)
    # Each run has a sum of its own. They are added in order, whichever thread is first.
    runs = _run_count(B, T) if by_scores else 0
    by_score = np.empty((runs, K + 2, K), dtype=given.emissions.dtype)
    arrays = {"tags": tags, "alphas": alphas, "gradient": by_value, "by_emission": by_emission}
    _call("crf_backward", given, by_score if by_scores else None, **arrays)
    return by_emission, by_score.sum(0)


def log_partition(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """Return [B]: the log of the summed weight of all taggings."""
    return value(inputs("log_partition", emissions, lengths, scores), None)


def log_likelihood(emissions: Array, tags: Array, lengths: Array, scores: CRFScores) -> Array:
    """Return [B]: the log probability of `tags` [B, T]."""
    given = inputs("log_likelihood", emissions, lengths, scores)
    return value(given, gold(tags, given))


def marginals(emissions: Array, lengths: Array, scores: CRFScores) -> Array:
    """Return [B, T, K]: the probability of each tag at each character; zero beyond the lengths."""
    given = inputs("marginals", emissions, lengths, scores)
    alphas = np.empty_like(given.emissions)
    # The gradient of log Z by an emission is the probability of its tag. `value` fills the alphas.
    ones = np.ones_like(value(given, None, alphas))
    return gradient(given, None, alphas, ones, by_scores=False)[0]


def viterbi(
    emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs | None = None
) -> tuple[Ints, Array]:
    """Return the best tagging, [B, T], 0 beyond the lengths, and its score, [B].

    Of equals it is the first in tag order. The characters of an arc a have −1 − a instead of a tag.
    """
    given = inputs("viterbi", emissions, lengths, scores)
    order, fields = _sorted_arcs(given, arcs)
    tags = np.empty(emissions.shape[:2], dtype=np.int64)
    score = np.empty(len(lengths), dtype=emissions.dtype)
    _call("crf_viterbi", given, tags=tags, value=score, **fields)
    if arcs is not None:
        _restore_arcs(tags, order)
    return tags, score


def nbest(
    emissions: Array, lengths: Array, scores: CRFScores, n: int, arcs: Arcs | None = None
) -> tuple[Ints, Array]:
    """Return the n best taggings, [B, n, T], and their scores, [B, n]; equals are in tag order."""
    given = inputs("nbest", emissions, lengths, scores)
    order, fields = _sorted_arcs(given, arcs)
    B, T, K = emissions.shape
    check_n(n, K)
    tags = np.empty((B, n, T), dtype=np.int64)
    score = np.empty((B, n), dtype=emissions.dtype)
    _call("crf_nbest", given, n=n, tags=tags, value=score, **fields)
    if arcs is not None:
        _restore_arcs(tags, order)
    return tags, score


def _restore_arcs(tags: Ints, order: Ints) -> None:
    """Write the caller's numbers of the arcs into the tags."""
    in_arcs = tags < 0
    tags[in_arcs] = -1 - order[-1 - tags[in_arcs]]


def arc_marginals(emissions: Array, lengths: Array, scores: CRFScores, arcs: Arcs) -> ArcMarginals:
    """Return log Z with these arcs, and the probabilities of each tag and of each arc."""
    given = inputs("arc_marginals", emissions, lengths, scores)
    order, fields = _sorted_arcs(given, arcs)
    values = np.empty(len(order), dtype=emissions.dtype)
    partition = np.empty(len(lengths), dtype=emissions.dtype)
    tags = np.empty_like(given.emissions)
    _call("crf_arcs", given, value=partition, by_emission=tags, arc_value=values, **fields)
    in_given_order = np.empty_like(values)
    in_given_order[order] = values
    return ArcMarginals(partition, tags, in_given_order)


def span_log_probability(
    emissions: Array,
    lengths: Array,
    scores: CRFScores,
    spans: TaggedSpans,
    arcs: Arcs | None = None,
) -> Array:
    """Return [S]: the log probability of each tagged span, summed over all that may surround it.

    Arcs may surround it too. The result has the dtype of the scores: float32 emissions need not be
    made float64 for it.
    """
    given = inputs("span_log_probability", emissions, lengths, scores)
    parts = [np.asarray(part, dtype=np.int64) for part in spans[:4]]
    parts.append(np.asarray(spans.blocked_next, dtype=np.bool_))
    _check_spans(given, TaggedSpans(*parts))
    # C takes the spans of each sentence together.
    order = np.argsort(parts[0], kind="stable")
    sentence, start, end, tags, blocked = [np.ascontiguousarray(part[order]) for part in parts]
    values = np.empty(len(order), dtype=given.scores.start.dtype)
    _call(
        "crf_spans",
        given,
        longest=tags.shape[1],
        first=np.searchsorted(sentence, np.arange(len(lengths) + 1)),
        span_start=start,
        span_end=end,
        span_tags=tags,
        blocked=blocked,
        # Emissions of float32 beside scores of float64 have a field of their own.
        single=None if emissions.dtype == values.dtype else given.emissions,
        value=values,
        **_sorted_arcs(given, arcs)[1],
    )
    in_given_order = np.empty_like(values)
    in_given_order[order] = values
    return in_given_order


def _check_spans(given: CRFInputs, spans: TaggedSpans) -> None:
    """Raise an IndexError where C would read outside the batch, as torch does."""
    B, _, K = given.emissions.shape
    sentence, start, end, tags, blocked = spans
    S, L = tags.shape
    if blocked.shape != (S, K) or not S == len(sentence) == len(start) == len(end):
        shapes = ", ".join(str(part.shape) for part in spans)
        raise ValueError(
            f"spans must be [S], their tags [S, L] and blocked_next [S, {K}], not {shapes}"
        )
    if not S:
        return
    if not 0 <= sentence.min() <= sentence.max() < B:
        raise IndexError(f"spans must be of sentences from 0 to {B - 1}, not of {sentence}")
    sizes = end - start
    if not ((start >= 0) & (sizes > 0) & (sizes <= L) & (end <= given.lengths[sentence])).all():
        raise IndexError(
            "each span must lie in its sentence, hold a character and have a tag for each"
        )
    beyond = np.arange(L) >= sizes[:, None]
    if not (((tags >= 0) & (tags < K)) | beyond).all():
        raise IndexError(f"the tags of spans must be from 0 to {K - 1}")
