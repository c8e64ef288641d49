"""The CRF in C (native_*.c), with the names and signatures of batched.py, for tensors on the CPU.

A batch is cut into runs of sentences for the threads. The cut follows from the batch alone, and no sentence feels it:
the results do not depend on the number of threads.
"""

from __future__ import annotations

from ctypes import Structure, c_int64, c_void_p, sizeof
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hanlattice.ops import library
from hanlattice.ops.crf.values import CRFInputs, CRFScores, TaggedSpans, check, check_tags, differentiable
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
        *((name, c_void_p) for name in ["tags", "value", "alphas", "gradient", "by_emission", "by_score"]),
        *((name, c_void_p) for name in ["first", "span_start", "span_end", "span_tags", "blocked", "single"]),
    )


def takes(name: str, emissions: Tensor, scores: CRFScores) -> bool:
    """Whether the library is there, and has this function for these tensors."""
    if name == "span_log_probability" and scores.start.dtype == torch.float64:
        return library.available(*scores) and emissions.device.type == "cpu" and emissions.dtype in library.REALS
    return library.available(emissions, *scores)


def _inputs(name: str, emissions: Tensor, lengths: Tensor, scores: CRFScores) -> CRFInputs:
    check(emissions, lengths, scores)
    if not takes(name, emissions, scores):
        reason = library.missing() or "it takes tensors on the CPU, all float32 or all float64"
        raise ValueError(f"the native CRF cannot run here: {reason}; use backend='batched'")
    dense = CRFScores(*(part.contiguous() for part in scores))
    given = CRFInputs(emissions.contiguous(), lengths.to(torch.int64).contiguous(), dense)
    if len(lengths):
        shortest, longest = (int(edge) for edge in given.lengths.aminmax())
        if shortest < 1 or longest > emissions.shape[1]:
            raise ValueError(f"lengths must be from 1 to {emissions.shape[1]}, not from {shortest} to {longest}")
    return given


def _gold(tags: Tensor, given: CRFInputs) -> Tensor:
    """The tags as C reads them, and nothing in them that would lead it astray."""
    check_tags(given.emissions, tags)
    _, T, K = given.emissions.shape
    beyond = torch.arange(T) >= given.lengths.unsqueeze(1)
    gold = tags.to(torch.int64).masked_fill(beyond, 0)
    if gold.numel():
        low, high = (int(edge) for edge in gold.aminmax())
        if low < 0 or high >= K:
            raise IndexError(f"tags must be from 0 to {K - 1}, not from {low} to {high}")
    return gold.contiguous()


def _run_count(B: int, T: int) -> int:
    return min(B, RUNS) if B * T > SMALL else min(B, 1)


def _call(name: str, given: CRFInputs, by_score: Tensor | None = None, **asked: Tensor | Array | int | None) -> None:
    """C's function for each run of sentences. `by_score` [runs, K + 2, K] has one place for each of them."""
    B, T, K = given.emissions.shape
    runs = _run_count(B, T)
    inputs = {"emissions": given.emissions, "lengths": given.lengths, **given.scores._asdict()}
    fields = {field: _plain(value) for field, value in (inputs | asked).items()}
    tasks = [
        _Batch(size=sizeof(_Batch), low=B * run // runs, high=B * (run + 1) // runs, T=T, K=K, **fields)
        for run in range(runs)
    ]
    if by_score is not None:
        for task, place in zip(tasks, by_score, strict=True):
            task.by_score = place.data_ptr()
    for status in run_calls(library.function(name, given.scores.start.dtype, c_void_p), tasks):
        if status == -1:
            raise RuntimeError(f"{name} of the C library is older than this package: install hanlattice again")
        if status == -2:
            raise MemoryError(f"{name}: no memory for sentences of {T} characters and {K} tags")


def _plain(value: Tensor | Array | int | None) -> int | None:
    """A number as it is, an array as its address."""
    if isinstance(value, Tensor):
        return value.data_ptr()
    return value.ctypes.data if isinstance(value, np.ndarray) else value


class _Value(torch.autograd.Function):
    """log Z, or the log likelihood of tags."""

    @staticmethod
    def forward(
        ctx: Any, gradient: bool, tags: Tensor | None, lengths: Tensor, emissions: Tensor, *scores: Tensor
    ) -> Tensor:
        given = CRFInputs(emissions, lengths, CRFScores(*scores))
        value = emissions.new_empty(len(lengths))
        alphas = torch.empty_like(emissions) if gradient else None
        _call("crf_forward", given, tags=tags, alphas=alphas, value=value)
        ctx.save_for_backward(tags, alphas, lengths, emissions, *scores)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tags, alphas, lengths, emissions, *scores = ctx.saved_tensors
        given = CRFInputs(emissions, lengths, CRFScores(*scores))
        by_emission, by_score = _gradient(given, tags, alphas, gradient.contiguous(), by_scores=True)
        return None, None, None, by_emission, by_score[-2], by_score[:-2], by_score[-1]


def _gradient(
    given: CRFInputs, tags: Tensor | None, alphas: Tensor, gradient: Tensor, by_scores: bool
) -> tuple[Tensor, Tensor]:
    """By the emissions, [B, T, K], and by transitions, start and end, [K + 2, K]: one sum a run, added in order."""
    B, T, K = given.emissions.shape
    by_emission = torch.empty_like(given.emissions)
    by_score = given.emissions.new_empty(_run_count(B, T) if by_scores else 0, K + 2, K)
    asked = {"tags": tags, "alphas": alphas, "gradient": gradient, "by_emission": by_emission}
    _call("crf_backward", given, by_score if by_scores else None, **asked)
    return by_emission, by_score.sum(0)


def log_partition(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log of the summed weight of all taggings."""
    return differentiable(_Value, _inputs("log_partition", emissions, lengths, scores), None)


def log_likelihood(emissions: Tensor, tags: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B]: the log probability of `tags` [B, T]."""
    given = _inputs("log_likelihood", emissions, lengths, scores)
    return differentiable(_Value, given, _gold(tags, given))


@torch.no_grad()
def marginals(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> Tensor:
    """[B, T, K]: the probability of each tag at each character; zero beyond the lengths. Without a gradient."""
    given = _inputs("marginals", emissions, lengths, scores)
    value, alphas = given.emissions.new_ones(len(lengths)), torch.empty_like(given.emissions)
    _call("crf_forward", given, alphas=alphas, value=value)
    return _gradient(given, None, alphas, torch.ones_like(value), by_scores=False)[0]


@torch.no_grad()
def viterbi(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> tuple[Tensor, Tensor]:
    """The best tagging, [B, T], 0 beyond the lengths, and its score, [B]. Of equals, the first in tag order."""
    given = _inputs("viterbi", emissions, lengths, scores)
    tags, score = emissions.new_empty(emissions.shape[:2], dtype=torch.int64), emissions.new_empty(len(lengths))
    _call("crf_viterbi", given, tags=tags, value=score)
    return tags, score


@torch.no_grad()
def nbest(emissions: Tensor, lengths: Tensor, scores: CRFScores, n: int) -> tuple[Tensor, Tensor]:
    """The n best taggings, [B, n, T], and their scores, [B, n], best first; of equals, the first in tag order."""
    given = _inputs("nbest", emissions, lengths, scores)
    B, T, _ = emissions.shape
    tags, score = emissions.new_empty(B, n, T, dtype=torch.int64), emissions.new_empty(B, n)
    _call("crf_nbest", given, n=n, tags=tags, value=score)
    return tags, score


@torch.no_grad()
def span_log_probability(emissions: Tensor, lengths: Tensor, scores: CRFScores, spans: TaggedSpans) -> Tensor:
    """[S]: the log probability of each tagged span, summed over all that may stand around it. Without a gradient.

    In the dtype of the scores: float32 emissions need not be made float64 for it. The spans are sorted by numpy, since
    torch would wake its threads for them, which costs more than all the rest.
    """
    given = _inputs("span_log_probability", emissions, lengths, scores)
    sentence, start, end, tags = (np.asarray(part, dtype=np.int64) for part in spans[:4])
    asked = _SpanArrays(sentence, start, end, tags, np.asarray(spans.blocked_next, dtype=np.bool_))
    _check_spans(given, asked)
    order = np.argsort(sentence, kind="stable")
    within, low, high, tagged, blocked = (np.ascontiguousarray(part[order]) for part in asked)
    answer = scores.start.new_empty(len(order))
    _call(
        "crf_spans",
        given,
        longest=tags.shape[1],
        first=np.searchsorted(within, np.arange(len(lengths) + 1)),
        span_start=low,
        span_end=high,
        span_tags=tagged,
        blocked=blocked,
        single=None if emissions.dtype == answer.dtype else given.emissions,
        value=answer,
    )
    in_order = torch.empty_like(answer)
    in_order.numpy()[order] = answer.numpy()
    return in_order


class _SpanArrays(NamedTuple):
    """TaggedSpans in numpy."""

    sentence: Ints
    start: Ints
    end: Ints
    tags: Ints  # [S, L]
    blocked: npt.NDArray[np.bool_]  # [S, K]


def _check_spans(given: CRFInputs, spans: _SpanArrays) -> None:
    """What C would follow outside the batch is an IndexError, as it is where torch looks up."""
    (B, _, K), (S, L) = given.emissions.shape, spans.tags.shape
    if spans.blocked.shape != (S, K) or any(len(part) != S for part in spans):
        shapes = ", ".join(str(part.shape) for part in spans)
        raise ValueError(f"spans must be [S], their tags [S, L] and blocked_next [S, {K}], not {shapes}")
    if not S:
        return
    if not 0 <= spans.sentence.min() <= spans.sentence.max() < B:
        raise IndexError(f"spans must be of sentences from 0 to {B - 1}, not of {spans.sentence}")
    long, ends = spans.end - spans.start, given.lengths.numpy()[spans.sentence]
    if not ((spans.start >= 0) & (long > 0) & (long <= L) & (spans.end <= ends)).all():
        raise IndexError("each span must lie in its sentence, hold a character and have a tag for each")
    beyond = np.arange(L) >= long[:, None]
    if not (((spans.tags >= 0) & (spans.tags < K)) | beyond).all():
        raise IndexError(f"the tags of spans must be from 0 to {K - 1}")
