"""The classes that entities are broken down by. A class follows from a span and its text alone, never from who found
it, so that gold and found spans are classed alike and precision has a meaning in each class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hanlattice.evaluation.mistakes.judged import Compared, Judged
from hanlattice.evaluation.mistakes.rows import Row, make_row
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normal import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span

LENGTHS = ((1, "1"), (2, "2"), (3, "3"), (4, "4"), (6, "5–6"), (9, "7–9"))  # (the longest, name)
LONGER = "10 or more"
IN, OUT = "in the lexicon", "not in it"
CROSSED, FREE = "a word crosses a border", "no word crosses"
SEEN, RELABELLED, UNSEEN = "seen", "seen with another label", "unseen"


class Classes(NamedTuple):
    """`of` gives a span's class, or None where it has none; classes stand in this order, others by name."""

    name: str
    of: Callable[[Compared, Span], str | None]
    order: tuple[str, ...] = ()


def break_down(compared: Sequence[Compared], classes: Classes) -> tuple[Row, ...]:
    """A row for each class that any span has."""
    spans: dict[str, list[Judged]] = defaultdict(list)
    for sentence in compared:
        for each in sentence.spans:
            if (name := classes.of(sentence, each.span)) is not None:
                spans[name].append(each)
    names = [name for name in classes.order if name in spans] or sorted(spans)
    return tuple(make_row(name, spans[name]) for name in names)


def all_classes(
    compared: Sequence[Compared], lexicon: Lexicon | None, trained: Sequence[Sentence] | None
) -> Iterator[Classes]:
    """Every breakdown that these sources allow."""
    yield Classes("type", lambda _, span: span.label)
    yield Classes("group", lambda _, span: group_of(span.label))
    yield Classes("length", lambda _, span: length_class(span.end - span.start), (*(n for _, n in LENGTHS), LONGER))
    if lexicon is not None:
        words, inside = lexicon, crossed_places(lexicon, [sentence.text for sentence in compared])
        yield Classes("lexicon", lambda s, span: IN if s.text[span.start : span.end] in words else OUT, (IN, OUT))
        yield Classes(
            "borders",
            lambda s, span: FREE if inside[s.index].isdisjoint((span.start, span.end)) else CROSSED,
            (CROSSED, FREE),
        )
    if trained is not None:
        known = seen_labels(trained)
        yield Classes("training", lambda s, span: seen_class(s.text, span, known), (SEEN, RELABELLED, UNSEEN))


def group_of(label: str) -> str | None:
    """`NAM` of `PER.NAM`: what stands after the last dot, as the scorer groups types."""
    return label.rpartition(".")[2] or None if "." in label else None


def length_class(length: int) -> str:
    return next((name for longest, name in LENGTHS if length <= longest), LONGER)


def crossed_places(lexicon: Lexicon, texts: Sequence[str]) -> list[set[int]]:
    """For each text the places between two characters (before the n-th, from 0) that lie inside a word of it."""
    counts, *arrays = lexicon.match_many([fold(text) for text in texts])
    places: list[set[int]] = [set() for _ in texts]
    text = np.repeat(np.arange(len(texts)), counts).tolist()
    for at, start, end in zip(text, arrays[0].tolist(), arrays[1].tolist(), strict=True):
        places[at].update(range(start + 1, end))
    return places


def seen_labels(trained: Iterable[Sentence]) -> dict[str, set[str]]:
    """The labels of every entity of the training sentences, by what it looks like to a model."""
    labels: dict[str, set[str]] = defaultdict(set)
    for sentence in trained:
        for span in sentence.spans or ():
            labels[fold(sentence.text[span.start : span.end])].add(span.label)
    return dict(labels)


def seen_class(text: str, span: Span, known: Mapping[str, set[str]]) -> str:
    labels = known.get(fold(text[span.start : span.end]))
    if labels is None:
        return UNSEEN
    return SEEN if span.label in labels else RELABELLED
