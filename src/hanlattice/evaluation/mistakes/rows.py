"""Counts over some of the spans: what each model found, what only one of them found, and what follows from that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hanlattice.evaluation.mistakes.judged import MISSED, WRONG, Judged
from hanlattice.evaluation.ner import Score


@dataclass(frozen=True)
class Side:
    """One model: its score, and its mistakes by kind."""

    score: Score
    missed: dict[str, int]
    wrong: dict[str, int]

    @property
    def errors(self) -> int:
        """Entities that it did not find."""
        return self.score.gold - self.score.correct

    def as_dict(self) -> dict[str, Any]:
        return {**self.score.as_dict(), "missed": self.missed, "wrong": self.wrong}


@dataclass(frozen=True)
class Row:
    """Two models on one class of spans. `both`, `only_a`, `only_b` and `neither` are entities and add up to `gold`."""

    name: str
    gold: int
    both: int
    only_a: int
    only_b: int
    wrong_both: int  # wrong spans that the two have in common
    a: Side
    b: Side

    @property
    def neither(self) -> int:
        return self.gold - self.both - self.only_a - self.only_b

    @property
    def error_reduction(self) -> float | None:
        """The share of A's missed entities that B saves; less than 0 where B misses more, None where A misses none."""
        return (self.a.errors - self.b.errors) / self.a.errors if self.a.errors else None

    def as_dict(self) -> dict[str, Any]:
        names = ("name", "gold", "both", "only_a", "only_b", "neither", "wrong_both", "error_reduction")
        return {**{name: getattr(self, name) for name in names}, "a": self.a.as_dict(), "b": self.b.as_dict()}


def make_row(name: str, spans: Sequence[Judged]) -> Row:
    """The counts over these spans."""
    entities = [each for each in spans if each.gold]
    pairs = Counter((each.in_a, each.in_b) for each in entities)
    return Row(
        name=name,
        gold=len(entities),
        both=pairs[True, True],
        only_a=pairs[True, False],
        only_b=pairs[False, True],
        wrong_both=sum(each.in_a and each.in_b for each in spans if not each.gold),
        a=_side(len(entities), [(each.gold, each.a) for each in spans if not each.gold or not each.in_a]),
        b=_side(len(entities), [(each.gold, each.b) for each in spans if not each.gold or not each.in_b]),
    )


def _side(gold: int, errors: Iterable[tuple[bool, str | None]]) -> Side:
    """From (whether it is an entity, the kind of error); a wrong span without a kind is the other model's."""
    counts = Counter(errors)
    missed = {kind: counts[True, kind] for kind in MISSED}
    wrong = {kind: counts[False, kind] for kind in WRONG}
    correct = gold - sum(missed.values())
    return Side(Score(gold, correct + sum(wrong.values()), correct), missed, wrong)


def sign_test(only_a: int, only_b: int) -> float:
    """The exact McNemar test: how probable so uneven a split, or a more uneven one, is when neither model is better."""
    n, fewer = only_a + only_b, min(only_a, only_b)
    ways = total = 1
    for at in range(fewer):
        ways = ways * (n - at) // (at + 1)  # n over (at + 1), in whole numbers
        total += ways
    return min(1.0, 2 * total / (1 << n))
