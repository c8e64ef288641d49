"""Choose the sentences of each batch: of similar length, in an order that a seed fixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

# Sentences for this many batches are sorted together. More would save padding; fewer would mix the
# batches better.
POOL = 50


def training_batches(
    lengths: Sequence[int] | npt.NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """Return batches of indices that hold every sentence once, shuffled again each epoch.

    Args:
        lengths: The characters of each sentence.
        batch_size: The sentences of a batch; the last batch of a pool may have fewer.
        seed: With `epoch`, determines the order.
        epoch: Each epoch has another order.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    sizes = np.asarray(lengths)
    batches: list[npt.NDArray[np.int64]] = []
    for low in range(0, len(order), batch_size * POOL):
        pool = order[low : low + batch_size * POOL]
        pool = pool[np.argsort(sizes[pool], kind="stable")]
        batches += [pool[start : start + batch_size] for start in range(0, len(pool), batch_size)]
    # Shuffled again, or training would see short batches first in every pool.
    return [batches[number] for number in rng.permutation(len(batches))]


def share_out(lengths: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    """Split a batch among `size` processes, into parts with about as many characters.

    If the batch has fewer sentences than there are processes, some get none.
    """
    order = np.argsort(-lengths, kind="stable")
    # Deal to and fro, longest first: 0 1 2, 2 1 0, … evens out the sums of the lengths.
    turn, place = np.divmod(np.arange(len(order)), size)
    taker = np.where(turn % 2, size - 1 - place, place)
    return [np.sort(order[taker == rank]) for rank in range(size)]


def decoding_batches(
    lengths: Sequence[int],
    batch_size: int,
    characters: int,
    weights: Sequence[float] | npt.NDArray[np.float64] | None = None,
) -> Iterator[list[int]]:
    """Yield batches of indices that hold every sentence once, the longest first.

    Args:
        lengths: The characters of each sentence.
        batch_size: The most sentences of a batch.
        characters: The most characters of a batch, padding included.
        weights: Other costs of each sentence, as a share of what a batch may cost. A sentence that
            costs more than 1 has a batch of its own.
    """
    batch: list[int] = []
    weight = 0.0
    for index in np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist():
        # The first sentence is the longest, so all others are padded to it.
        longest = lengths[batch[0]] if batch else lengths[index]
        cost = 0.0 if weights is None else float(weights[index])
        is_full = len(batch) == batch_size or longest * (len(batch) + 1) > characters
        if batch and (is_full or weight + cost > 1):
            yield batch
            batch = []
            weight = 0.0
        batch.append(index)
        weight += cost
    if batch:
        yield batch
