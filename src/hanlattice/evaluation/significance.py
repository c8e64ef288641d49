"""Whether one system is better than another, or lucky with the test sentences and the seeds.

The test is a paired bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hanlattice.text.span import Span

# [seeds, sentences, 3]: gold, predicted, correct.
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# The draws that are in memory together have at most this many sentences.
ROOM = 1 << 22
# A smaller difference is rounding.
NOTHING = 1e-12


class Difference(NamedTuple):
    """Mean F1 of A minus mean F1 of B: as measured, its 95 % interval, and p of no difference.

    The test is two-sided.
    """

    difference: float
    low: float
    high: float
    p: float


class Draws(NamedTuple):
    """The random numbers of M samples.

    `sentences` is [M, S]. `left` and `right` are [M, seeds], uniform numbers that choose seeds.
    """

    sentences: Counts
    left: Floats
    right: Floats


def sentence_counts(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> Counts:
    """Return gold, predicted and correct spans of each sentence, as [S, 3]."""
    pairs = [(set(wanted), set(found)) for wanted, found in zip(gold, predicted, strict=True)]
    rows = [(len(wanted), len(found), len(wanted & found)) for wanted, found in pairs]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def paired_bootstrap(a: Counts, b: Counts, samples: int = 10_000, seed: int = 0) -> Difference:
    """Compare system A with system B; swapping them only changes the signs.

    Each system is trained with several seeds, and each of these models has counts for every test
    sentence. A sample draws the sentences with replacement, the same for both systems and all
    seeds, and the seeds of each system with replacement. Its statistic is the mean F1 of A minus
    the mean F1 of B. So the interval covers what another test set and another training change.

    Every draw is used twice, the second time with the seeds of A and B exchanged.

    Args:
        a: [seeds, S, 3], the counts of A.
        b: [seeds, S, 3], the counts of B on the same sentences; its number of seeds may differ.
        samples: how many samples, an even number.
    """
    _check(a, b, samples)
    room = max(1, ROOM // max(1, a.shape[1]))
    parts = [_differences(a, b, draws) for draws in draw(a, b, samples // 2, seed, room)]
    differences = np.concatenate(parts)
    differences[np.abs(differences) < NOTHING] = 0.0
    low, high = np.quantile(differences, [0.025, 0.975]).tolist()
    p = 2 * min(float(np.mean(differences <= 0)), float(np.mean(differences >= 0)))
    measured = float(micro_f1(a.sum(1)).mean() - micro_f1(b.sum(1)).mean())
    # No p below 1 / samples can be measured.
    return Difference(measured, low, high, min(1.0, max(p, 1 / samples)))


def draw(a: Counts, b: Counts, count: int, seed: int, room: int) -> Iterator[Draws]:
    """Yield `count` draws, at most `room` at a time."""
    rng = np.random.default_rng(seed)
    sentences = a.shape[1]
    seeds = max(len(a), len(b))
    for low in range(0, count, room):
        size = min(room, count - low)
        places = rng.integers(0, sentences, size=(size, sentences))
        yield Draws(places, rng.random((size, seeds)), rng.random((size, seeds)))


def _differences(a: Counts, b: Counts, draws: Draws) -> Floats:
    """Return the statistic of each draw, then of each with the seeds exchanged, as [2M]."""
    size, sentences = draws.sentences.shape
    # One count over all samples: each has its own range of numbers.
    cells = draws.sentences + sentences * np.arange(size)[:, None]
    times = np.bincount(cells.ravel(), minlength=size * sentences).reshape(size, sentences)
    ours = _f1_of_samples(a, times)
    theirs = _f1_of_samples(b, times)
    kept = _mean_of(ours, draws.left) - _mean_of(theirs, draws.right)
    exchanged = _mean_of(ours, draws.right) - _mean_of(theirs, draws.left)
    return np.concatenate([kept, exchanged])


def _f1_of_samples(counts: Counts, times: Counts) -> Floats:
    """Return F1 as [M, seeds], where a sentence counts as often as it was drawn."""
    seeds, sentences, _ = counts.shape
    # Products of integers are slow, so both factors are floats.
    flat = counts.transpose(1, 0, 2).reshape(sentences, seeds * 3).astype(np.float64)
    return micro_f1((times.astype(np.float64) @ flat).reshape(len(times), seeds, 3))


def micro_f1(counts: npt.NDArray[np.int64] | Floats) -> Floats:
    """Return F1 of (gold, predicted, correct) in the last dimension; 0 if all are 0."""
    gold, predicted, correct = np.moveaxis(np.asarray(counts, dtype=np.float64), -1, 0)
    return np.asarray(2 * correct / np.maximum(gold + predicted, 1))


def _mean_of(f1: Floats, uniform: Floats) -> Floats:
    """Return the mean over seeds that uniform numbers choose, as [M]."""
    seeds = f1.shape[1]
    chosen = (uniform[:, :seeds] * seeds).astype(np.int64)
    return np.asarray(np.take_along_axis(f1, chosen, axis=1).mean(1))


def _check(a: Counts, b: Counts, samples: int) -> None:
    for name, counts in (("A", a), ("B", b)):
        if counts.ndim != 3 or counts.shape[2] != 3 or not counts.shape[0] or not counts.shape[1]:
            wanted = "[seeds, sentences, 3], none of them 0"
            raise ValueError(f"counts of {name} must be {wanted}, not {counts.shape}")
        if (counts < 0).any() or (counts[:, :, 2] > counts[:, :, :2].min(2)).any():
            wanted = "gold, predicted, correct, and no more correct than the others"
            raise ValueError(f"counts of {name} must be {wanted}")
    # Every seed of both systems must have the same gold in every sentence.
    same_size = a.shape[1] == b.shape[1]
    if not same_size or (a[:, :, 0] != a[0, :, 0]).any() or (b[:, :, 0] != a[0, :, 0]).any():
        raise ValueError(
            "A and B do not have the same gold: they were not counted on the same sentences"
        )
    if samples < 2 or samples % 2:
        raise ValueError(f"samples must be even and 2 or more, not {samples}")
