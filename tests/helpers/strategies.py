"""Strategies for hypothesis: lattices, sentences with spans, labels, and any text."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hanlattice import Lattice, Span
from hanlattice.text.sentence import Sentence

# Every example of a test writes into the same folder, and overwrites the files of the last example.
shares_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

ODD = "\0\t\n\r\x1c\x85\xa0\u2028\u3000\ufeff\ufffd\ud800\udfff\\ＡaÅ１½ﷺ㌀𠀀\U0010ffff"
any_character = st.characters(exclude_categories=[]) | st.sampled_from(ODD)
any_text = st.text(any_character, max_size=30)
# A label may have any character that files can carry, so no surrogates.
label_character = any_character.filter(lambda character: not "\ud800" <= character <= "\udfff")
some_labels = st.sampled_from(["LOC", "PER.NAM", "组织-A"])


@st.composite
def spans(draw: st.DrawFn, length: int, labels: st.SearchStrategy[str]) -> tuple[Span, ...]:
    """Draw spans of a text of this length, from left to right, without overlaps."""
    starts = draw(st.lists(st.booleans(), min_size=length + 1, max_size=length + 1))
    cuts = [index for index, is_cut in enumerate(starts) if is_cut]
    pieces = [(a, b) for a, b in pairwise(cuts) if draw(st.booleans())]
    return tuple(Span(a, b, draw(labels)) for a, b in pieces)


@st.composite
def sentences(
    draw: st.DrawFn,
    characters: st.SearchStrategy[str] = any_character,
    labels: st.SearchStrategy[str] = some_labels,
) -> Sentence:
    """Draw a sentence that is not empty, with some spans."""
    text = draw(st.text(characters, min_size=1, max_size=12))
    return Sentence(text, draw(spans(len(text), labels)))


@st.composite
def lattices(
    draw: st.DrawFn, max_sentences: int = 4, max_length: int = 7, max_words: int = 8
) -> Lattice:
    """Draw a lattice; several words may have one span, and sentences may be empty."""
    lengths = draw(st.lists(st.integers(0, max_length), min_size=1, max_size=max_sentences))
    words = []
    for sentence, length in enumerate(lengths):
        if length < 2:
            continue
        for _ in range(draw(st.integers(0, max_words))):
            start = draw(st.integers(0, length - 2))
            end = draw(st.integers(start + 2, length))
            words.append((sentence, start, end, draw(st.integers(0, 20))))
    return Lattice.from_words(lengths, draw(st.permutations(words)))
