"""What changes in a text without one of its words: read it again for each, and report a line."""

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
from hanlattice.text.span import WORD, Span
from hanlattice.text.trie import Matches

# The most that a piece may cost: its words times its characters, words and dictionary labels. This
# takes half a minute on a slow CPU.
MOST = 1 << 20
# Characters that are read between two pauses.
PART = 2048
# A smaller change of a probability is not reported.
LEAST = 0.01


def without_each(
    model: Model,
    text: str,
    examples: Examples,
    found: Sequence[Sequence[Span]],
    trust: float,
    threshold: Threshold,
    pause: Callable[[], None] | None = None,
) -> tuple[Ablation, ...]:
    """Read one text again without each of its words, in the lattice's order.

    Args:
        text: a text that is short enough to be read whole.
        examples: the same text as numbers.
        found: its spans, counted in characters that are read.
        trust: how much more the tags of a user's words score.
        threshold: find spans by their probabilities, from this one on.
        pause: called between two batches, which are small then.
    """
    tagger = model.tagger
    ablations: list[Ablation] = []
    count = int(examples.matches.counts[0])
    length = int(examples.lengths[0])
    rulings = 0 if examples.rulings is None else len(examples.rulings.start)
    # Reading a sentence once takes time and memory for its characters, its words and what the
    # dictionary says of them.
    once = length + count + rulings
    if count * once > MOST:
        raise InputError(
            f"the dictionary has {count:,} words in these {length:,} characters, which are too "
            f"many to read the text again without each: explain a shorter text, or the shares "
            f"alone (--shares, without=False): {brief(text)}"
        )
    most, characters = BOUNDS[tagger.device_kind]
    characters = characters if pause is None else min(characters, PART)
    # Words of a batch, with a sentence for each, so that memory stays bounded.
    size = max(1, min(most, characters // once))
    for low in range(0, count, size):
        if low and pause is not None:
            pause()
        words = np.arange(low, min(low + size, count))
        fewer = _without(examples, words)
        rows = np.arange(len(words))
        running = DecodingBatch(tagger, model.indexer, fewer, rows, trust, threshold)
        spans, scores = running.read(True)
        decoded = Decoded(fewer.in_characters(spans), on_host(scores))
        changed = make_spans(decoded, [text] * len(words), examples.labels)
        chances = _chances(model, running, found[0], len(words))
        pairs = zip(chances, changed, strict=True)
        ablations += (Ablation(0, tuple(row), tuple(its_spans)) for row, its_spans in pairs)
    return tuple(ablations)


def _chances(
    model: Model, running: DecodingBatch, spans: Sequence[Span], times: int
) -> Iterator[list[float]]:
    """Yield the spans' probabilities in each sentence, also for labels of the dictionary alone."""
    labels = model.indexer.tag_ids.labels
    learnt = [span for span in spans if span.label in labels]
    others = running.new_label_scores() if len(learnt) < len(spans) else {}
    numbers = np.array([labels.index(span.label) for span in learnt], dtype=np.int64)
    rows = span_scores(running.crf, running.emissions, running.there, [learnt] * times)
    for index, row in enumerate(rows):
        calibrated = running.calibrated(numbers, np.array(row)).tolist()
        known = dict(zip(learnt, calibrated, strict=True))
        yield [known.get(span, others.get((index, span), 0.0)) for span in spans]


def _without(examples: Examples, words: Ints) -> Examples:
    """Repeat a text for each of these words, without that word."""
    times = len(words)
    counts, *columns = examples.matches
    # [times, W]: row i lacks word i.
    stays = np.arange(counts[0]) != words[:, None]
    kept = (np.tile(column, (times, 1))[stays] for column in columns)
    if (rulings := examples.rulings) is not None:
        # What the dictionary says of the missing word goes too.
        start, end = (column[words][:, None] for column in examples.matches[1:3])
        sentence, row = np.nonzero((rulings.start != start) | (rulings.end != end))
        rulings = rulings.at(row)._replace(sentence=sentence)
    return replace(
        examples,
        lengths=np.repeat(examples.lengths, times),
        chars=np.tile(examples.chars, times),
        matches=Matches(np.repeat(counts - 1, times), *kept),
        symbols=None if examples.symbols is None else np.tile(examples.symbols, times),
        states=None if examples.states is None else np.tile(examples.states, (times, 1)),
        rulings=rulings,
        extra_ids={name: np.tile(numbers, times) for name, numbers in examples.extra_ids.items()},
        offsets=None if examples.offsets is None else np.tile(examples.offsets, times),
    )


def changes(explanation: Explanation) -> dict[int, str]:
    """Return what changes without each word, by its index in `words`.

    The largest change comes first; changes below `LEAST` are left out.
    """
    sizes = {}
    texts = {}
    for index, ablation in enumerate(explanation.without):
        size, text = _change(explanation.spans, ablation)
        if size >= LEAST:
            sizes[index] = size
            texts[index] = text
    return {index: texts[index] for index in sorted(sizes, key=lambda index: -sizes[index])}


class Largest(NamedTuple):
    """The largest effect of a word's absence on a span's probability.

    `change` is from −1 to 1; `is_other` says whether other spans would be found.
    """

    change: float
    is_other: bool

    @property
    def weight(self) -> float:
        """Return the thickness of an arc, from 0 to 1 for other spans."""
        return 1.0 if self.is_other else abs(self.change) if abs(self.change) >= LEAST else 0.0

    @property
    def text(self) -> str:
        """Return points of per cent; nothing for a change that is not reported."""
        points = f"{100 * self.change:+.0f}".replace("-", "−") if abs(self.change) >= LEAST else ""
        return f"{points}!" if self.is_other else points


def largest(explanation: Explanation) -> list[Largest]:
    """Return the largest effect of each word."""
    effects = []
    for ablation in explanation.without:
        before = explanation.spans[ablation.first : ablation.first + len(ablation.scores)]
        pairs = zip(before, ablation.scores, strict=True)
        steps = [score - (span.score or 0.0) for span, score in pairs]
        effects.append(Largest(max(steps, key=abs, default=0.0), before != ablation.spans))
    return effects


def others(explanation: Explanation, reported: int) -> str:
    """Return a line about the words whose change is not reported."""
    rest = len(explanation.without) - reported
    which = counted(rest, "other word" if reported else "word")
    return f"without any of {which}: no change of 1% or more" if rest else ""


def _change(spans: tuple[Span, ...], ablation: Ablation) -> tuple[float, str]:
    """Return the largest change of a probability, plus 1 for other spans; and all in words."""
    before = spans[ablation.first : ablation.first + len(ablation.scores)]
    was, now = (
        [(span.start, span.end, span.label) for span in side] for side in (before, ablation.spans)
    )
    largest = 0.0
    parts = []
    for span, score, place in zip(before, ablation.scores, was, strict=True):
        old = span.score or 0.0
        end = "" if place in now else ", not found"
        largest = max(largest, abs(old - score))
        if abs(old - score) >= LEAST or end:
            parts.append(f"{_name(span, before)} {chance(old)} → {chance(score)}{end}")
    new = (span for span, place in zip(ablation.spans, now, strict=True) if place not in was)
    parts += (f"{_name(span, ablation.spans)} found, {chance(span.score or 0.0)}" for span in new)
    return largest + (was != now), " · ".join(parts)


def _name(span: Span, among: tuple[Span, ...]) -> str:
    """Return text and label of a span, with its offset if the same is found elsewhere too."""
    equal = sum((other.text, other.label) == (span.text, span.label) for other in among)
    name = span.text if span.label == WORD else f"{span.text} {span.label}"
    return visible(f"{name} at {span.start}" if equal > 1 else name)
