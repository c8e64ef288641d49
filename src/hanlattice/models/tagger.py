"""Tagger: embeddings → encoder → CRF."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hanlattice.batch import Batch
from hanlattice.batch.indexer import JOINTS, Places
from hanlattice.nn.baselines import CharLSTM, WordLSTM
from hanlattice.nn.constraints import boost, constrain
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import LatticeLSTM, Stack
from hanlattice.text.spans import WORD

Encoder = LatticeLSTM | CharLSTM | WordLSTM | Stack


class Tagger(nn.Module):
    """From a batch to a loss or to tags: of characters, or of words if the encoder reads words.

    `chars` is None for a model that reads only whole words, `words` for one that reads none, `lm` for one without a
    language model. `beside` has the tables for further ids of each character, by their names in the batch.
    """

    def __init__(
        self,
        chars: CharEmbedding | None,
        words: WordEmbedding | TwoSources | None,
        encoder: Encoder,
        crf: CRF,
        dropout: float = 0.0,
        lm: LanguageModelStates | None = None,
        beside: Mapping[str, CharEmbedding | WordEmbedding] | None = None,
    ) -> None:
        super().__init__()
        self.lm = lm
        self.chars, self.words, self.encoder, self.crf = chars, words, encoder, crf
        self.beside = nn.ModuleDict(beside or {})
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(encoder.width, len(crf.tags))

    @property
    def lexicon(self) -> WordEmbedding | None:
        """The vectors of the lexicon to which a user may add words."""
        return self.words.words if isinstance(self.words, TwoSources) else self.words

    def emissions(self, batch: Batch) -> Tensor:
        """[B, T, K], or [B, U, K] of words: how well each tag fits."""
        word_x = None if self.words is None else self.words(batch.words)
        hidden = self.encoder(self.inputs(batch), word_x, batch.places)
        scores: Tensor = self.output(self.dropout(hidden))
        return scores

    def constrained_emissions(self, batch: Batch, own: Places | None = None, trust: float = 0.0) -> Tensor:
        """The emissions, `trust` higher for the tags of a user's words, and restricted by the gaps of the text."""
        emissions, gaps = self.emissions(batch), batch.extra_ids.get(JOINTS)
        if own is not None:
            emissions = boost(self.crf, emissions, WORD, *own, trust)
        return emissions if gaps is None else constrain(self.crf, emissions, gaps)

    def inputs(self, batch: Batch) -> Tensor | None:
        """[B, T, D]: for each character its own vector, those of its further ids, and the language model's states."""
        if self.chars is None:
            return None
        parts: list[Tensor] = [self.chars(batch.chars)]
        for name, table in self.beside.items():
            if name not in batch.extra_ids:
                raise ValueError(f"this tagger has vectors for {name}, and the batch has no {name}")
            parts.append(table(batch.extra_ids[name]))
        if self.lm is not None:
            states = batch.states
            if states is None:
                if batch.symbols is None:
                    raise ValueError("this tagger has a language model, and the batch has no symbols or states for it")
                states = self.lm.states(batch.symbols, batch.lengths)
            parts.append(self.lm(states))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)

    def loss(self, batch: Batch) -> Tensor:
        """[B]: the negative log likelihood of each sentence's gold tags."""
        if batch.tags is None:
            raise ValueError("a loss needs gold tags, and this batch has none")
        return self.crf.loss(self.emissions(batch), batch.tags, batch.units)

    @torch.no_grad()
    def decode(self, batch: Batch) -> Tensor:
        """[B, T] or [B, U]: the most probable tags, 0 after a sentence's end."""
        return self.crf.decode(self.constrained_emissions(batch), batch.units)
