"""Tables of character and word vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CharEmbedding(nn.Module):
    """One vector a character, trained or fixed; row 0 is for characters outside the vocabulary."""

    def __init__(self, vectors: Tensor, fine_tune: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors.clone(), requires_grad=fine_tune)
        self.dropout = nn.Dropout(dropout)

    def forward(self, chars: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(F.embedding(chars, self.vectors))
        return embedded


class WordEmbedding(nn.Module):
    """One vector a word of the lexicon. The first rows, of words that training met, may be trained; the rest are fixed.

    A training step then costs what the corpus's own words cost, not what the whole lexicon costs, and a word that
    training never met keeps its pre-trained vector. The fixed rows stay in half precision where that loses nothing.
    """

    trained: Tensor
    fixed: Tensor

    def __init__(self, trained: Tensor, fixed: Tensor, dropout: float = 0.0) -> None:
        super().__init__()
        self.trained = nn.Parameter(trained.clone())
        self.register_buffer("fixed", fixed.clone())
        self.dropout = nn.Dropout(dropout)

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
        return len(self.trained) + len(self.fixed)

    def rows(self, words: Tensor) -> Tensor:
        """The vectors of these words, [W] → [W, E]."""
        M = len(self.trained)
        if not len(self.fixed):
            return F.embedding(words, self.trained)
        fixed = F.embedding((words - M).clamp(min=0), self.fixed).to(self.trained.dtype)
        if not M:
            return fixed
        return torch.where((words < M)[:, None], F.embedding(words.clamp(max=M - 1), self.trained), fixed)

    def forward(self, words: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.rows(words))
        return embedded

    def mean(self) -> Tensor:
        """The mean of all rows, [E]."""
        total = self.trained.detach().sum(0) + self.fixed.sum(0, dtype=self.trained.dtype)
        return total / max(1, len(self))

    def append(self, vectors: Tensor) -> None:
        """Add fixed rows, for words that join the lexicon later."""
        dtype = torch.promote_types(self.fixed.dtype, vectors.dtype)
        self.fixed = torch.cat([self.fixed.to(dtype), vectors.to(dtype)])
