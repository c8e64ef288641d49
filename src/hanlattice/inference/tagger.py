"""The tagger for CPUs: embeddings, encoder and CRF in NumPy and C. `nn/tagger.py` is its twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hanlattice.evaluation.platt import Curves
from hanlattice.features import Batch, Examples
from hanlattice.features.indexer import JOINTS, Places
from hanlattice.inference.constraints import boost, constrain
from hanlattice.inference.crf import NumpyCRF
from hanlattice.inference.encoders import NumpyLatticeLSTM, NumpyStack
from hanlattice.inference.tables import (
    NumpyTwoSources,
    NumpyWordPools,
    VectorTable,
    WordTable,
    matmul_one_thread,
)
from hanlattice.ops.lattice_lstm.trace import Both
from hanlattice.text.lattice import Ints

Floats = npt.NDArray[np.float32]


@dataclass(eq=False)
class NumpyTagger:
    """Computes emissions [B, T, K] from a batch of arrays, with the parts of `nn.tagger.Tagger`."""

    chars: VectorTable
    words: WordTable | NumpyTwoSources | None
    encoder: NumpyLatticeLSTM | NumpyStack
    crf: NumpyCRF
    weight: Floats  # [K, 2H]
    bias: Floats  # [K]
    extra_embeddings: Mapping[str, VectorTable | WordTable] = field(default_factory=dict)
    pools: NumpyWordPools | None = None
    parameter_count: int = 0
    curves: Curves | None = None  # calibrate scores

    device_kind = "cpu"
    reads_words = False

    @property
    def lexicon(self) -> WordTable | None:
        """The vectors of the lexicon that users can add words to."""
        return self.words.words if isinstance(self.words, NumpyTwoSources) else self.words

    def batch(self, examples: Examples, places: Ints) -> Batch:
        """Return the sentences at these places as the batch that this tagger reads."""
        return examples.batch(places)

    def emissions(self, batch: Batch) -> Floats:
        """[B, T, K]: return the score of each tag."""
        hidden = self.encoder(*self.inputs(batch), batch.lattice)
        return matmul_one_thread(hidden, self.weight.T) + self.bias

    def constrained_emissions(
        self, batch: Batch, own: Places | None = None, trust: float = 0.0
    ) -> Floats:
        """Return emissions under what is known before decoding.

        Args:
            batch: Its gaps forbid tags.
            own: The user's own words, whose tags get a bonus.
            trust: The bonus.
        """
        emissions = self.emissions(batch)
        gaps = batch.extra_ids.get(JOINTS)
        if own is not None:
            emissions = boost(self.crf, emissions, *own, trust)
        return emissions if gaps is None else constrain(self.crf, emissions, gaps)

    def inputs(self, batch: Batch) -> tuple[Floats, Floats | None]:
        """Return what the encoder reads: characters [B, T, D], and words [W, E] if it reads any."""
        word_x = None if self.words is None else self.words.rows(batch.words, batch.added)
        parts: list[Any] = [self.chars.rows(batch.chars)]
        for name, table in self.extra_embeddings.items():
            parts.append(table.rows(batch.extra_ids[name]))
        if self.pools is not None:
            assert word_x is not None
            parts.append(self.pools(word_x, batch.words, batch.lattice, batch.chars.shape[1]))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2), word_x

    def traced(self, batch: Batch) -> list[Both]:
        """Return what went into the cells of each lattice layer, from the lowest up."""
        x, word_x = self.inputs(batch)
        assert word_x is not None
        return self.encoder.traced(x, word_x, batch.lattice)
