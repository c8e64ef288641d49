"""Explanations that no model made: of a known sentence, and any that hypothesis draws."""

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
    return Share(mean, 0.1, max(0.0, mean - 0.1), min(1.0, mean + 0.1))


def explained(
    text: str,
    words: list[Word],
    spans: tuple[Span, ...] = (),
    layers: int = 1,
    pieces: tuple[int, ...] = (),
) -> Explanation:
    """An explanation in which words have the shares .5, .05, .05 … and the rest is the character's
    own.
    """
    found = []
    for _ in range(layers):
        sides = []
        for name in ("forward", "backward"):
            at = [word.at(name) for word in words]
            weights = [0.5 if here not in at[:nth] else 0.05 for nth, here in enumerate(at)]
            sums = [
                sum(w for w, here in zip(weights, at, strict=True) if here == place)
                for place in range(len(text))
            ]
            before = tuple(None if place in at else share(0.25) for place in range(len(text)))
            own = tuple(share(max(0.0, 1 - total) if total else 0.75) for total in sums)
            sides.append(Direction(tuple(map(share, weights)), own, before))
        found.append(Layer(*sides))
    tags = ("O",) * len(text)
    cuts = (0, *pieces, len(text))
    return Explanation(
        text,
        spans,
        tags,
        tuple(words),
        tuple(found),
        ("O", "B-X"),
        ((0.9, 0.1),) * len(text),
        tuple(pairwise(cuts)),
        True,
    )


def nanjing() -> Explanation:
    words = [Word(start, end, word, "words", word == "市长") for start, end, word in WORDS]
    spans = (Span(0, 3, "LOC", 0.98, "南京市"), Span(3, 7, "LOC", 1.0, "长江大桥"))
    return explained("南京市长江大桥", words, spans)


@st.composite
def any_explanation(draw: st.DrawFn, texts: st.SearchStrategy[str] = any_text) -> Explanation:
    text = draw(texts)
    words = []
    for _ in range(draw(st.integers(0, 6)) if len(text) > 1 else 0):
        start = draw(st.integers(0, len(text) - 2))
        end = draw(st.integers(start + 2, len(text)))
        words.append(
            Word(
                start,
                end,
                text[start:end],
                draw(st.sampled_from(["words", "subwords"])),
                draw(st.booleans()),
            )
        )
    labels = st.sampled_from(["LOC", "WORD", "<b>&\"'", "组织 " * 12])
    found = tuple(
        Span(s.start, s.end, s.label, 0.5, text[s.start : s.end])
        for s in draw(some_spans(len(text), labels))
    )
    pieces = (len(text) // 2,) if len(text) > 3 and draw(st.booleans()) else ()
    words = [word for word in words if not any(word.start < cut < word.end for cut in pieces)]
    return explained(
        text,
        sorted(words, key=lambda word: (word.start, word.end)),
        found,
        draw(st.integers(1, 2)),
        pieces,
    )
