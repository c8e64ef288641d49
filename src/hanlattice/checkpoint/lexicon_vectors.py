"""The words of a model's lexicon and their vectors, which grow together."""

from __future__ import annotations

from typing import Any

import numpy as np

from hanlattice.checkpoint.compose import Composer, GrowingVectors, compose, learn_from
from hanlattice.text.contents import Contents
from hanlattice.text.lattice import Ints
from hanlattice.text.lexicon import Lexicon


class Vocabulary:
    """Keeps a vector for every word of a lexicon, also for words that a user adds.

    The lexicon calls `grow` when it makes the matcher for new words, before that matcher finds
    anything. So no text can contain a word without a vector, whichever thread added it. The vectors
    of all new words are composed at once, some seventy times faster than one at a time.
    """

    # There is no reference to the lexicon, which refers to this: in a cycle, the tables of a model
    # that is no longer used would stay in memory until the next garbage collection.
    def __init__(
        self, lexicon: Lexicon, vectors: GrowingVectors, composer: Composer | None = None
    ) -> None:
        self.vectors = vectors
        self.composer = composer
        lexicon.contents.fixed = max(lexicon.contents.fixed, vectors.known)
        lexicon.vocabulary = self

    def grow(self, lexicon: Lexicon) -> None:
        """Compose vectors for the words that have none; learn how, if the model has no composer."""
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
        """Forget the vectors of words that have left; tables that somebody reads do not change.

        Args:
            before: the contents of the lexicon with all words.
            after: the contents without the words that left.
            kept: the ids, in `before`, of the words that stay.
        """
        has_vector = kept[kept < self._count(before)]
        if before.below is None:
            fixed = np.arange(self.vectors.known, before.fixed)
            self.vectors.keep(np.concatenate([fixed, has_vector]))
        elif before.vectors is not None:
            after.vectors = before.vectors[has_vector - before.first]

    def of(self, contents: Contents) -> tuple[Any, ...]:
        """Return the vectors of added words, as tables in the order of ids.

        The words that everybody sees come first, then those of each open block of temporary words.
        """
        if contents.below is None:
            return (self.vectors.added,)
        own = () if contents.vectors is None else (contents.vectors,)
        return (*contents.vectors_below, *own)

    def _count(self, contents: Contents) -> int:
        """How many words have a vector."""
        if contents.below is None:
            return len(self.vectors)
        return contents.first + (0 if contents.vectors is None else len(contents.vectors))
