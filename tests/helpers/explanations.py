"""Explanations without a model: of one sentence, and random ones for hypothesis."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from hanlattice.explain import Direction, Explanation, Layer, Share, Word
from hanlattice.text.span import Span
from tests.helpers.strategies import any_text
from tests.helpers.strategies import spans as some_spans

WORDS = [
    (0, 2, "南京"),
    (0, 3, "南京市"),
    (2, 4, "市长"),
    (3, 5, "长江"),
    (3, 7, "长江大桥"),
    (5, 7, "大桥"),
]


def share(mean: float) -> Share:
    """Return a share around a mean."""
    return Share(mean, 0.1, max(0.0, mean - 0.1), min(1.0, mean + 0.1))


def explained(
    text: str,
    words: list[Word],
    spans: tuple[Span, ...] = (),
    layers: int = 1,
    pieces: tuple[int, ...] = (),
) -> Explanation:
    """Return an explanation with made shares: of the words at a place, the first has 0.5.

    Every other word has 0.05, and the character has the rest.
    """
    drawn = []
    for _ in range(layers):
        sides = []
        for name in ("forward", "backward"):
            places = [word.at(name) for word in words]
            weights = [0.05 if p in places[:index] else 0.5 for index, p in enumerate(places)]
            sums = [0.0] * len(text)
            for place, weight in zip(places, weights, strict=True):
                sums[place] += weight
            before = tuple(None if p in places else share(0.25) for p in range(len(text)))
            own = tuple(share(max(0.0, 1 - total) if total else 0.75) for total in sums)
            sides.append(Direction(tuple(map(share, weights)), own, before))
        drawn.append(Layer(*sides))
    tags = ("O",) * len(text)
    cuts = (0, *pieces, len(text))
    return Explanation(
        text,
        spans,
        tags,
        tuple(words),
        tuple(drawn),
        ("O", "B-X"),
        ((0.9, 0.1),) * len(text),
        tuple(pairwise(cuts)),
        True,
    )


def nanjing() -> Explanation:
    """Return the explanation of a sentence in which words overlap."""
    words = [Word(start, end, word, "words", word == "市长") for start, end, word in WORDS]
    spans = (Span(0, 3, "LOC", 0.98, "南京市"), Span(3, 7, "LOC", 1.0, "长江大桥"))
    return explained("南京市长江大桥", words, spans)


@st.composite
def any_explanation(draw: st.DrawFn, texts: st.SearchStrategy[str] = any_text) -> Explanation:
    """Draw an explanation of any text."""
    text = draw(texts)
    words = []
    for _ in range(draw(st.integers(0, 6)) if len(text) > 1 else 0):
        start = draw(st.integers(0, len(text) - 2))
        end = draw(st.integers(start + 2, len(text)))
        source = draw(st.sampled_from(["words", "subwords"]))
        words.append(Word(start, end, text[start:end], source, draw(st.booleans())))
    labels = st.sampled_from(["LOC", "WORD", "<b>&\"'", "组织 " * 12])
    spans = tuple(
        Span(s.start, s.end, s.label, 0.5, text[s.start : s.end])
        for s in draw(some_spans(len(text), labels))
    )
    pieces = (len(text) // 2,) if len(text) > 3 and draw(st.booleans()) else ()
    words = [word for word in words if not any(word.start < cut < word.end for cut in pieces)]
    words.sort(key=lambda word: (word.start, word.end))
    return explained(text, words, spans, draw(st.integers(1, 2)), pieces)
