"""What two models get differently on the same sentences: counts, breakdowns, the sentences, and a
report of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from hanlattice.errors import InputError
from hanlattice.evaluation.ner import Score
from hanlattice.evaluation.report import Table, count, escaped, percent
from hanlattice.evaluation.statistics import (
    LENGTHS,
    LONGER,
    RELABELLED,
    SEEN,
    UNSEEN,
    length_class,
    seen_class,
    seen_labels,
)
from hanlattice.text.display import counted, visible
from hanlattice.text.fork_safety import cached_property
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.normalize import fold
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span

CORRECT = "correct"
NEAR = ("boundary", "label", "boundary and label")
MISSED = (*NEAR, "missed")  # of an entity that was not found
WRONG = (*NEAR, "invented")  # of a span that is no entity

IN = "in the lexicon"
OUT = "not in it"
CROSSED = "a word crosses a border"
FREE = "no word crosses"

TITLES = {
    "type": "By type",
    "group": "By group of types",
    "length": "By length in characters",
    "lexicon": "By whether the entity is a word of the lexicon",
    "borders": "By whether a word of the lexicon lies across a border of the entity",
    "training": "By whether the entity was seen in training",
}


@dataclass(frozen=True, slots=True)
class ComparedSpan:
    """A span of the gold labels or of a model, and what it is to each model.

    An entity is 'correct' or one of `MISSED`; a wrong span is one of `WRONG`, or None for a model
    that lacks it.
    """

    span: Span
    gold: bool
    a: str | None
    b: str | None

    @property
    def in_a(self) -> bool:
        return self.a == CORRECT if self.gold else self.a is not None

    @property
    def in_b(self) -> bool:
        return self.b == CORRECT if self.gold else self.b is not None


@dataclass(frozen=True)
class ComparedSentence:
    """A sentence (`index` counts from 0) with the spans of its labels and of both models, from left
    to right.
    """

    index: int
    text: str
    spans: tuple[ComparedSpan, ...]

    @cached_property
    def differences(self) -> int:
        """How many spans one of the models has and the other has not."""
        return sum(each.in_a != each.in_b for each in self.spans)

    def as_dict(self) -> dict[str, object]:
        """Offsets are code points of `text`, half-open."""
        spans = []
        for each in self.spans:
            start = each.span.start
            end = each.span.end
            label = each.span.label
            spans.append({"start": start, "end": end, "label": label, "text": self.text[start:end]})
            spans[-1] |= {"gold": each.gold, "a": each.a, "b": each.b}
        return {
            "index": self.index,
            "text": self.text,
            "differences": self.differences,
            "spans": spans,
        }


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
class ModelComparison:
    """Two models on one class of spans. `both`, `only_a`, `only_b` and `neither` are entities and
    add up to `gold`.
    """

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
        """The share of A's missed entities that B saves; below 0 if B misses more, None if A misses
        none.
        """
        return (self.a.errors - self.b.errors) / self.a.errors if self.a.errors else None

    def as_dict(self) -> dict[str, Any]:
        names = (
            "name",
            "gold",
            "both",
            "only_a",
            "only_b",
            "neither",
            "wrong_both",
            "error_reduction",
        )
        return {
            **{name: getattr(self, name) for name in names},
            "a": self.a.as_dict(),
            "b": self.b.as_dict(),
        }


@dataclass(frozen=True)
class Coverage:
    """The entities of a part that are words of the lexicon, and the error reduction over all and
    over those.
    """

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
    """`breakdowns` has those for which there are sources, of type, group, length, lexicon, borders
    and training.

    `sentences` are those in which a model made a mistake, most different first; `repeated` is the
    number of all sentences that occur verbatim in the training text, None if that is not known.
    """

    overall: ModelComparison
    p_value: float
    breakdowns: dict[str, tuple[ModelComparison, ...]]
    coverage: tuple[Coverage, ...]  # train, if it is known, and test; empty without a lexicon
    count: int
    repeated: int | None
    sentences: tuple[ComparedSentence, ...]

    @property
    def different(self) -> int:
        """In how many sentences the models differ."""
        return sum(bool(sentence.differences) for sentence in self.sentences)

    def most_different(self, number: int) -> list[ComparedSentence]:
        return [sentence for sentence in self.sentences if sentence.differences][:number]

    def as_dict(self) -> dict[str, Any]:
        """As JSON wants it, with every sentence."""
        return {
            "count": self.count,
            "different": self.different,
            "repeated": self.repeated,
            "p_value": self.p_value,
            "overall": self.overall.as_dict(),
            "breakdowns": {
                name: [row.as_dict() for row in rows] for name, rows in self.breakdowns.items()
            },
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

    A `lexicon` adds breakdowns by whether entities are words of it; the sentences that the models
    were `trained` on add one by whether entities were seen there. Swapping the two models swaps the
    columns.
    """
    if not len(gold) == len(a) == len(b):
        raise ValueError(
            f"{len(gold)} sentences cannot be compared with the spans of {len(a)} and of {len(b)}"
        )
    compared = [
        _compare_sentence(at, *each) for at, each in enumerate(zip(gold, a, b, strict=True))
    ]
    overall = _comparison("all", [each for sentence in compared for each in sentence.spans])
    rows = {
        classes.name: _break_down(compared, classes)
        for classes in _classes(compared, lexicon, trained)
    }
    wrong = [
        s for s in compared if not all(each.gold and each.in_a and each.in_b for each in s.spans)
    ]
    texts = {sentence.text for sentence in trained or ()}
    return Mistakes(
        overall=overall,
        p_value=sign_test(overall.only_a, overall.only_b),
        breakdowns={name: found for name, found in rows.items() if found},
        coverage=()
        if lexicon is None
        else tuple(_coverage(lexicon, trained, overall, rows["lexicon"])),
        count=len(gold),
        repeated=None if trained is None else sum(sentence.text in texts for sentence in gold),
        sentences=tuple(
            sorted(wrong, key=lambda sentence: (-sentence.differences, sentence.index))
        ),
    )


def _compare_sentence(
    index: int, sentence: Sentence, a: Iterable[Span], b: Iterable[Span]
) -> ComparedSentence:
    if sentence.spans is None:
        raise InputError(
            f"sentence {index + 1} has no labels: expected spans, or an empty list of them"
        )
    gold = set(sentence.spans)
    found_a, found_b = (_checked(index, sentence.text, spans) for spans in (a, b))
    spans = [
        ComparedSpan(span, True, _outcome(span, found_a), _outcome(span, found_b)) for span in gold
    ]
    for span in (found_a | found_b) - gold:
        kind = _error_kind(span, gold, "invented")
        spans.append(
            ComparedSpan(
                span, False, kind if span in found_a else None, kind if span in found_b else None
            )
        )
    return ComparedSentence(index, sentence.text, tuple(sorted(spans, key=lambda each: each.span)))


def _checked(index: int, text: str, spans: Iterable[Span]) -> set[Span]:
    """The spans as a set, if they lie in the text and apart from each other, as a Sentence
    requires.
    """
    found = set(spans)
    try:
        Sentence(text, tuple(found))
    except ValueError as error:
        raise ValueError(f"a model's spans of sentence {index + 1}: {error}") from None
    return found


def _outcome(entity: Span, found: set[Span]) -> str:
    return CORRECT if entity in found else _error_kind(entity, found, "missed")


def _error_kind(span: Span, others: Iterable[Span], alone: str) -> str:
    """How near the other side comes to a span that it lacks; `alone` if none of its spans overlaps
    this one.
    """
    near = [other for other in others if other.start < span.end and span.start < other.end]
    if any((other.start, other.end) == (span.start, span.end) for other in near):
        return "label"
    if any(other.label == span.label for other in near):
        return "boundary"
    return "boundary and label" if near else alone


def _comparison(name: str, spans: Sequence[ComparedSpan]) -> ModelComparison:
    entities = [each for each in spans if each.gold]
    pairs = Counter((each.in_a, each.in_b) for each in entities)
    return ModelComparison(
        name=name,
        gold=len(entities),
        both=pairs[True, True],
        only_a=pairs[True, False],
        only_b=pairs[False, True],
        wrong_both=sum(each.in_a and each.in_b for each in spans if not each.gold),
        a=_side(len(entities), Counter((each.gold, each.a) for each in spans)),
        b=_side(len(entities), Counter((each.gold, each.b) for each in spans)),
    )


def _side(gold: int, counts: Counter[tuple[bool, str | None]]) -> Side:
    """From the counts of (whether a span is an entity, what it is to the model)."""
    missed = {kind: counts[True, kind] for kind in MISSED}
    wrong = {kind: counts[False, kind] for kind in WRONG}
    correct = gold - sum(missed.values())
    return Side(Score(gold, correct + sum(wrong.values()), correct), missed, wrong)


def sign_test(only_a: int, only_b: int) -> float:
    """The exact McNemar test: how probable so uneven a split, or a more uneven one, is when neither
    model is better.
    """
    n = only_a + only_b
    fewer = min(only_a, only_b)
    ways = total = 1
    for at in range(fewer):
        ways = ways * (n - at) // (at + 1)  # n over (at + 1), in whole numbers
        total += ways
    return min(1.0, 2 * total / (1 << n))


def _coverage(
    lexicon: Lexicon,
    trained: Sequence[Sentence] | None,
    overall: ModelComparison,
    rows: Iterable[ModelComparison],
) -> Iterator[Coverage]:
    """The analysis of Zhang & Yang (2018): train without models, then the sentences at hand with
    them.
    """
    if trained is not None:
        names = [s.text[span.start : span.end] for s in trained for span in s.spans or ()]
        yield Coverage("train", len(names), sum(name in lexicon for name in names))
    known = next((row for row in rows if row.name == IN), _comparison(IN, ()))
    yield Coverage("test", overall.gold, known.gold, overall.error_reduction, known.error_reduction)


# ---- Classes of spans. A class follows from a span and its text alone, not from who found it: gold
# and found spans are
# classified alike, and precision has a meaning in each class.


class Classes(NamedTuple):
    """`of` gives a span's class, or None if it has none; classes are in this order, or by name."""

    name: str
    of: Callable[[ComparedSentence, Span], str | None]
    order: tuple[str, ...] = ()


def _break_down(
    compared: Iterable[ComparedSentence], classes: Classes
) -> tuple[ModelComparison, ...]:
    """One for each class that any span has."""
    spans: dict[str, list[ComparedSpan]] = defaultdict(list)
    for sentence in compared:
        for each in sentence.spans:
            if (name := classes.of(sentence, each.span)) is not None:
                spans[name].append(each)
    names = [name for name in classes.order if name in spans] or sorted(spans)
    return tuple(_comparison(name, spans[name]) for name in names)


def _classes(
    compared: Sequence[ComparedSentence],
    lexicon: Lexicon | None,
    trained: Sequence[Sentence] | None,
) -> Iterator[Classes]:
    """Every breakdown for which there are sources."""
    yield Classes("type", lambda _, span: span.label)
    # `NAM` of `PER.NAM`: what follows the last dot, as the scorer groups types
    yield Classes(
        "group",
        lambda _, span: span.label.rpartition(".")[2] or None if "." in span.label else None,
    )
    yield Classes(
        "length",
        lambda _, span: length_class(span.end - span.start),
        (*(n for _, n in LENGTHS), LONGER),
    )
    if lexicon is not None:
        words = lexicon
        inside = _crossed_places(lexicon, [sentence.text for sentence in compared])
        yield Classes(
            "lexicon",
            lambda s, span: IN if s.text[span.start : span.end] in words else OUT,
            (IN, OUT),
        )
        yield Classes(
            "borders",
            lambda s, span: FREE if inside[s.index].isdisjoint((span.start, span.end)) else CROSSED,
            (CROSSED, FREE),
        )
    if trained is not None:
        known = seen_labels(trained)
        yield Classes(
            "training", lambda s, span: seen_class(s.text, span, known), (SEEN, RELABELLED, UNSEEN)
        )


def _crossed_places(lexicon: Lexicon, texts: Sequence[str]) -> list[set[int]]:
    """For each text the places between two characters (before the n-th, from 0) that lie inside a
    word of it.
    """
    counts, *arrays = lexicon.match_many([fold(text) for text in texts])
    places: list[set[int]] = [set() for _ in texts]
    text = np.repeat(np.arange(len(texts)), counts).tolist()
    for at, start, end in zip(text, arrays[0].tolist(), arrays[1].tolist(), strict=True):
        places[at].update(range(start + 1, end))
    return places


# ---- The report: lines, tables, sentences with brackets, and all of it as Markdown.


def summary(mistakes: Mistakes) -> Iterator[str]:
    """The lines above the tables."""
    row = mistakes.overall
    yield (
        f"{row.gold:,} {'entity' if row.gold == 1 else 'entities'} in {counted(mistakes.count, 'sentence')}: "
        f"{row.both:,} found by both, {row.only_a:,} only by A, {row.only_b:,} only by B, {row.neither:,} by neither"
    )
    yield (
        f"exact McNemar test, {row.only_a:,} only by A against {row.only_b:,} only by B: p = {mistakes.p_value:.4g}; "
        f"error reduction of B against A: {percent(row.error_reduction)} %"
    )
    if mistakes.repeated is not None:
        yield f"{mistakes.repeated:,} of the {mistakes.count:,} sentences stand in train verbatim"
    yield f"the two differ in {counted(mistakes.different, 'sentence')}"


def tables(mistakes: Mistakes) -> Iterator[Table]:
    """All entities, the kinds of error, the entities in the lexicon, and every breakdown."""
    both = mistakes.overall
    rows = []
    for name, side in (("A", both.a), ("B", both.b)):
        numbers = (
            side.score.correct,
            side.errors,
            side.score.predicted - side.score.correct,
            both.wrong_both,
        )
        rows.append((name, *side.score.cells(), *map(count, numbers)))
    headings: tuple[str, ...] = (
        "model",
        "precision",
        "recall",
        "F1",
        "correct",
        "missed",
        "wrong",
        "wrong in both",
    )
    yield Table("All entities", headings, tuple(rows))
    columns = (both.a.missed, both.b.missed, both.a.wrong, both.b.wrong)
    rows = [
        (kind, *(count(column.get(kind)) for column in columns))
        for kind in (*NEAR, MISSED[-1], WRONG[-1])
    ]
    yield Table(
        "Kinds of error",
        ("kind", "missed by A", "missed by B", "wrong in A", "wrong in B"),
        tuple(rows),
    )
    rows = []
    for each in mistakes.coverage:
        shares = each.share, each.error_reduction, each.error_reduction_known
        rows.append((each.part, count(each.entities), count(each.known), *map(percent, shares)))
    headings = (
        "part",
        "entities",
        "in the lexicon",
        "ratio %",
        "ER %",
        "ER % of those in the lexicon",
    )
    if rows:
        yield Table("Entities in the lexicon", headings, tuple(rows))
    for name, classes in mistakes.breakdowns.items():
        headings = (name, "gold", "A: P", "R", "F1", "B: P", "R", "F1", "only A", "only B", "ER %")
        yield Table(TITLES[name], headings, tuple(map(_breakdown_cells, classes)))


def _breakdown_cells(row: ModelComparison) -> tuple[str, ...]:
    scores = *row.a.score.cells(), *row.b.score.cells()
    return (
        row.name,
        count(row.gold),
        *scores,
        count(row.only_a),
        count(row.only_b),
        percent(row.error_reduction),
    )


class MarkedText(NamedTuple):
    """Some text of a line; `mark` is '' between spans, else 'gold', 'right' or 'wrong'."""

    text: str
    mark: str


def sentence_title(sentence: ComparedSentence) -> str:
    return f"Sentence {sentence.index + 1:,}: {counted(sentence.differences, 'difference')}"


def sentence_lines(sentence: ComparedSentence) -> Iterator[tuple[str, list[MarkedText]]]:
    """(who, the sentence with brackets) for the gold labels, A and B."""
    marked = [(each, "right" if each.gold else "wrong") for each in sentence.spans]
    yield "gold", _pieces(sentence.text, ((each, "gold") for each in sentence.spans if each.gold))
    yield "A", _pieces(sentence.text, ((each, mark) for each, mark in marked if each.in_a))
    yield "B", _pieces(sentence.text, ((each, mark) for each, mark in marked if each.in_b))


def _pieces(text: str, spans: Iterable[tuple[ComparedSpan, str]]) -> list[MarkedText]:
    """A span is `[text/label]`, as `hanlattice tag` writes it; a wrong one has a cross, for places
    without colour.
    """
    pieces = []
    at = 0
    for each, mark in spans:
        start = each.span.start
        end = each.span.end
        cross = " ✗" if mark == "wrong" else ""
        pieces.append(MarkedText(visible(text[at:start]), ""))
        pieces.append(
            MarkedText(f"[{visible(text[start:end])}/{visible(each.span.label)}{cross}]", mark)
        )
        at = end
    return [piece for piece in (*pieces, MarkedText(visible(text[at:]), "")) if piece.text]


def markdown(
    mistakes: Mistakes,
    about: Iterable[tuple[str, str]] = (),
    notes: Iterable[str] = (),
    sentences: int = 20,
) -> str:
    """One document; `about` says what A, B and the files are."""
    lines = ["# What two models get differently", ""]
    lines += [f"- {name}: {escaped(value)}" for name, value in about]
    lines += [f"- note: {escaped(note)}" for note in notes]
    lines += ["", *(f"- {line}" for line in summary(mistakes))]
    for table in tables(mistakes):
        lines += ["", f"## {table.title}", "", *table.markdown()]
    shown = mistakes.most_different(sentences)
    if shown:
        lines += ["", f"## Sentences, {len(shown):,} of {mistakes.different:,}"]
    for sentence in shown:
        block = [
            f"{who:<5}{''.join(piece.text for piece in pieces)}"
            for who, pieces in sentence_lines(sentence)
        ]
        longest = max(map(len, re.findall("`+", "\n".join(block))), default=0)
        fence = "`" * max(
            3, longest + 1
        )  # longer than any run of backticks: nothing inside needs an escape
        lines += ["", f"### {sentence_title(sentence)}", "", fence, *block, fence]
    return "\n".join(lines) + "\n"
