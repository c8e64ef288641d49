"""Vocabulary: the words of a model's lexicon and their vectors, which grow together."""

from __future__ import annotations

from typing import Any

import numpy as np

from hanlattice.checkpoint.compose import Composer, GrowingVectors, compose, learn_from
from hanlattice.text.contents import Contents
from hanlattice.text.lattice import Ints
from hanlattice.text.lexicon import Lexicon


class Vocabulary:
    """A lexicon whose every word has a vector, also those that a user adds: `lexicon.add(word)` is
    all it takes.

    The lexicon calls `grow` when it makes the matcher for new words, before that matcher finds
    anything. So no text can contain a word without a vector, whichever thread added it; and however
    the words came, one at a time or as a dictionary, their vectors are composed all at once, which
    is some seventy times faster than one at a time.

    It keeps no reference to the lexicon, which refers to it: in a cycle, the tables of a model that
    is no longer used would stay in memory until the next garbage collection.
    """

    def __init__(
        self, lexicon: Lexicon, vectors: GrowingVectors, composer: Composer | None = None
    ) -> None:
        self.vectors = vectors
        self.composer = composer
        lexicon.contents.fixed = max(lexicon.contents.fixed, vectors.known)
        lexicon.vocabulary = self

    def grow(self, lexicon: Lexicon) -> None:
        """Compose vectors for the words that have none. How to compose is learnt first if the model
        does not say.
        """
        contents = lexicon.contents
        new = lexicon.folded(self._count(contents))
        if not new:
            return
        if self.composer is None:
            self.composer = learn_from(lexicon, self.vectors)
        vectors = compose(new, lexicon, self.vectors, self.composer)
        if contents.below is None:
            self.vectors.append(vectors)
        else:
            contents.vectors = self.vectors.joined(contents.vectors, vectors)

    def keep(self, before: Contents, after: Contents, kept: Ints) -> None:
        """Forget the vectors of words that have left. Tables that somebody reads stay as they are."""
        has_vector = kept[kept < self._count(before)]
        if before.below is None:
            self.vectors.keep(
                np.concatenate([np.arange(self.vectors.known, before.fixed), has_vector])
            )
        elif before.vectors is not None:
            after.vectors = before.vectors[has_vector - before.first]

    def of(self, contents: Contents) -> tuple[Any, ...]:
        """The vectors of words that joined, as tables in the order of ids: everybody's, then those
        of blocks.
        """
        if contents.below is None:
            return (self.vectors.added,)
        return (
            contents.vectors_below
            if contents.vectors is None
            else (*contents.vectors_below, contents.vectors)
        )

    def _count(self, contents: Contents) -> int:
        """How many words have a vector."""
        if contents.below is None:
            return len(self.vectors)
        return contents.first + (0 if contents.vectors is None else len(contents.vectors))
