"""What changes in a text without one of its words: found by reading it again for each, and reported
in a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hanlattice.checkpoint.folder import Model
from hanlattice.checks import brief
from hanlattice.errors import InputError
from hanlattice.explain.values import Ablation, Explanation, chance
from hanlattice.features import Examples
from hanlattice.inference.crf import on_host
from hanlattice.inference.decode import BOUNDS, Decoded, DecodingBatch, make_spans
from hanlattice.inference.span_search import span_scores
from hanlattice.inference.threshold import Threshold
from hanlattice.text.display import counted, visible
from hanlattice.text.lattice import Ints
from hanlattice.text.rules import Rulings
from hanlattice.text.span import WORD, Span
from hanlattice.text.trie import Matches

# Words times characters, words and labels of the dictionary in one piece of a text. Half a minute
# on a slow CPU.
MOST = 1 << 20
PART = 2048  # characters that are read between two pauses
LEAST = 0.01  # a smaller change of a probability is not reported


def without_each(
    model: Model,
    text: str,
    examples: Examples,
    found: Sequence[Sequence[Span]],
    trust: float,
    threshold: Threshold,
    pause: Callable[[], None] | None = None,
) -> tuple[Ablation, ...]:
    """For each word of one text, in the lattice's order. `found` are its spans, counted in
    characters that are read.

    A batch at a time, so that memory stays bounded; where there is a `pause` between them, a small
    one.
    """
    tagger = model.tagger
    names = examples.labels
    made: list[Ablation] = []
    count = int(examples.matches.counts[0])
    length = int(examples.lengths[0])
    rulings = 0 if examples.rulings is None else len(examples.rulings.start)
    # Reading a sentence once takes time and memory for its characters, its words and what the
    # dictionary says of them.
    once = length + count + rulings
    if count * once > MOST:
        raise InputError(
            f"the dictionary has {count:,} words in these {length:,} characters, which are too many to read the text "
            f"again without each: explain a shorter text, or the shares alone (--shares, without=False): {brief(text)}"
        )
    most, characters = BOUNDS[tagger.device_kind]
    characters = characters if pause is None else min(characters, PART)
    size = max(1, min(most, characters // once))  # words at a time, a sentence each
    for low in range(0, count, size):
        if low and pause is not None:
            pause()
        words = np.arange(low, min(low + size, count))
        fewer = _without(examples, words)
        running = DecodingBatch(
            tagger, model.indexer, fewer, np.arange(len(words)), trust, threshold
        )
        spans, scores = running.read(True)
        there = make_spans(
            Decoded(fewer.in_characters(spans), on_host(scores)), [text] * len(words), names
        )
        chances = _chances(model, running, found[0], len(words))
        made += (
            Ablation(0, tuple(each), tuple(row)) for each, row in zip(chances, there, strict=True)
        )
    return tuple(made)


def _chances(
    model: Model, running: DecodingBatch, spans: Sequence[Span], times: int
) -> Iterator[list[float]]:
    """The probabilities of the same spans in each sentence, also with labels that only the
    dictionary has.
    """
    learnt = [span for span in spans if span.label in model.indexer.tag_ids.labels]
    others = running.new_label_scores() if len(learnt) < len(spans) else {}
    numbers = np.array(
        [model.indexer.tag_ids.labels.index(span.label) for span in learnt], dtype=np.int64
    )
    for nth, scores in enumerate(
        span_scores(running.crf, running.emissions, running.there, [learnt] * times)
    ):
        known = dict(
            zip(learnt, running.calibrated(numbers, np.array(scores)).tolist(), strict=True)
        )
        yield [known.get(span, others.get((nth, span), 0.0)) for span in spans]


def _without(examples: Examples, words: Ints) -> Examples:
    """The text once for each of these words, without that word."""
    times = len(words)
    counts, *columns = examples.matches
    stays = np.arange(counts[0]) != words[:, None]  # [times, W]
    fewer = Matches(
        np.repeat(counts - 1, times), *(np.tile(column, (times, 1))[stays] for column in columns)
    )
    return replace(
        examples,
        lengths=np.repeat(examples.lengths, times),
        chars=np.tile(examples.chars, times),
        matches=fewer,
        symbols=None if examples.symbols is None else np.tile(examples.symbols, times),
        states=None if examples.states is None else np.tile(examples.states, (times, 1)),
        rulings=_rulings_without(examples, words),
        extra_ids={name: np.tile(numbers, times) for name, numbers in examples.extra_ids.items()},
        offsets=None if examples.offsets is None else np.tile(examples.offsets, times),
    )


def _rulings_without(examples: Examples, words: Ints) -> Rulings | None:
    """What the dictionary says, once for each word, without what it says of that word."""
    if (rulings := examples.rulings) is None:
        return None
    start, end = (column[words][:, None] for column in examples.matches[1:3])
    time, row = np.nonzero((rulings.start != start) | (rulings.end != end))
    return rulings.at(row)._replace(sentence=time)


def changes(explanation: Explanation) -> dict[int, str]:
    """What changes without each word, by its index in `words`: the largest change first, small ones
    left out.
    """
    found = (
        (nth, *_change(explanation.spans, there)) for nth, there in enumerate(explanation.without)
    )
    large = sorted((each for each in found if each[1] >= LEAST), key=lambda each: -each[1])
    return {nth: text for nth, _, text in large}


class Largest(NamedTuple):
    """What a word's absence does most: to the probability of a span that was found, and whether
    others are found.
    """

    change: float  # from −1 to 1
    is_other: bool

    @property
    def weight(self) -> float:
        """From 0, nothing, to 1: other spans would be found."""
        return 1.0 if self.is_other else abs(self.change) if abs(self.change) >= LEAST else 0.0

    @property
    def text(self) -> str:
        """In points of percent; nothing for a change that is not reported."""
        points = f"{100 * self.change:+.0f}".replace("-", "−") if abs(self.change) >= LEAST else ""
        return f"{points}!" if self.is_other else points


def largest(explanation: Explanation) -> list[Largest]:
    """For each word."""
    return [_largest(explanation.spans, there) for there in explanation.without]


def _largest(spans: tuple[Span, ...], there: Ablation) -> Largest:
    before = spans[there.first : there.first + len(there.scores)]
    steps = [score - (span.score or 0.0) for span, score in zip(before, there.scores, strict=True)]
    return Largest(max(steps, key=abs, default=0.0), before != there.spans)


def others(explanation: Explanation, reported: int) -> str:
    """A line about the words whose change is not reported."""
    rest = len(explanation.without) - reported
    which = counted(rest, "other word" if reported else "word")
    return f"without any of {which}: no change of 1% or more" if rest else ""


def _change(spans: tuple[Span, ...], there: Ablation) -> tuple[float, str]:
    """The largest change of a probability, plus 1 if other spans would be found; and what changes,
    in words.
    """
    before = spans[there.first : there.first + len(there.scores)]
    was, now = (
        [(span.start, span.end, span.label) for span in each] for each in (before, there.spans)
    )
    largest = 0.0
    parts = []
    for span, score, place in zip(before, there.scores, was, strict=True):
        old = span.score or 0.0
        end = "" if place in now else ", not found"
        largest = max(largest, abs(old - score))
        if abs(old - score) >= LEAST or end:
            parts.append(f"{_name(span, before)} {chance(old)} → {chance(score)}{end}")
    new = (span for span, place in zip(there.spans, now, strict=True) if place not in was)
    parts += (f"{_name(span, there.spans)} found, {chance(span.score or 0.0)}" for span in new)
    return largest + (was != now), " · ".join(parts)


def _name(span: Span, among: tuple[Span, ...]) -> str:
    """Its text and label; also its offset, if the same is found elsewhere too."""
    is_one_of_several = (
        sum((each.text, each.label) == (span.text, span.label) for each in among) > 1
    )
    name = span.text if span.label == WORD else f"{span.text} {span.label}"
    return visible(f"{name} at {span.start}" if is_one_of_several else name)
