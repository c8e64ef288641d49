"""What hypothesis draws: lattices, sentences with spans, tags, text of every kind."""

from __future__ import annotations

from hypothesis import strategies as st

from hanlattice import Lattice


@st.composite
def lattices(draw: st.DrawFn, max_sentences: int = 4, max_length: int = 7, max_words: int = 8) -> Lattice:
    """Any lattice: no words, words as long as their sentence, several on one span, sentences of one character."""
    lengths = draw(st.lists(st.integers(1, max_length), min_size=1, max_size=max_sentences))
    words = []
    for sentence, length in enumerate(lengths):
        if length < 2:
            continue
        for _ in range(draw(st.integers(0, max_words))):
            start = draw(st.integers(0, length - 2))
            words.append((sentence, start, draw(st.integers(start + 2, length)), draw(st.integers(0, 20))))
    return Lattice.from_words(lengths, draw(st.permutations(words)))
