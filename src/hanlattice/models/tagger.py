"""Tagger: embeddings → encoder → CRF."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hanlattice.batch import Batch
from hanlattice.nn.char_lstm import CharLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import LatticeLSTM


class Tagger(nn.Module):
    """A batch in, a loss or tags out. `words` is None for a model that uses no lexicon, `lm` without language model."""

    def __init__(
        self,
        chars: CharEmbedding,
        words: WordEmbedding | None,
        encoder: LatticeLSTM | CharLSTM,
        crf: CRF,
        dropout: float = 0.0,
        lm: LanguageModelStates | None = None,
    ) -> None:
        super().__init__()
        self.lm = lm
        self.chars, self.words, self.encoder, self.crf = chars, words, encoder, crf
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(encoder.width, len(crf.tags))

    def emissions(self, batch: Batch) -> Tensor:
        """[B, T, K]: how well each tag fits each character."""
        word_x = None if self.words is None else self.words(batch.words)
        hidden = self.encoder(self._inputs(batch), word_x, batch.lattice)
        scores: Tensor = self.output(self.dropout(hidden))
        return scores

    def _inputs(self, batch: Batch) -> Tensor:
        """[B, T, D]: the character embedding, and beside it what the language model knows, if there is one."""
        chars: Tensor = self.chars(batch.chars)
        if self.lm is None:
            return chars
        states = batch.states
        if states is None:
            if batch.symbols is None:
                raise ValueError("this tagger has a language model, and the batch has no symbols or states for it")
            states = self.lm.states(batch.symbols, batch.lengths)
        return torch.cat([chars, self.lm(states)], dim=2)

    def loss(self, batch: Batch) -> Tensor:
        """[B]: the negative log likelihood of each sentence's gold tags."""
        if batch.tags is None:
            raise ValueError("a loss needs gold tags, and this batch has none")
        return self.crf.loss(self.emissions(batch), batch.tags, batch.lengths)

    @torch.no_grad()
    def decode(self, batch: Batch) -> Tensor:
        """[B, T]: the most probable tags, 0 after a sentence's end."""
        return self.crf.decode(self.emissions(batch), batch.lengths)
