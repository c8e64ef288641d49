"""Vocabulary: the words of a model's lexicon and their vectors, which grow together."""

from __future__ import annotations

from hanlattice.models.compose import Composer, Vectors, compose, learn_from
from hanlattice.text.lexicon import Lexicon


class Vocabulary:
    """A lexicon whose every word has a vector, also those that a user adds: `lexicon.add(word)` is all it takes.

    The lexicon calls `grow` when it makes the matcher for new words, before that matcher finds anything. So no text
    can contain a word without a vector, whichever thread added it; and however the words came, one at a time or as a
    dictionary, their vectors are composed all at once, which is some seventy times faster than one at a time.

    It keeps no reference to the lexicon, which refers to it: in a cycle, the tables of a model that is no longer used
    would stay in memory until the next garbage collection.
    """

    def __init__(self, lexicon: Lexicon, vectors: Vectors, composer: Composer | None = None) -> None:
        self.vectors, self.composer = vectors, composer
        lexicon.on_growth = self.grow

    def grow(self, lexicon: Lexicon) -> None:
        """Compose vectors for the words that have none, and forget those of words that were only borrowed.

        How to compose is learnt first if the model does not say.
        """
        self.vectors.truncate(lexicon.size)
        new = lexicon.folded(len(self.vectors))
        if not new:
            return
        if self.composer is None:
            self.composer = learn_from(lexicon, self.vectors)
        self.vectors.append(compose(new, lexicon, self.vectors, self.composer))
