"""Tagger: embeddings → encoder → CRF."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hanlattice.batch import Batch
from hanlattice.nn.char_lstm import CharLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.lattice_lstm import LatticeLSTM


class Tagger(nn.Module):
    """A batch in, a loss or tags out. `words` is None for a model that uses no lexicon."""

    def __init__(
        self,
        chars: CharEmbedding,
        words: WordEmbedding | None,
        encoder: LatticeLSTM | CharLSTM,
        crf: CRF,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.chars, self.words, self.encoder, self.crf = chars, words, encoder, crf
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(encoder.width, len(crf.tags))

    def emissions(self, batch: Batch) -> Tensor:
        """[B, T, K]: how well each tag fits each character."""
        word_x = None if self.words is None else self.words(batch.words)
        hidden = self.encoder(self.chars(batch.chars), word_x, batch.lattice)
        scores: Tensor = self.output(self.dropout(hidden))
        return scores

    def loss(self, batch: Batch) -> Tensor:
        """[B]: the negative log likelihood of each sentence's gold tags."""
        if batch.tags is None:
            raise ValueError("a loss needs gold tags, and this batch has none")
        return self.crf.loss(self.emissions(batch), batch.tags, batch.lengths)

    @torch.no_grad()
    def decode(self, batch: Batch) -> Tensor:
        """[B, T]: the most probable tags, 0 after a sentence's end."""
        return self.crf.decode(self.emissions(batch), batch.lengths)
