"""What changes in a text without one of its words, said in a line."""

from __future__ import annotations

from hanlattice.explain.glyphs import chance
from hanlattice.explain.values import Explanation
from hanlattice.text.display import counted, visible
from hanlattice.text.spans import WORD, Span

LEAST = 0.01  # a smaller change of a probability is not told


def changes(explanation: Explanation) -> dict[int, str]:
    """What changes without each word, by its place in `words`: the largest change first, and none that is small."""
    sizes = {nth: _size(explanation, nth) for nth in range(len(explanation.without))}
    told = sorted((nth for nth, size in sizes.items() if size >= LEAST), key=lambda nth: -sizes[nth])
    return {nth: _told(explanation, nth) for nth in told}


def others(explanation: Explanation, told: int) -> str:
    """What there is to say of the words that are not told."""
    rest = len(explanation.without) - told
    which = counted(rest, "other word" if told else "word")
    return f"without any of {which}: no change of 1% or more" if rest else ""


def _size(explanation: Explanation, nth: int) -> float:
    """The largest change of a probability; where something else would be found, 1 more."""
    there, before = explanation.without[nth], _before(explanation, nth)
    pairs = zip(before, there.scores, strict=True)
    largest = max((abs((span.score or 0.0) - score) for span, score in pairs), default=0.0)
    return largest + (_places(before) != _places(there.spans))


def _before(explanation: Explanation, nth: int) -> tuple[Span, ...]:
    there = explanation.without[nth]
    return explanation.spans[there.first : there.first + len(there.scores)]


def _places(spans: tuple[Span, ...]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label) for span in spans]


def _told(explanation: Explanation, nth: int) -> str:
    there, before = explanation.without[nth], _before(explanation, nth)
    was, now = _places(before), _places(there.spans)
    parts = [
        f"{_name(span, before)} {chance(span.score or 0.0)} → {chance(score)}{'' if place in now else ', not found'}"
        for span, score, place in zip(before, there.scores, was, strict=True)
        if abs((span.score or 0.0) - score) >= LEAST or place not in now
    ]
    new = (span for span, place in zip(there.spans, now, strict=True) if place not in was)
    return " · ".join([*parts, *(f"{_name(span, there.spans)} found, {chance(span.score or 0.0)}" for span in new)])


def _name(span: Span, among: tuple[Span, ...]) -> str:
    """Its text and label; and where it stands, if the same is found elsewhere too."""
    is_one_of_several = sum((each.text, each.label) == (span.text, span.label) for each in among) > 1
    name = span.text if span.label == WORD else f"{span.text} {span.label}"
    return visible(f"{name} at {span.start}" if is_one_of_several else name)
