"""Model folders without training, for tests of what a model reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hanlattice.checkpoint.folder import save_frame, save_weights
from hanlattice.config import Config
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from hanlattice.training.build import build


def write_untrained(folder: Path, config: Config, train: Sequence[Sentence]) -> Path:
    """Write the model with which a training on these sentences begins."""
    built = build(config, train)
    save_frame(folder, config, built.indexer, {})
    save_weights(folder, built.tagger.state_dict(), {})
    return folder


def in_twos(sentence: Sentence) -> Sentence:
    """Return the sentence with gold words of two characters; many spans cross their borders."""
    starts = range(0, len(sentence), 2)
    words = tuple(Span(i, min(i + 2, len(sentence)), "n" if i % 4 else "v") for i in starts)
    return replace(sentence, words=words)
