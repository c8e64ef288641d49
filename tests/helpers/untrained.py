"""Model folders that take no training: for tests of what a model reads and writes, not of what it
learnt.
"""

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
    """The model that a training on these sentences would begin with."""
    built = build(config, train)
    save_frame(folder, config, built.indexer, {})
    save_weights(folder, built.tagger.state_dict(), {})
    return folder


def in_twos(sentence: Sentence) -> Sentence:
    """The sentence with gold words of two characters, the last of one if it must be; many spans
    cross their borders.
    """
    edges = range(0, len(sentence), 2)
    words = tuple(Span(at, min(at + 2, len(sentence)), "n" if at % 4 else "v") for at in edges)
    return replace(sentence, words=words)
