"""Strategies for segmented text: words that cover a text, some with parts of speech."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st

from hanlattice import Span
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import WORD
from tests.helpers.strategies import any_character, sentences, some_labels

some_parts = st.sampled_from([WORD, "n", "v-n", "名"])


@st.composite
def words(
    draw: st.DrawFn, length: int, parts: st.SearchStrategy[str] = some_parts
) -> tuple[Span, ...]:
    """Draw a way to cut a text of this length into words."""
    cuts = [index for index in range(1, length) if draw(st.booleans())]
    edges = [0, *cuts, length] if length else []
    return tuple(Span(start, end, draw(parts)) for start, end in pairwise(edges))


@st.composite
def segmented_sentences(
    draw: st.DrawFn,
    characters: st.SearchStrategy[str] = any_character,
    labels: st.SearchStrategy[str] = some_labels,
    parts: st.SearchStrategy[str] = some_parts,
) -> Sentence:
    """Draw a sentence that is not empty, with some spans and its words."""
    sentence = draw(sentences(characters, labels))
    return replace(sentence, words=draw(words(len(sentence), parts)))
