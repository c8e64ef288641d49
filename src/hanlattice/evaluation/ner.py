"""Score exact spans: overall (micro), by type, and by the `.NAM`/`.NOM` groups of Weibo.

`score_tags` counts like seqeval's strict mode or, with `loose`, like the original code of the
lattice LSTM, and so like the figures of its papers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hanlattice.evaluation.report import percent
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, check_prefix, split_tag, tags_to_spans

# The original code skips dev and test sentences of this many characters or more.
LONG = 250


class Mark(NamedTuple):
    """An entity in the form in which it is compared.

    The original code writes `X[3,5]` for an entity that a later tag closes, and `X[3]` (`end` is
    None) for a single character or one left open at the end, so `X[3,3]` and `X[3]` differ.
    """

    label: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of spans, with precision, recall and F1; a ratio without a denominator is 0."""

    gold: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """Return the share of the predicted spans that is right."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Return the share of the gold spans that was predicted."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Return 2PR / (P + R), computed from the counts."""
        spans = self.gold + self.predicted
        return 2 * self.correct / spans if spans else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return ratios and counts by name, for JSON."""
        ratios = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**ratios, "gold": self.gold, "predicted": self.predicted, "correct": self.correct}

    def cells(self) -> tuple[str, str, str]:
        """Return precision, recall and F1 as table cells, with a dash where nothing divides."""
        return (
            percent(self.precision if self.predicted else None),
            percent(self.recall if self.gold else None),
            percent(self.f1 if self.gold or self.predicted else None),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The scores of all spans, of each type, and of each group of types."""

    overall: Score
    by_type: dict[str, Score]
    groups: dict[str, Score]

    def as_dict(self) -> dict[str, object]:
        """Return all scores as plain values, for JSON."""
        return {
            "overall": self.overall.as_dict(),
            "by_type": {label: score.as_dict() for label, score in self.by_type.items()},
            "groups": {group: score.as_dict() for group, score in self.groups.items()},
        }


def score(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> Report:
    """Score spans sentence by sentence; a right one has the gold start, end and label."""
    return _compare([_marks(spans) for spans in gold], [_marks(spans) for spans in predicted])


def score_tags(
    gold_tags: Sequence[Sequence[str]],
    predicted_tags: Sequence[Sequence[str]],
    scheme: str,
    *,
    loose: bool = False,
) -> Report:
    """Score tags sentence by sentence, legal or not.

    Args:
        gold_tags: the tags of each sentence.
        predicted_tags: as many sentences, with as many tags each.
        scheme: a name from `SCHEMES`.
        loose: count broken entities too. The original code closes an entity at whatever comes
            next, and labels are upper-cased. Without it, only whole entities count, as in seqeval
            with `mode="strict"`. Neither score is always the higher one.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme!r} is not a scheme: expected one of {', '.join(SCHEMES)}")
    # `_compare` reports sides of unequal length.
    for index, (gold, found) in enumerate(zip(gold_tags, predicted_tags, strict=False)):
        if len(gold) != len(found):
            counts = f"{len(gold)} gold tags but {len(found)} predicted tags"
            raise ValueError(f"sentence {index} has {counts}")
    read = _loose_marks if loose else lambda tags, scheme: _marks(tags_to_spans(tags, scheme))
    return _compare(
        [read(tags, scheme) for tags in gold_tags], [read(tags, scheme) for tags in predicted_tags]
    )


def _compare(gold: Sequence[set[Mark]], predicted: Sequence[set[Mark]]) -> Report:
    if len(gold) != len(predicted):
        counts = f"{len(gold)} gold sentences cannot be compared with {len(predicted)} predicted"
        raise ValueError(f"{counts} sentences")
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for gold_marks, predicted_marks in zip(gold, predicted, strict=True):
        wanted.update(mark.label for mark in gold_marks)
        found.update(mark.label for mark in predicted_marks)
        correct.update(mark.label for mark in gold_marks & predicted_marks)
    labels = sorted(wanted.keys() | found)
    by_type = {label: Score(wanted[label], found[label], correct[label]) for label in labels}
    # `PER.NAM` and `LOC.NAM` belong to group NAM: what follows the last dot of a label.
    suffixes = {label: label.rpartition(".")[2] for label in labels if "." in label}
    groups = {
        group: total_score(by_type[label] for label, suffix in suffixes.items() if suffix == group)
        for group in sorted(set(suffixes.values()) - {""})
    }
    return Report(total_score(by_type.values()), by_type, groups)


def total_score(scores: Iterable[Score]) -> Score:
    """Return the score over several classes of spans, by adding up their counts."""
    counts = [(score.gold, score.predicted, score.correct) for score in scores]
    return Score(*map(sum, zip((0, 0, 0), *counts, strict=True)))


def _marks(spans: Iterable[Span]) -> set[Mark]:
    return {Mark(span.label, span.start, span.end) for span in spans}


def _loose_marks(tags: Sequence[str], scheme: str) -> set[Mark]:
    upper = [tag.upper() for tag in tags]
    return set(_loose_inside(upper) if scheme == "BIO" else _loose_ends(upper))


def _loose_ends(tags: Sequence[str]) -> Iterator[Mark]:
    """Read BMES or BIOES: an entity stays open until E, S or B, whatever lies between."""
    opened: Mark | None = None
    for index, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        if prefix not in ("B", "E", "S"):
            continue
        if opened is not None:
            yield opened._replace(end=index + 1 if prefix == "E" else index)
        if prefix == "S":
            yield Mark(label, index, None)
        opened = Mark(label, index, None) if prefix == "B" else None
    if opened is not None:
        yield opened


def _loose_inside(tags: Sequence[str]) -> Iterator[Mark]:
    """Read BIO: as strict, except for an entity that the end of the sentence leaves open."""
    opened: Mark | None = None
    for index, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        check_prefix(tag, prefix, "BIO")
        if prefix == "I" and opened is not None and opened.label == label:
            continue
        if opened is not None:
            yield opened._replace(end=index)
        opened = Mark(label, index, None) if prefix == "B" else None
    if opened is not None:
        yield opened
