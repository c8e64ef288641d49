"""Which sentences go into a batch together: those of about the same length, in an order that a seed
fixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

# Batches that are sorted together: enough for little padding, few enough for well-mixed batches.
POOL = 50


def training_batches(
    lengths: Sequence[int] | npt.NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """Every sentence once, shuffled again each epoch, cut into batches of similar length."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    sizes = np.asarray(lengths)
    batches: list[npt.NDArray[np.int64]] = []
    for low in range(0, len(order), batch_size * POOL):
        pool = order[low : low + batch_size * POOL]
        pool = pool[np.argsort(sizes[pool], kind="stable")]
        batches += [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
    return [batches[at] for at in rng.permutation(len(batches))]


def share_out(lengths: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    """Which sentences of a batch each of several processes takes: as many, and about as many
    characters.

    The longest are dealt out to and fro. Of a batch with fewer sentences than processes, some get
    none.
    """
    order = np.argsort(-lengths, kind="stable")
    turn, place = np.divmod(np.arange(len(order)), size)
    taker = np.where(turn % 2, size - 1 - place, place)
    return [np.sort(order[taker == rank]) for rank in range(size)]


def decoding_batches(
    lengths: Sequence[int],
    batch_size: int,
    characters: int,
    weights: Sequence[float] | npt.NDArray[np.float64] | None = None,
) -> Iterator[list[int]]:
    """Every sentence once, longest first, in batches that are bounded whatever the sentences are.

    Args:
        lengths: The characters of each sentence.
        batch_size: How many sentences a batch may have.
        characters: How many characters it may have, with padding.
        weights: What else a sentence costs, as a share of what a batch may cost. A sentence that
            costs more has a batch of its own.
    """
    batch: list[int] = []
    weight = 0.0
    for at in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        longest = lengths[batch[0]] if batch else lengths[at]
        cost = 0.0 if weights is None else float(weights[at])
        is_full = len(batch) == batch_size or longest * (len(batch) + 1) > characters
        if batch and (is_full or weight + cost > 1):
            yield batch
            batch = []
            weight = 0.0
        batch.append(at)
        weight += cost
    if batch:
        yield batch
