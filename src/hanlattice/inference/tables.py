"""Tables of vectors, of which only the rows that a text needs are ever expanded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.ops.packing import POOLS, covered
from hanlattice.text.lattice import Ints, Lattice

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]


ON_ONE_THREAD = (
    1 << 18
)  # multiplications that OpenBLAS does not share out: its threads would wait busily ever after


def matmul_one_thread(x: Floats, matrix: Floats) -> Floats:
    """x […, D] times a matrix [D, K], on this thread."""
    rows = x.reshape(-1, x.shape[-1])
    D, K = matrix.shape
    found = np.empty((len(rows), K), dtype=x.dtype)
    step = max(1, ON_ONE_THREAD // max(1, D * K))
    for low in range(0, len(rows), step):
        np.dot(rows[low : low + step], matrix, out=found[low : low + step])
    return found.reshape(*x.shape[:-1], K)


class VectorTable:
    """Rows of numbers: floats; or integers, two in a byte if they are unsigned, times their `scale`
    [R, 1].

    With `half`, a product is rounded to half precision: so are the fixed vectors of every model.
    """

    def __init__(self, numbers: Array, scale: Array | None = None, half: bool = False) -> None:
        self.numbers = numbers
        self.scale = scale
        self.half = half

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def dim(self) -> int:
        return int(self.numbers.shape[1]) * (2 if self._is_in_pairs else 1)

    @property
    def _is_in_pairs(self) -> bool:
        return self.scale is not None and self.numbers.dtype == np.uint8

    def rows(self, ids: Ints | slice) -> Array:
        """[…] → […, E], in float32, or as `half` says."""
        numbers = self.numbers[ids]
        kind = np.float16 if self.half else np.float32
        if self.scale is None:
            return numbers.astype(kind) if numbers.dtype == np.float16 else numbers
        if self._is_in_pairs:
            numbers = np.concatenate([numbers & 15, numbers >> 4], axis=-1).astype(
                np.int8
            ) - np.int8(8)
        expanded: Array = numbers.astype(kind) * self.scale[ids].astype(kind)
        return expanded


class WordTable:
    """One vector a word, or bigram: first those of words that training met, then the others, then a
    user's own.
    """

    def __init__(self, trained: VectorTable, fixed: VectorTable) -> None:
        self.trained = trained
        self.fixed = fixed
        self.known = len(trained) + len(fixed)  # without those that were added
        self._room: Array = np.empty(
            (0, trained.dim), dtype=np.float16
        )  # the added ones, and room for more
        self._count = 0

    @property
    def dim(self) -> int:
        return self.trained.dim

    def __len__(self) -> int:
        return self.known + self._count

    @property
    def added(self) -> Array:
        """The rows of words that joined later."""
        return self._room[: self._count]

    def rows(self, words: Ints, added: Sequence[Array] | None = None) -> Floats:
        """The vectors of these words, […] → […, E]. `added` are those of words that joined, if not
        the table's own.
        """
        found = np.zeros((*words.shape, self.dim), dtype=np.float32)
        first = 0
        joined = [
            VectorTable(each, half=True) for each in ((self.added,) if added is None else added)
        ]
        for table in (self.trained, self.fixed, *joined):
            here = (words >= first) & (words < first + len(table))
            if here.any():
                found[here] = table.rows(words[here] - first)
            first += len(table)
        return found

    vectors = rows  # by the name that the table of `nn` has for it too

    def append(self, vectors: Array) -> None:
        """Add rows for words that join the lexicon later, in the precision that they have.

        They stand apart, so that the large table is not copied; and with room, so that one more
        costs no copy of them.
        """
        there = self.added
        count = self._count + len(vectors)
        dtype = np.promote_types(there.dtype, vectors.dtype) if len(there) else vectors.dtype
        if count > len(self._room) or dtype != there.dtype:
            room = np.empty((count + len(there) // 2, self.dim), dtype=dtype)
            room[: len(there)] = there
            self._room = room
        self._room[self._count : count] = vectors
        self._count = count  # last: another thread may be reading

    def joined(self, before: Array | None, vectors: Array) -> Array:
        """Rows like those of `added`, after those before if there are any."""
        return vectors if before is None else np.concatenate([before, vectors])

    def keep(self, words: Ints) -> None:
        """Forget the other rows that joined later. Who has them as `added` keeps them."""
        self._room = self.added[words - self.known]
        self._count = len(self._room)


class NumpyTwoSources:
    """Vectors of words and of subwords side by side: each has its own columns, and zeros in the
    other's.

    Subwords have the first numbers; words, which may become more, those after them.
    """

    def __init__(self, words: WordTable, subwords: WordTable) -> None:
        self.words = words
        self.subwords = subwords

    @property
    def dim(self) -> int:
        return self.words.dim + self.subwords.dim

    def rows(self, words: Ints, added: Sequence[Array] | None = None) -> Floats:
        first = len(self.subwords)
        found = np.zeros((len(words), self.dim), dtype=np.float32)
        is_word = words >= first
        found[is_word, : self.words.dim] = self.words.rows(words[is_word] - first, added)
        found[~is_word, self.words.dim :] = self.subwords.rows(words[~is_word])
        return found


class NumpyWordPools:
    """For every character the words that begin at it, go on over it and end at it; see
    `nn.embeddings.WordPools`.
    """

    def __init__(self, counts: Ints, maps: Floats) -> None:
        self.counts = counts
        self.maps = maps

    @property
    def dim(self) -> int:
        return int(self.maps.shape[1]) // POOLS

    def __call__(self, rows: Floats, words: Ints, lattice: Lattice, T: int) -> Floats:
        """The vectors [W, E] and ids [W] of a lattice's words → [B, T, D]."""
        B = len(lattice.lengths)
        pooled = np.zeros((B * T, self.dim), dtype=np.float32)
        if len(lattice):
            plan = covered(lattice, T)
            counts = np.append(self.counts, 0)[
                np.minimum(words, len(self.counts))
            ]  # 0 for all that were not met
            weights = (1 + np.log1p(counts.astype(np.float32)))[:, None]
            mapped = matmul_one_thread(rows * weights, self.maps).reshape(
                -1, self.dim
            )  # [3W, D]: a row for each word and pool
            some = np.flatnonzero(np.diff(plan.edges))
            first = plan.edges[some]
            total = np.add.reduceat(weights[plan.word], first)
            pooled[some] = np.add.reduceat(mapped[plan.row], first) / np.maximum(total, 1)
        return pooled.reshape(B, T, self.dim)
