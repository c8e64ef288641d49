"""Tables of vectors that expand only the rows that a text needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.ops.packing import POOLS, covered
from hanlattice.text.lattice import Ints, Lattice

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

# The most multiplications that OpenBLAS leaves on one thread. Its other threads, once started, spin
# while they wait, and take the cores from ours.
ON_ONE_THREAD = 1 << 18


def matmul_one_thread(x: Floats, matrix: Floats) -> Floats:
    """Multiply x [..., D] by a matrix [D, K] on this thread; return [..., K]."""
    rows = x.reshape(-1, x.shape[-1])
    D, K = matrix.shape
    product = np.empty((len(rows), K), dtype=x.dtype)
    step = max(1, ON_ONE_THREAD // max(1, D * K))
    for low in range(0, len(rows), step):
        np.dot(rows[low : low + step], matrix, out=product[low : low + step])
    return product.reshape(*x.shape[:-1], K)


class VectorTable:
    """R vectors of E numbers, packed or not.

    Args:
        numbers: [R, E] floats or int8; or [R, E / 2] uint8 with two numbers of 4 bits in each.
        scale: [R, 1], the factor of each row of integers.
        half: Round products to half precision, as the fixed vectors of every model are.
    """

    def __init__(self, numbers: Array, scale: Array | None = None, half: bool = False) -> None:
        self.numbers = numbers
        self.scale = scale
        self.dtype = np.float16 if half else np.float32
        self.in_pairs = scale is not None and numbers.dtype == np.uint8

    @property
    def dim(self) -> int:
        """E, the length of a vector."""
        return int(self.numbers.shape[1]) * (2 if self.in_pairs else 1)

    def __len__(self) -> int:
        return len(self.numbers)

    def rows(self, ids: Ints | slice) -> Array:
        """Return the vectors [..., E] of ids [...], in float32 or, with `half`, float16."""
        numbers = self.numbers[ids]
        if self.scale is None:
            return numbers.astype(self.dtype) if numbers.dtype == np.float16 else numbers
        if self.in_pairs:
            # The low halves are the first E / 2 numbers. 8 stands for 0.
            halves = np.concatenate([numbers & 15, numbers >> 4], axis=-1)
            numbers = halves.astype(np.int8) - np.int8(8)
        expanded: Array = numbers.astype(self.dtype) * self.scale[ids].astype(self.dtype)
        return expanded


class WordTable:
    """One vector for each word or bigram: those seen in training, then others, then added ones.

    Args:
        trained: The vectors that training changed.
        fixed: The vectors that it did not change.
    """

    def __init__(self, trained: VectorTable, fixed: VectorTable) -> None:
        self.trained = trained
        self.fixed = fixed
        self.dim = trained.dim
        self.known = len(trained) + len(fixed)  # without the added words
        # Rows for added words; the first `_count` are in use.
        self._room: Array = np.empty((0, trained.dim), dtype=np.float16)
        self._count = 0

    def __len__(self) -> int:
        return self.known + self._count

    @property
    def added(self) -> Array:
        """The vectors of words that were added later."""
        return self._room[: self._count]

    def rows(self, words: Ints, added: Sequence[Array] | None = None) -> Floats:
        """Return the vectors [..., E] of words [...].

        Args:
            words: Ids.
            added: Tables [n, E] of added words that replace this table's own.
        """
        vectors = np.zeros((*words.shape, self.dim), dtype=np.float32)
        low = 0
        for table in (self.trained, self.fixed):
            high = low + len(table.numbers)
            inside = (words >= low) & (words < high)
            if inside.any():
                vectors[inside] = table.rows(words[inside] - low)
            low = high
        for rows in (self.added,) if added is None else added:
            high = low + len(rows)
            inside = (words >= low) & (words < high)
            if inside.any():
                vectors[inside] = rows[words[inside] - low]
            low = high
        return vectors

    # The table of `nn`, an nn.Module, has the same method under this name.
    vectors = rows

    def append(self, vectors: Array) -> None:
        """Add rows for words that join the lexicon, in the precision that they have.

        The large tables are not copied, and spare room saves most copies of the added rows.
        """
        added = self.added
        count = self._count + len(vectors)
        dtype = np.promote_types(added.dtype, vectors.dtype) if len(added) else vectors.dtype
        if count > len(self._room) or dtype != added.dtype:
            room = np.empty((count + len(added) // 2, self.dim), dtype=dtype)
            room[: len(added)] = added
            self._room = room
        self._room[self._count : count] = vectors
        # Last, because another thread may be reading.
        self._count = count

    def joined(self, before: Array | None, vectors: Array) -> Array:
        """Return vectors after the rows `before`, if there are any."""
        return vectors if before is None else np.concatenate([before, vectors])

    def keep(self, words: Ints) -> None:
        """Keep only these added words. Arrays that `added` returned earlier stay valid."""
        self._room = self.added[words - self.known]
        self._count = len(self._room)


class NumpyTwoSources:
    """Vectors of words and of subwords: each kind has its own columns, and 0 in the other's.

    Subwords have the lowest ids. The ids of words follow, so that words can be added.
    """

    def __init__(self, words: WordTable, subwords: WordTable) -> None:
        self.words = words
        self.subwords = subwords
        self.dim = words.dim + subwords.dim

    def rows(self, words: Ints, added: Sequence[Array] | None = None) -> Floats:
        """Return the vectors [W, E] of ids [W]; for `added`, see `WordTable.rows`."""
        first = len(self.subwords)
        vectors = np.zeros((len(words), self.dim), dtype=np.float32)
        is_word = words >= first
        vectors[is_word, : self.words.dim] = self.words.rows(words[is_word] - first, added)
        vectors[~is_word, self.words.dim :] = self.subwords.rows(words[~is_word])
        return vectors


class NumpyWordPools:
    """Pools, for every character, the words that begin, go on and end there, each with its own map.

    The torch twin is `nn.embeddings.WordPools`.

    Args:
        counts: [V], how often training met each word.
        maps: [E, POOLS * D]
    """

    def __init__(self, counts: Ints, maps: Floats) -> None:
        self.counts = counts
        self.maps = maps
        self.dim = int(maps.shape[1]) // POOLS

    def __call__(self, rows: Floats, words: Ints, lattice: Lattice, T: int) -> Floats:
        """Pool the vectors [W, E] and ids [W] of a lattice's words into [B, T, D]."""
        B = len(lattice.lengths)
        pooled = np.zeros((B * T, self.dim), dtype=np.float32)
        if len(lattice):
            plan = covered(lattice, T)
            # Words that training did not meet, added ones too, count 0.
            counts = np.append(self.counts, 0)[np.minimum(words, len(self.counts))]
            weights = (1 + np.log1p(counts.astype(np.float32)))[:, None]
            # [POOLS * W, D]: a row for each word and pool.
            mapped = matmul_one_thread(rows * weights, self.maps).reshape(-1, self.dim)
            # `reduceat` needs runs that are not empty.
            some = np.flatnonzero(np.diff(plan.edges))
            first = plan.edges[some]
            total = np.add.reduceat(weights[plan.word], first)
            pooled[some] = np.add.reduceat(mapped[plan.row], first) / np.maximum(total, 1)
        return pooled.reshape(B, T, self.dim)
