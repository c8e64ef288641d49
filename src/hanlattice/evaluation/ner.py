"""Precision, recall and F1 over exact spans: overall (micro), by type, and by the `.NAM`/`.NOM`
groups of Weibo.

`score_tags` counts like seqeval's strict mode, or, with `loose`, like the code and thus the figures
of the lattice LSTM papers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hanlattice.evaluation.report import percent
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, check_prefix, split_tag, tags_to_spans

LONG = 250  # characters: the original code reads neither dev nor test sentences of so many or more


class Mark(NamedTuple):
    """An entity as it is compared.

    The original code writes `X[3,5]` for one that a later tag closed, and `X[3]` (`end` is None)
    for a single character or one that the end of the sentence leaves open; so `X[3,3]` and `X[3]`
    are different.
    """

    label: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Score:
    """Three counts and their ratios; a ratio without a denominator is 0."""

    gold: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """The share of the spans found that is right."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold spans that was found."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """2PR / (P + R), computed from the counts."""
        return (
            2 * self.correct / (self.gold + self.predicted) if self.gold + self.predicted else 0.0
        )

    def as_dict(self) -> dict[str, float]:
        """Ratios and counts by name, for JSON."""
        ratios = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {**ratios, "gold": self.gold, "predicted": self.predicted, "correct": self.correct}

    def cells(self) -> tuple[str, str, str]:
        """Precision, recall and F1 in a table; a dash where there is nothing to divide by."""
        return (
            percent(self.precision if self.predicted else None),
            percent(self.recall if self.gold else None),
            percent(self.f1 if self.gold or self.predicted else None),
        )


@dataclass(frozen=True, slots=True)
class Report:
    overall: Score
    by_type: dict[str, Score]
    groups: dict[str, Score]

    def as_dict(self) -> dict[str, object]:
        """All scores as plain values, for JSON."""
        return {
            "overall": self.overall.as_dict(),
            "by_type": {label: score.as_dict() for label, score in self.by_type.items()},
            "groups": {group: score.as_dict() for group, score in self.groups.items()},
        }


def score(gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]]) -> Report:
    """Spans sentence by sentence; a predicted one is correct if start, end and label are all right."""
    return _compare([_marks(spans) for spans in gold], [_marks(spans) for spans in predicted])


def score_tags(
    gold_tags: Sequence[Sequence[str]],
    predicted_tags: Sequence[Sequence[str]],
    scheme: str,
    *,
    loose: bool = False,
) -> Report:
    """Tags sentence by sentence, legal or not.

    Strict, only whole entities count, as in seqeval with `mode="strict"`. Loose, broken ones count
    too: the original code closes an entity at whatever comes next, and labels are upper-cased.
    Neither is always the higher of the two.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme!r} is not a scheme: expected one of {', '.join(SCHEMES)}")
    for at, (gold, predicted) in enumerate(zip(gold_tags, predicted_tags, strict=False)):
        if len(gold) != len(predicted):
            raise ValueError(
                f"sentence {at} has {len(gold)} gold tags but {len(predicted)} predicted tags"
            )
    read = _loose_marks if loose else lambda tags, scheme: _marks(tags_to_spans(tags, scheme))
    return _compare(
        [read(tags, scheme) for tags in gold_tags], [read(tags, scheme) for tags in predicted_tags]
    )


def _compare(gold: Sequence[set[Mark]], predicted: Sequence[set[Mark]]) -> Report:
    if len(gold) != len(predicted):
        raise ValueError(
            f"{len(gold)} gold sentences cannot be compared with {len(predicted)} predicted sentences"
        )
    wanted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for gold_marks, predicted_marks in zip(gold, predicted, strict=True):
        wanted.update(mark.label for mark in gold_marks)
        found.update(mark.label for mark in predicted_marks)
        correct.update(mark.label for mark in gold_marks & predicted_marks)
    by_type = {
        label: Score(wanted[label], found[label], correct[label])
        for label in sorted(wanted.keys() | found)
    }
    return Report(_total(by_type.values()), by_type, _groups(by_type))


def _total(scores: Iterable[Score]) -> Score:
    counts = [(score.gold, score.predicted, score.correct) for score in scores]
    return Score(*map(sum, zip((0, 0, 0), *counts, strict=True)))


def _groups(by_type: dict[str, Score]) -> dict[str, Score]:
    """`PER.NAM` and `LOC.NAM` together are NAM: what stands after a label's last dot."""
    suffixes = {label: label.rpartition(".")[2] for label in by_type if "." in label}
    return {
        group: _total(by_type[label] for label, suffix in suffixes.items() if suffix == group)
        for group in sorted(set(suffixes.values()) - {""})
    }


def _marks(spans: Iterable[Span]) -> set[Mark]:
    return {Mark(span.label, span.start, span.end) for span in spans}


def _loose_marks(tags: Sequence[str], scheme: str) -> set[Mark]:
    upper = [tag.upper() for tag in tags]
    return set(_loose_inside(upper) if scheme == "BIO" else _loose_ends(upper))


def _loose_ends(tags: Sequence[str]) -> Iterator[Mark]:
    """BMES and BIOES: an entity stays open until E, S or B comes, whatever the label and whatever
    lies between.
    """
    opened: Mark | None = None
    for at, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        if prefix not in ("B", "E", "S"):
            continue
        if opened is not None:
            yield opened._replace(end=at + 1 if prefix == "E" else at)
        if prefix == "S":
            yield Mark(label, at, None)
        opened = Mark(label, at, None) if prefix == "B" else None
    if opened is not None:
        yield opened


def _loose_inside(tags: Sequence[str]) -> Iterator[Mark]:
    """BIO: as strict, except for an entity that the end of the sentence leaves open."""
    opened: Mark | None = None
    for at, tag in enumerate(tags):
        prefix, label = split_tag(tag)
        check_prefix(tag, prefix, "BIO")
        if prefix == "I" and opened is not None and opened.label == label:
            continue
        if opened is not None:
            yield opened._replace(end=at)
        opened = Mark(label, at, None) if prefix == "B" else None
    if opened is not None:
        yield opened
