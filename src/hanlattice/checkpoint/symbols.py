"""The symbols of a model, and the indexer that reads text for it. This file does without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hanlattice.features import Indexer
from hanlattice.features.indexer import PART
from hanlattice.text.lattice import Ints, runs
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.pieces import Pieces
from hanlattice.text.segment import Segmenter
from hanlattice.text.sentence import Sentence
from hanlattice.text.vocab import Vocab

if TYPE_CHECKING:
    from hanlattice.checkpoint.language_model import LanguageModel


@dataclass
class Vocabs:
    """The symbols of each kind that a model reads; None for a kind that it does not read."""

    chars: Vocab = field(default_factory=lambda: Vocab(()))
    lexicon: Lexicon | None = None
    # Only a lattice that has words too has subwords.
    subwords: Lexicon | None = None
    bichars: Vocab | None = None
    words: Vocab | None = None
    pos: Vocab | None = None
    pieces: Pieces | None = None


def make_indexer(
    vocabs: Vocabs,
    tags: tuple[str, ...],
    scheme: str,
    lm: LanguageModel | None,
    segmenter: Segmenter | None,
) -> Indexer:
    """Make the indexer that reads text for this model."""
    return Indexer(
        vocab=vocabs.chars,
        lexicon=vocabs.lexicon,
        tags=tags,
        scheme=scheme,
        symbols=lm.vocab if lm else None,
        bichars=vocabs.bichars,
        segmenter=segmenter,
        words=vocabs.words,
        pos=vocabs.pos,
        subwords=vocabs.subwords,
        pieces=vocabs.pieces,
    )


def met_first(lexicon: Lexicon, train: Sequence[Sentence]) -> tuple[Ints, Ints]:
    """Order a lexicon by how often its words occur in the training text.

    Returns:
        all ids, the most frequent first and those that do not occur last; and the counts of the
        words that occur, in this order.
    """
    counts = np.zeros(len(lexicon), dtype=np.int64)
    for low, high in runs([sentence.text for sentence in train], PART):
        # No word has a line break, so none is found across two sentences.
        text = "\n".join(sentence.folded for sentence in train[low:high])
        for matches in lexicon.by_length(text):
            counts += np.bincount(matches.word, minlength=len(lexicon))
    met = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    order = np.concatenate([met, np.setdiff1d(np.arange(len(lexicon)), met)]).astype(np.int64)
    return order, counts[met].astype(np.int32)
