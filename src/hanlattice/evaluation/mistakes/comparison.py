"""`compare`: the gold sentences and what two models found in them, as counts, breakdowns and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hanlattice.evaluation.mistakes.classes import IN, all_classes, break_down
from hanlattice.evaluation.mistakes.judged import Compared, judge
from hanlattice.evaluation.mistakes.rows import Row, make_row, sign_test
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.text.spans import Span


@dataclass(frozen=True)
class Covered:
    """The entities of a part that are words of the lexicon, and the error reduction over all and over those."""

    part: str
    entities: int
    known: int
    error_reduction: float | None = None
    error_reduction_known: float | None = None

    @property
    def share(self) -> float | None:
        return self.known / self.entities if self.entities else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "share": self.share}


@dataclass(frozen=True)
class Mistakes:
    """`breakdowns` has what the sources allowed: type, group, length, lexicon, borders, training.

    `sentences` are those in which a model made a mistake, most different first; `repeated` is the number of all
    sentences that stand in the training text verbatim, None where that is not known.
    """

    overall: Row
    p_value: float
    breakdowns: dict[str, tuple[Row, ...]]
    coverage: tuple[Covered, ...]  # train, if it is known, and test; empty without a lexicon
    count: int
    repeated: int | None
    sentences: tuple[Compared, ...]

    @property
    def different(self) -> int:
        """In how many sentences the models differ."""
        return sum(bool(sentence.differences) for sentence in self.sentences)

    def as_dict(self) -> dict[str, Any]:
        """As JSON wants it, with every sentence."""
        return {
            "count": self.count,
            "different": self.different,
            "repeated": self.repeated,
            "p_value": self.p_value,
            "overall": self.overall.as_dict(),
            "breakdowns": {name: [row.as_dict() for row in rows] for name, rows in self.breakdowns.items()},
            "coverage": [part.as_dict() for part in self.coverage],
            "sentences": [sentence.as_dict() for sentence in self.sentences],
        }


def compare(
    gold: Sequence[Sentence],
    a: Sequence[Iterable[Span]],
    b: Sequence[Iterable[Span]],
    lexicon: Lexicon | None = None,
    trained: Sequence[Sentence] | None = None,
) -> Mistakes:
    """What the models A and B, given by their spans sentence by sentence, get differently.

    With a `lexicon`, entities are told apart by whether they are words of it; with the sentences that the models were
    trained on, by whether they were seen there.
    """
    if not len(gold) == len(a) == len(b):
        raise ValueError(f"{len(gold)} sentences cannot be compared with the spans of {len(a)} and of {len(b)}")
    compared = [judge(at, *each) for at, each in enumerate(zip(gold, a, b, strict=True))]
    overall = make_row("all", [each for sentence in compared for each in sentence.spans])
    rows = {classes.name: break_down(compared, classes) for classes in all_classes(compared, lexicon, trained)}
    wrong = [sentence for sentence in compared if sentence.mistakes]
    return Mistakes(
        overall=overall,
        p_value=sign_test(overall.only_a, overall.only_b),
        breakdowns={name: found for name, found in rows.items() if found},
        coverage=() if lexicon is None else tuple(_coverage(lexicon, trained, overall, rows["lexicon"])),
        count=len(gold),
        repeated=None if trained is None else _repeated(gold, trained),
        sentences=tuple(sorted(wrong, key=lambda sentence: (-sentence.differences, sentence.index))),
    )


def _coverage(
    lexicon: Lexicon, trained: Sequence[Sentence] | None, overall: Row, rows: Iterable[Row]
) -> Iterable[Covered]:
    """The analysis of Zhang & Yang (2018): train without models, then the sentences at hand with them."""
    if trained is not None:
        names = [s.text[span.start : span.end] for s in trained for span in s.spans or ()]
        yield Covered("train", len(names), sum(name in lexicon for name in names))
    known = next((row for row in rows if row.name == IN), make_row(IN, ()))
    yield Covered("test", overall.gold, known.gold, overall.error_reduction, known.error_reduction)


def _repeated(gold: Iterable[Sentence], trained: Iterable[Sentence]) -> int:
    texts = {sentence.text for sentence in trained}
    return sum(sentence.text in texts for sentence in gold)
