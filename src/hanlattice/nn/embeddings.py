"""Tables of vectors: of characters, of their places in words, of bigrams and of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hanlattice.nn.dropout import Dropout
from hanlattice.ops.packing import POOLS, covered
from hanlattice.text.lattice import Ints, Lattice


class CharEmbedding(nn.Module):
    """One vector a character, or other symbol, trained or fixed; of a vocabulary, row 0 is for what
    is not in it.
    """

    def __init__(self, vectors: Tensor, fine_tune: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors.clone(), requires_grad=fine_tune)
        self.dropout = Dropout(dropout)

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]

    def forward(self, chars: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(F.embedding(chars, self.vectors))
        return embedded


class WordEmbedding(nn.Module):
    """One vector a word, or bigram. The first rows, of words that training met, may be trained; the
    rest are fixed.

    A training step then costs what the corpus's own words cost, not what the whole lexicon costs,
    and a word that training never met keeps its pre-trained vector. The fixed rows stay in half
    precision where that loses nothing.
    """

    trained: Tensor
    fixed: Tensor
    _room: Tensor  # `added`, and room for more

    def __init__(self, trained: Tensor, fixed: Tensor, dropout: float = 0.0) -> None:
        super().__init__()
        self.trained = nn.Parameter(trained.clone())
        self.register_buffer("fixed", fixed.clone())
        self.register_buffer("_room", trained.new_zeros(0, trained.shape[1]), persistent=False)
        self._count = 0  # of rows in it
        self.dropout = Dropout(dropout)

    @classmethod
    def from_vectors(cls, vectors: Tensor, trained: int = 0, dropout: float = 0.0) -> WordEmbedding:
        """The first `trained` rows are to be trained."""
        rest = vectors[trained:]
        small = rest.half()
        return cls(vectors[:trained], small if torch.equal(small.float(), rest) else rest, dropout)

    @property
    def dim(self) -> int:
        return self.trained.shape[1]

    def __len__(self) -> int:
        return len(self.trained) + len(self.fixed) + self._count

    @property
    def added(self) -> Tensor:
        """The rows of words that joined later."""
        return self._room[: self._count]

    def rows(self, words: Tensor, added: Sequence[Tensor] | None = None) -> Tensor:
        """The vectors of these words, [W] → [W, E], or of any other shape.

        `added` are those of words that joined, if not the table's own.
        """
        found = self.trained.new_zeros(*words.shape, self.dim)
        first = 0
        for table in (self.trained, self.fixed, *((self.added,) if added is None else added)):
            if len(table):
                here = F.embedding((words - first).clamp(0, len(table) - 1), table).to(found.dtype)
                found = torch.where((words >= first)[..., None], here, found) if first else here
            first += len(table)
        return found

    def drop(self, rows: Tensor) -> Tensor:
        """Rows after dropout."""
        dropped: Tensor = self.dropout(rows)
        return dropped

    def forward(self, words: Tensor) -> Tensor:
        return self.drop(self.rows(words))

    def first(self, count: int, trained: int) -> WordEmbedding:
        """A table of the first rows, so many of them in `trained`; the others are fixed."""
        with torch.no_grad():
            rows = self.rows(torch.arange(min(count, len(self)), device=self.trained.device))
        return WordEmbedding.from_vectors(rows, trained, self.dropout.p)

    @property
    def known(self) -> int:
        """How many words have rows, without those that joined later."""
        return len(self.trained) + len(self.fixed)

    @torch.no_grad()
    def vectors(self, words: Ints) -> npt.NDArray[np.float32]:
        """The vectors of words as arrays."""
        return self.rows(torch.from_numpy(words).to(self.trained.device)).float().cpu().numpy()

    @torch.inference_mode(
        False
    )  # else what is made in that mode could not be written to outside of it
    @torch.no_grad()
    def append(self, vectors: Tensor | npt.NDArray[np.floating]) -> None:
        """Add rows for words that join the lexicon later, in the precision that they have.

        They stand apart, so that the large table is not copied; and with room, so that one more
        costs no copy of them.
        """
        vectors = torch.as_tensor(vectors)
        there = self.added
        count = self._count + len(vectors)
        dtype = torch.promote_types(there.dtype, vectors.dtype) if len(there) else vectors.dtype
        if count > len(self._room) or dtype != there.dtype or self._room.is_inference():
            room = there.new_empty(count + len(there) // 2, self.dim, dtype=dtype)
            room[: len(there)] = there
            self._room = room
        self._room[len(there) : count] = vectors
        self._count = count  # last: another thread may be reading

    @torch.inference_mode(False)
    @torch.no_grad()
    def joined(self, before: Tensor | None, vectors: npt.NDArray[np.floating]) -> Tensor:
        """Rows like those of `added`, after those before if there are any."""
        rows = torch.as_tensor(vectors).to(self.trained.device)
        return rows if before is None else torch.cat([before, rows])

    @torch.inference_mode(False)
    @torch.no_grad()
    def keep(self, words: Ints) -> None:
        """Forget the other rows that joined later. Who has them as `added` keeps them."""
        self._room = self.added[torch.from_numpy(words - self.known).to(self.trained.device)]
        self._count = len(self._room)


class TwoSources(nn.Module):
    """Vectors of words and of subwords side by side: each has its own columns, and zeros in the
    other's.

    So the encoder weighs each source by itself, also where both have the same span. Subwords have
    the first numbers; words, which may become more, those after them.
    """

    def __init__(self, words: WordEmbedding, subwords: WordEmbedding) -> None:
        super().__init__()
        self.words = words
        self.subwords = subwords

    @property
    def dim(self) -> int:
        return self.words.dim + self.subwords.dim

    def rows(self, words: Tensor, added: Sequence[Tensor] | None = None) -> Tensor:
        """[W] → [W, E]."""
        first = len(self.subwords)
        is_word = (words >= first)[..., None]
        left = self.words.rows((words - first).clamp(min=0), added).masked_fill(~is_word, 0.0)
        right = self.subwords.rows(words.clamp(max=first - 1)).masked_fill(is_word, 0.0)
        return torch.cat([left, right], dim=-1)

    def drop(self, rows: Tensor) -> Tensor:
        """Rows after dropout, which each source has its own of."""
        left, right = torch.split(rows, [self.words.dim, self.subwords.dim], dim=-1)
        return torch.cat([self.words.drop(left), self.subwords.drop(right)], dim=-1)

    def forward(self, words: Tensor) -> Tensor:
        return self.drop(self.rows(words))


class WordPools(nn.Module):
    """For every character the words that begin at it, go on over it and end at it: weighted sums of
    their vectors.

    Each of the three pools has a matrix of its own, and their products are added up. A word that
    training met n times weighs 1 + ln(1 + n), and the weights of all words over a character are
    scaled to add up to one. `counts` has n for the first words, which are those that training met.
    Any other, such as one that a user adds, counts as never met and weighs 1.
    """

    counts: Tensor

    def __init__(self, counts: Tensor, word_dim: int, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("counts", counts)
        maps = [nn.init.orthogonal_(torch.empty(word_dim, dim)) for _ in range(POOLS)]
        self.maps = nn.Parameter(torch.cat(maps, dim=1))  # [E, 3D]
        self.dropout = Dropout(dropout)

    @property
    def dim(self) -> int:
        return self.maps.shape[1] // POOLS

    def weights(self, words: Tensor) -> Tensor:
        """[W] ids → [W]."""
        counts = F.pad(self.counts, (0, 1))  # the last for all that were not met
        return 1 + torch.log1p(counts[words.clamp(max=len(self.counts))].float())

    def forward(self, rows: Tensor, words: Tensor, lattice: Lattice, T: int) -> Tensor:
        """The vectors [W, E] and ids [W] of a lattice's words → [B, T, D]."""
        shape = (len(lattice.lengths), T, -1)
        if not len(lattice):
            nothing = (
                rows @ self.maps
            ).sum()  # 0, with a gradient, for processes that share a batch
            return self.drop(nothing.expand(*shape[:2], self.dim))
        plan = covered(lattice, T, rows.device)
        weights = self.weights(words).to(rows.dtype)[:, None]
        total = F.embedding_bag(
            plan.word, weights, plan.edges, mode="sum", include_last_offset=True
        ).clamp(min=1)
        mapped = (rows * weights @ self.maps).view(
            -1, self.dim
        )  # [3W, D]: a row for each word and pool
        sums = F.embedding_bag(plan.row, mapped, plan.edges, mode="sum", include_last_offset=True)
        return self.drop((sums / total).view(shape))

    def drop(self, rows: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(rows)
        return dropped
