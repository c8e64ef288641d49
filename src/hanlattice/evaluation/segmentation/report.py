"""Segmentation scored: as the SIGHAN bakeoff does it, by exact spans, by boundaries and by the length of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass

from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.segmentation.alignment import matched
from hanlattice.evaluation.segmentation.cuts import Cut, cut, knowing
from hanlattice.evaluation.segmentation.worst import Missed, worst_words
from hanlattice.text.spans import Span

LENGTHS = ("1", "2", "3", "4", "5+")

Pairs = Sequence[tuple[Cut, Cut]]


@dataclass(frozen=True, slots=True)
class Recall:
    """Of so many gold words, so many were found."""

    gold: int
    correct: int

    @property
    def recall(self) -> float | None:
        """None where there is nothing to be found."""
        return self.correct / self.gold if self.gold else None

    def as_dict(self) -> dict[str, float | None]:
        return {"recall": self.recall, "gold": self.gold, "correct": self.correct}


@dataclass(frozen=True, slots=True)
class SegmentationReport:
    """`bakeoff` counts words that diff aligns, `spans` words at the same place; `oov` and `iv` are as `bakeoff`.

    `oov` are gold words that the training lacks and `iv` those that it has: None where nobody says which it has.
    """

    bakeoff: Score
    oov: Recall | None
    iv: Recall | None
    spans: Score
    boundaries: Score
    by_length: dict[str, Score]
    worst: tuple[Missed, ...]

    @property
    def oov_rate(self) -> float | None:
        """The share of gold words that the training lacks."""
        return self.oov.gold / self.bakeoff.gold if self.oov and self.bakeoff.gold else None

    def as_dict(self, words: int | None = None) -> dict[str, object]:
        """As JSON wants it, with so many of the worst words, or all."""
        return {
            "bakeoff": self.bakeoff.as_dict(),
            "oov": self.oov and {**self.oov.as_dict(), "rate": self.oov_rate},
            "iv": self.iv and self.iv.as_dict(),
            "spans": self.spans.as_dict(),
            "boundaries": self.boundaries.as_dict(),
            "by_length": {length: score.as_dict() for length, score in self.by_length.items()},
            "worst": [word.as_dict() for word in self.worst[:words]],
        }


def score_segmentation(
    texts: Sequence[str],
    gold: Sequence[Iterable[Span]],
    predicted: Sequence[Iterable[Span]],
    known: Collection[str] | None = None,
    *,
    as_written: bool = False,
) -> SegmentationReport:
    """Words against words, sentence by sentence; both must cover all of a text but its white space.

    `known` are the words of the training. A word is one of them whatever its width: `１` is known where `1` is. The
    script of the bakeoff takes them `as_written`.
    """
    if not len(texts) == len(gold) == len(predicted):
        counts = f"{len(texts)} texts, {len(gold)} gold sentences and {len(predicted)} predicted sentences"
        raise ValueError(f"{counts} cannot be compared")
    pairs = [
        (cut(text, ours, f"gold words of sentence {at}: "), cut(text, theirs, f"found words of sentence {at}: "))
        for at, (text, ours, theirs) in enumerate(zip(texts, gold, predicted, strict=True), start=1)
    ]
    is_known = None if known is None else knowing(known, as_written)
    return SegmentationReport(
        *_bakeoff(pairs, is_known), *_places(pairs), by_length=_by_length(pairs), worst=worst_words(pairs, is_known)
    )


def _bakeoff(pairs: Pairs, is_known: Callable[[str], bool] | None) -> tuple[Score, Recall | None, Recall | None]:
    """All words, those that are not known, those that are."""
    there: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for gold, found in pairs:
        there.update(gold.words)
        right.update(gold.words[at] for at, _ in matched(gold.words, found.words))
    score = Score(there.total(), sum(len(found.places) for _, found in pairs), right.total())
    if is_known is None:
        return score, None, None
    new = [word for word in there if not is_known(word)]
    oov = Recall(sum(there[word] for word in new), sum(right[word] for word in new))
    return score, oov, Recall(score.gold - oov.gold, score.correct - oov.correct)


def _places(pairs: Pairs) -> tuple[Score, Score]:
    """Exact spans, and boundaries between words."""
    spans = [(set(gold.places), set(found.places)) for gold, found in pairs]
    return _score(spans), _score([(gold.boundaries, found.boundaries) for gold, found in pairs])


def _score(pairs: Iterable[tuple[Set[object], Set[object]]]) -> Score:
    counts = [(len(gold), len(found), len(gold & found)) for gold, found in pairs]
    return Score(*(sum(column) for column in zip(*counts, strict=True))) if counts else Score(0, 0, 0)


def _by_length(pairs: Pairs) -> dict[str, Score]:
    """Exact spans by their number of characters."""
    columns: list[Counter[int]] = [Counter(), Counter(), Counter()]
    for gold, found in pairs:
        right = set(gold.places) & set(found.places)
        for column, places in zip(columns, (gold.places, found.places, right), strict=True):
            column.update([end - start for start, end in places])
    short = {name: Score(*(column[int(name)] for column in columns)) for name in LENGTHS[:-1]}
    counted = [sum(count for length, count in column.items() if length > len(short)) for column in columns]
    return {**short, LENGTHS[-1]: Score(*counted)}
