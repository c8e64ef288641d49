"""Tagger: embeddings → encoder → CRF, as a module of torch.

Every model trains with it. On a CPU `inference/tagger.py` computes lattice and character models
without torch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from hanlattice.evaluation.platt import Curves
from hanlattice.features import Batch, Examples
from hanlattice.features.indexer import JOINTS, PIECES, Places
from hanlattice.inference.constraints import boost, constrain
from hanlattice.nn.baselines import NoEncoder, WordLSTM
from hanlattice.nn.crf import CRF
from hanlattice.nn.dropout import Dropout
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding, WordPools
from hanlattice.nn.language_model import LanguageModelStates
from hanlattice.nn.lattice_lstm import LatticeLSTM, Layer, Stack
from hanlattice.nn.to_device import to_device
from hanlattice.nn.transformer import TransformerStates
from hanlattice.ops.lattice_lstm.trace import Both
from hanlattice.ops.packing import covered
from hanlattice.text.lattice import Ints

Encoder = Layer | WordLSTM | Stack | NoEncoder


class TorchTagger(nn.Module):
    """From a batch to a loss or to tags: of characters, or of words if the encoder reads words.

    `chars` is None for a model that reads only whole words or the transformer alone, `words` for
    one that reads none, `lm` and `transformer` for one without a language model or transformer.
    `extra_embeddings` has the tables for further ids of each character, by their names in the
    batch; `pools` the words over each character.
    """

    def __init__(
        self,
        chars: CharEmbedding | None,
        words: WordEmbedding | TwoSources | None,
        encoder: Encoder,
        crf: CRF,
        dropout: float = 0.0,
        lm: LanguageModelStates | None = None,
        extra_embeddings: Mapping[str, CharEmbedding | WordEmbedding] | None = None,
        pools: WordPools | None = None,
        transformer: TransformerStates | None = None,
    ) -> None:
        super().__init__()
        self.lm = lm
        self.pools = pools
        self.transformer = transformer
        self.chars = chars
        self.words = words
        self.encoder = encoder
        self.crf = crf
        self.extra_embeddings = nn.ModuleDict(extra_embeddings or {})
        self.dropout = Dropout(dropout)
        # The calibration of scores, where there is one.
        self.curves: Curves | None = None
        self.output = nn.Linear(encoder.width, len(crf.tags))

    @property
    def lexicon(self) -> WordEmbedding | None:
        """The vectors of the lexicon to which a user may add words."""
        return self.words.words if isinstance(self.words, TwoSources) else self.words

    @property
    def device_kind(self) -> str:
        return self.output.weight.device.type

    @property
    def reads_words(self) -> bool:
        return isinstance(self.encoder, WordLSTM)

    @property
    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def batch(self, examples: Examples, places: Ints) -> Batch:
        """Return the sentences at these places, as this tagger reads them."""
        return self._here(examples.batch(places))

    def _here(self, batch: Batch) -> Batch:
        """Return the batch as tensors on the device of this module."""
        if not isinstance(batch.chars, np.ndarray):
            return batch
        return to_device(batch, self.output.weight.device)

    def prepare(self, batch: Batch) -> Batch:
        """Start to copy to a GPU what this model needs to know of the words; return the batch."""
        T = batch.chars.shape[1]
        device = batch.chars.device
        if device.type == "cuda" and self.pools is not None:
            covered(batch.lattice, T, device)
        if device.type == "cuda" and isinstance(self.encoder, Stack):
            self.encoder.prepare(batch.lattice, T, device)
        return batch

    def emissions(self, batch: Batch) -> Tensor:
        """Return [B, T, K], or [B, U, K] of words: how well each tag fits."""
        hidden = self.encoder(*self.inputs(batch), batch.places)
        scores: Tensor = self.output(self.dropout(hidden))
        return scores

    @torch.no_grad()
    def constrained_emissions(
        self, batch: Batch, own: Places | None = None, trust: float = 0.0
    ) -> Tensor:
        """Return emissions, raised by `trust` for a user's words and restricted by known gaps."""
        batch = self._here(batch)
        emissions = self.emissions(batch)
        gaps = batch.extra_ids.get(JOINTS)
        if own is not None:
            emissions = boost(self.crf, emissions, *own, trust)
        constrained: Tensor = emissions if gaps is None else constrain(self.crf, emissions, gaps)
        return constrained

    @torch.no_grad()
    def traced(self, batch: Batch) -> list[Both]:
        """The shares of every lattice layer, from the lowest up."""
        assert isinstance(self.encoder, LatticeLSTM | Stack)
        x, word_x = self.inputs(batch)
        assert x is not None
        assert word_x is not None
        return self.encoder.traced(x, word_x, batch.lattice)

    def inputs(self, batch: Batch) -> tuple[Tensor | None, Tensor | None]:
        """Return what the encoder reads: of characters, [B, T, D], and of words, [W, E].

        A character has its own vector, those of its further ids, the pools of words, and the states
        of the language model and the transformer.
        """
        batch = self._here(batch)
        rows = None if self.words is None else self.words.rows(batch.words, batch.added)
        word_x = None if rows is None or self.words is None else self.words.drop(rows)
        parts: list[Tensor] = [] if self.chars is None else [self.chars(batch.chars)]
        for name, table in self.extra_embeddings.items():
            if name not in batch.extra_ids:
                raise ValueError(f"this tagger has vectors for {name}, and the batch has no {name}")
            parts.append(table(batch.extra_ids[name]))
        if self.pools is not None:
            assert rows is not None
            parts.append(self.pools(rows, batch.words, batch.lattice, batch.chars.shape[1]))
        if self.lm is not None:
            states = batch.states
            if states is None:
                if batch.symbols is None:
                    missing = "the batch has no symbols or states for it"
                    raise ValueError(f"this tagger has a language model, and {missing}")
                states = self.lm.states(batch.symbols, batch.lengths)
            parts.append(self.lm(states))
        if self.transformer is not None:
            if PIECES not in batch.extra_ids:
                raise ValueError(
                    "this tagger has a transformer, and the batch has no pieces for it"
                )
            pieces = batch.extra_ids[PIECES]
            parts.append(self.transformer(pieces, batch.lengths, batch.lattice.lengths))
        if len(parts) < 2:
            return (parts[0] if parts else None), word_x
        return torch.cat(parts, dim=2), word_x

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss: what training differentiates."""
        return self.loss(batch)

    def loss(self, batch: Batch) -> Tensor:
        """Return [B]: the negative log likelihood of each sentence's gold tags."""
        batch = self._here(batch)
        if batch.tags is None:
            raise ValueError("a loss needs gold tags, and this batch has none")
        if batch.shares is not None:
            return self.crf.soft_label_loss(self.emissions(batch), batch.shares, batch.units)
        return self.crf.loss(self.emissions(batch), batch.tags, batch.units)

    @torch.no_grad()
    def decode(self, batch: Batch) -> Tensor:
        """Return [B, T] or [B, U]: the most probable tags, 0 after a sentence's end."""
        return self.crf.decode(self.constrained_emissions(batch), self._here(batch).units)
