"""Tagger: embeddings → encoder → CRF, in numpy and C. `nn/tagger.py` is its twin for training and
GPUs.
"""

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
    """From a batch of arrays to emissions, [B, T, K]. The parts are those of `Tagger`."""

    chars: VectorTable
    words: WordTable | NumpyTwoSources | None
    encoder: NumpyLatticeLSTM | NumpyStack
    crf: NumpyCRF
    weight: Floats  # [K, 2H]
    bias: Floats  # [K]
    extra_embeddings: Mapping[str, VectorTable | WordTable] = field(default_factory=dict)
    pools: NumpyWordPools | None = None
    parameter_count: int = 0
    curves: Curves | None = None  # of scores

    device_kind = "cpu"
    reads_words = False

    @property
    def lexicon(self) -> WordTable | None:
        """The vectors of the lexicon to which a user may add words."""
        return self.words.words if isinstance(self.words, NumpyTwoSources) else self.words

    def batch(self, examples: Examples, places: Ints) -> Batch:
        """The sentences at these places, as this tagger reads them."""
        return examples.batch(places)

    def emissions(self, batch: Batch) -> Floats:
        hidden = self.encoder(*self.inputs(batch), batch.lattice)
        return matmul_one_thread(hidden, self.weight.T) + self.bias

    def constrained_emissions(
        self, batch: Batch, own: Places | None = None, trust: float = 0.0
    ) -> Floats:
        """The emissions, `trust` higher for the tags of a user's words, and restricted by the gaps
        of the text.
        """
        emissions = self.emissions(batch)
        gaps = batch.extra_ids.get(JOINTS)
        if own is not None:
            emissions = boost(self.crf, emissions, *own, trust)
        return emissions if gaps is None else constrain(self.crf, emissions, gaps)

    def inputs(self, batch: Batch) -> tuple[Floats, Floats | None]:
        """What the encoder reads of characters, [B, T, D], and of words, [W, E]."""
        word_x = None if self.words is None else self.words.rows(batch.words, batch.added)
        parts: list[Any] = [self.chars.rows(batch.chars)]
        parts += (
            table.rows(batch.extra_ids[name]) for name, table in self.extra_embeddings.items()
        )
        if self.pools is not None:
            assert word_x is not None
            parts.append(self.pools(word_x, batch.words, batch.lattice, batch.chars.shape[1]))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2), word_x

    def traced(self, batch: Batch) -> list[Both]:
        """The shares of every lattice layer, from the lowest up."""
        x, word_x = self.inputs(batch)
        assert word_x is not None
        return self.encoder.traced(x, word_x, batch.lattice)
