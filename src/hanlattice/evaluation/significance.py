"""Whether one system is better than another, or lucky with the test sentences and the seeds: a
paired bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.span import Span

Counts = npt.NDArray[np.int64]  # [seeds, sentences, 3]: gold, predicted, correct
Floats = npt.NDArray[np.float64]

ROOM = 1 << 22  # numbers that are in memory at a time
NOTHING = 1e-12  # a smaller difference is rounding


class Difference(NamedTuple):
    """Mean F1 of A less that of B: as measured, its 95 % interval, and how probable 'no difference'
    is (two-sided).
    """

    difference: float
    low: float
    high: float
    p: float


class Draws(NamedTuple):
    """The random numbers of M samples."""

    sentences: Counts  # [M, S]
    left: Floats  # [M, seeds]: uniform numbers that choose seeds
    right: Floats


def sentence_counts(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> Counts:
    """[S, 3]: gold, predicted and correct spans of each sentence."""
    pairs = [(set(one), set(other)) for one, other in zip(gold, predicted, strict=True)]
    rows = [(len(one), len(other), len(one & other)) for one, other in pairs]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def paired_bootstrap(a: Counts, b: Counts, samples: int = 10_000, seed: int = 0) -> Difference:
    """A against B, whose numbers of seeds may differ. The two sides can be swapped: only the signs
    change.

    Each system is trained with several seeds, and each of these models has counts for every test
    sentence. A sample draws the sentences with replacement, the same for both systems and all
    seeds, and the seeds of each system with replacement; its statistic is the mean F1 of A less
    that of B. So the interval covers what another test set and another training would have changed.

    Every draw is used twice, the second time with A's and B's draws of seeds exchanged, so
    `samples` must be even.
    """
    _check(a, b, samples)
    room = max(1, ROOM // max(1, a.shape[1]))
    found = np.concatenate(
        [_differences(a, b, draws) for draws in draw(a, b, samples // 2, seed, room)]
    )
    found[np.abs(found) < NOTHING] = 0.0
    low, high = np.quantile(found, [0.025, 0.975]).tolist()
    p = 2 * min(float(np.mean(found <= 0)), float(np.mean(found >= 0)))
    measured = float(micro_f1(a.sum(1)).mean() - micro_f1(b.sum(1)).mean())
    return Difference(measured, low, high, min(1.0, max(p, 1 / samples)))


def draw(a: Counts, b: Counts, count: int, seed: int, room: int) -> Iterator[Draws]:
    """`count` draws, at most `room` at a time."""
    rng = np.random.default_rng(seed)
    sentences = a.shape[1]
    seeds = max(len(a), len(b))
    for low in range(0, count, room):
        size = min(room, count - low)
        yield Draws(
            rng.integers(0, sentences, size=(size, sentences)),
            rng.random((size, seeds)),
            rng.random((size, seeds)),
        )


def _differences(a: Counts, b: Counts, draws: Draws) -> Floats:
    """[2M]: the statistic of each draw, and of each with the seeds' draws exchanged."""
    size, sentences = draws.sentences.shape
    cells = draws.sentences + sentences * np.arange(size)[:, None]
    times = np.bincount(cells.ravel(), minlength=size * sentences).reshape(
        size, sentences
    )  # [M, S]
    ours = _f1_of_samples(a, times)
    theirs = _f1_of_samples(b, times)
    kept = _mean_of(ours, draws.left) - _mean_of(theirs, draws.right)
    exchanged = _mean_of(ours, draws.right) - _mean_of(theirs, draws.left)
    return np.concatenate([kept, exchanged])


def _f1_of_samples(counts: Counts, times: Counts) -> Floats:
    """[M, seeds], where a sentence counts as often as it was drawn."""
    seeds, sentences, _ = counts.shape
    flat = (
        counts.transpose(1, 0, 2).reshape(sentences, seeds * 3).astype(np.float64)
    )  # integer products are slow
    return micro_f1((times.astype(np.float64) @ flat).reshape(len(times), seeds, 3))


def micro_f1(counts: npt.NDArray[np.int64] | Floats) -> Floats:
    """F1 of (gold, predicted, correct) in the last dimension; 0 if all are 0."""
    gold, predicted, correct = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    return np.asarray(2 * correct / np.maximum(gold + predicted, 1))


def _mean_of(f1: Floats, uniform: Floats) -> Floats:
    """[M]: the mean over seeds that are drawn by uniform numbers."""
    seeds = f1.shape[1]
    which = (uniform[:, :seeds] * seeds).astype(np.int64)  # [M, seeds]
    return np.asarray(np.take_along_axis(f1, which, axis=1).mean(1))


def _check(a: Counts, b: Counts, samples: int) -> None:
    for name, counts in (("A", a), ("B", b)):
        if counts.ndim != 3 or counts.shape[2] != 3 or not counts.shape[0] or not counts.shape[1]:
            raise ValueError(
                f"counts of {name} must be [seeds, sentences, 3], none of them 0, not {counts.shape}"
            )
        if (counts < 0).any() or (counts[:, :, 2] > counts[:, :, :2].min(2)).any():
            raise ValueError(
                f"counts of {name} must be gold, predicted, correct, and no more correct than the others"
            )
    gold = (
        np.concatenate([a[:, :, 0], b[:, :, 0]]) if a.shape[1] == b.shape[1] else np.empty((0, 0))
    )
    if not len(gold) or (gold != gold[0]).any():
        raise ValueError(
            "A and B do not have the same gold: they were not counted on the same sentences"
        )
    if samples < 2 or samples % 2:
        raise ValueError(f"samples must be even and 2 or more, not {samples}")
