"""The words that were missed most often, and what stood in their place."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hanlattice.evaluation.segmentation.cuts import Cut


@dataclass(frozen=True, slots=True)
class Instead:
    """The found words that cover a missed one: several where it was cut, one alone where it was joined to others."""

    words: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A gold word: how often it is there, how often no found word has its place, and what was found there instead."""

    word: str
    count: int
    missed: int
    known: bool | None  # to the training; None where that is not known
    instead: tuple[Instead, ...]  # the most frequent first

    def as_dict(self) -> dict[str, object]:
        instead = [{"words": list(each.words), "count": each.count} for each in self.instead]
        return {"word": self.word, "count": self.count, "missed": self.missed, "known": self.known, "instead": instead}


def worst_words(pairs: Iterable[tuple[Cut, Cut]], is_known: Callable[[str], bool] | None) -> tuple[Missed, ...]:
    """Every word that was missed; those missed most often first, then the rarer, then by their characters."""
    counts: Counter[str] = Counter()
    instead: dict[str, Counter[tuple[str, ...]]] = {}
    for gold, found in pairs:
        counts.update(gold.words)
        for word, others in _missed(gold, found):
            instead.setdefault(word, Counter())[others] += 1
    made = (_summed(word, counts[word], others, is_known) for word, others in instead.items())
    return tuple(sorted(made, key=lambda each: (-each.missed, each.count, each.word)))


def _missed(gold: Cut, found: Cut) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(gold word, the found words that lie over it) of each word that was not found."""
    right = set(found.places)
    starts, ends = ([place[side] for place in found.places] for side in (0, 1))
    for word, (start, end) in zip(gold.words, gold.places, strict=True):
        if (start, end) not in right:
            yield word, tuple(found.words[bisect_right(ends, start) : bisect_left(starts, end)])


def _summed(word: str, count: int, others: Counter[tuple[str, ...]], is_known: Callable[[str], bool] | None) -> Missed:
    instead = sorted(others.items(), key=lambda item: (-item[1], item[0]))
    known = None if is_known is None else is_known(word)
    return Missed(word, count, others.total(), known, tuple(Instead(*item) for item in instead))
