"""What two models get differently on the same sentences: counts, breakdowns, and a report."""

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
# Kinds of entities that were not found, and of spans that are no entity.
MISSED = (*NEAR, "missed")
WRONG = (*NEAR, "invented")

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
    """A span of the gold labels or of a model, and its kind for each model.

    An entity is 'correct' or one of `MISSED`. A wrong span is one of `WRONG`, or None for a model
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
    """A sentence (`index` from 0) with the spans of its labels and of both models, in order."""

    index: int
    text: str
    spans: tuple[ComparedSpan, ...]

    @cached_property
    def differences(self) -> int:
        """Return how many spans one of the models has and the other has not."""
        return sum(span.in_a != span.in_b for span in self.spans)

    def as_dict(self) -> dict[str, object]:
        """Return plain values; offsets are code points of `text`, half-open."""
        spans: list[dict[str, Any]] = []
        for compared in self.spans:
            start, end, label = compared.span.start, compared.span.end, compared.span.label
            spans.append({"start": start, "end": end, "label": label, "text": self.text[start:end]})
            spans[-1] |= {"gold": compared.gold, "a": compared.a, "b": compared.b}
        record = {"index": self.index, "text": self.text, "differences": self.differences}
        return {**record, "spans": spans}


@dataclass(frozen=True)
class Side:
    """One model: its score, and its mistakes by kind."""

    score: Score
    missed: dict[str, int]
    wrong: dict[str, int]

    @property
    def errors(self) -> int:
        """Return how many entities it did not find."""
        return self.score.gold - self.score.correct

    def as_dict(self) -> dict[str, Any]:
        return {**self.score.as_dict(), "missed": self.missed, "wrong": self.wrong}


@dataclass(frozen=True)
class ModelComparison:
    """Two models on one class of spans.

    `both`, `only_a`, `only_b` and `neither` count entities and add up to `gold`;
    `wrong_both` counts the wrong spans that the two have in common.
    """

    name: str
    gold: int
    both: int
    only_a: int
    only_b: int
    wrong_both: int
    a: Side
    b: Side

    @property
    def neither(self) -> int:
        return self.gold - self.both - self.only_a - self.only_b

    @property
    def error_reduction(self) -> float | None:
        """Return the share of A's missed entities that B saves, below 0 if B misses more.

        It is None if A misses none.
        """
        return (self.a.errors - self.b.errors) / self.a.errors if self.a.errors else None

    def as_dict(self) -> dict[str, Any]:
        counts = ("name", "gold", "both", "only_a", "only_b", "neither", "wrong_both")
        names = (*counts, "error_reduction")
        sides = {"a": self.a.as_dict(), "b": self.b.as_dict()}
        return {name: getattr(self, name) for name in names} | sides


@dataclass(frozen=True)
class Coverage:
    """The entities of a part that the lexicon has, and the error reduction over all and these."""

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
    """The whole comparison of two models.

    `breakdowns` has the classes for which there are sources: type, group, length, lexicon, borders,
    training. `coverage` has train, if it is known, and test; it is empty without a lexicon. The
    most different one of `sentences`, which all have a mistake, is first. `repeated` counts all
    sentences that occur verbatim in the training text, None if that is not known.
    """

    overall: ModelComparison
    p_value: float
    breakdowns: dict[str, tuple[ModelComparison, ...]]
    coverage: tuple[Coverage, ...]
    count: int
    repeated: int | None
    sentences: tuple[ComparedSentence, ...]

    @property
    def different(self) -> int:
        """Return in how many sentences the models differ."""
        return sum(bool(sentence.differences) for sentence in self.sentences)

    def most_different(self, number: int) -> list[ComparedSentence]:
        return [sentence for sentence in self.sentences if sentence.differences][:number]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with every sentence."""
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
    """Compare the spans of two models; swapping the models swaps the columns.

    Args:
        gold: the sentences with their gold spans.
        a: the spans of model A, sentence by sentence.
        b: the spans of model B.
        lexicon: adds breakdowns by whether entities are words of it.
        trained: the training sentences; adds a breakdown by whether entities were seen there.
    """
    if not len(gold) == len(a) == len(b):
        spans = f"the spans of {len(a)} and of {len(b)}"
        raise ValueError(f"{len(gold)} sentences cannot be compared with {spans}")
    compared = [_compare_sentence(n, *row) for n, row in enumerate(zip(gold, a, b, strict=True))]
    overall = _comparison("all", [span for sentence in compared for span in sentence.spans])
    breakdowns = {}
    for classes in _classes(compared, lexicon, trained):
        by_class: dict[str, list[ComparedSpan]] = defaultdict(list)
        for sentence in compared:
            for span in sentence.spans:
                if (name := classes.of(sentence, span.span)) is not None:
                    by_class[name].append(span)
        names = [name for name in classes.order if name in by_class] or sorted(by_class)
        breakdowns[classes.name] = tuple(_comparison(name, by_class[name]) for name in names)
    coverage = []
    if lexicon is not None:
        # The analysis of Zhang & Yang (2018): train without models, then the sentences with them.
        if trained is not None:
            words = [s.text[span.start : span.end] for s in trained for span in s.spans or ()]
            coverage.append(Coverage("train", len(words), sum(word in lexicon for word in words)))
        rows = breakdowns["lexicon"]
        known = next((row for row in rows if row.name == IN), _comparison(IN, ()))
        reductions = (overall.error_reduction, known.error_reduction)
        coverage.append(Coverage("test", overall.gold, known.gold, *reductions))
    wrong = [
        sentence
        for sentence in compared
        if not all(span.gold and span.in_a and span.in_b for span in sentence.spans)
    ]
    texts = {sentence.text for sentence in trained or ()}
    return Mistakes(
        overall=overall,
        p_value=sign_test(overall.only_a, overall.only_b),
        breakdowns={name: rows for name, rows in breakdowns.items() if rows},
        coverage=tuple(coverage),
        count=len(gold),
        repeated=None if trained is None else sum(sentence.text in texts for sentence in gold),
        sentences=tuple(sorted(wrong, key=lambda row: (-row.differences, row.index))),
    )


def _compare_sentence(
    index: int, sentence: Sentence, a: Iterable[Span], b: Iterable[Span]
) -> ComparedSentence:
    number = f"sentence {index + 1}"
    if sentence.spans is None:
        raise InputError(f"{number} has no labels: expected spans, or an empty list of them")
    gold = set(sentence.spans)
    found_a, found_b = set(a), set(b)
    for found in (found_a, found_b):
        # A Sentence raises for spans that overlap or lie outside of the text.
        try:
            Sentence(sentence.text, tuple(found))
        except ValueError as error:
            raise ValueError(f"a model's spans of {number}: {error}") from None
    spans = []
    for span in gold:
        kinds = (
            CORRECT if span in found else _error_kind(span, found, "missed")
            for found in (found_a, found_b)
        )
        spans.append(ComparedSpan(span, True, *kinds))
    for span in (found_a | found_b) - gold:
        kind = _error_kind(span, gold, "invented")
        wrong = (kind if span in found else None for found in (found_a, found_b))
        spans.append(ComparedSpan(span, False, *wrong))
    spans.sort(key=lambda compared: compared.span)
    return ComparedSentence(index, sentence.text, tuple(spans))


def _error_kind(span: Span, others: Iterable[Span], alone: str) -> str:
    """Return how near the other side comes to a span that it lacks; `alone` without an overlap."""
    near = [other for other in others if other.start < span.end and span.start < other.end]
    if any((other.start, other.end) == (span.start, span.end) for other in near):
        return "label"
    if any(other.label == span.label for other in near):
        return "boundary"
    return "boundary and label" if near else alone


def _comparison(name: str, spans: Sequence[ComparedSpan]) -> ModelComparison:
    entities = [span for span in spans if span.gold]
    pairs = Counter((span.in_a, span.in_b) for span in entities)
    return ModelComparison(
        name=name,
        gold=len(entities),
        both=pairs[True, True],
        only_a=pairs[True, False],
        only_b=pairs[False, True],
        wrong_both=sum(span.in_a and span.in_b for span in spans if not span.gold),
        a=_side(len(entities), Counter((span.gold, span.a) for span in spans)),
        b=_side(len(entities), Counter((span.gold, span.b) for span in spans)),
    )


def _side(gold: int, counts: Counter[tuple[bool, str | None]]) -> Side:
    """Count the mistakes of a model from its counts of (is the span an entity, its kind)."""
    missed = {kind: counts[True, kind] for kind in MISSED}
    wrong = {kind: counts[False, kind] for kind in WRONG}
    correct = gold - sum(missed.values())
    return Side(Score(gold, correct + sum(wrong.values()), correct), missed, wrong)


def sign_test(only_a: int, only_b: int) -> float:
    """Return p of the exact McNemar test: so uneven a split, or a more uneven one, by chance."""
    n = only_a + only_b
    fewer = min(only_a, only_b)
    ways = total = 1
    for k in range(fewer):
        # n over (k + 1), in whole numbers.
        ways = ways * (n - k) // (k + 1)
        total += ways
    return min(1.0, 2 * total / (1 << n))


# ---- Classes of spans
#
# A class follows from a span and its text alone, not from who found it. So gold and found spans are
# classified alike, and precision has a meaning in each class.


class Classes(NamedTuple):
    """A way to classify spans.

    `of` returns a span's class, or None if it has none. Classes come in this order, or by name.
    """

    name: str
    of: Callable[[ComparedSentence, Span], str | None]
    order: tuple[str, ...] = ()


def _classes(
    compared: Sequence[ComparedSentence],
    lexicon: Lexicon | None,
    trained: Sequence[Sentence] | None,
) -> Iterator[Classes]:
    """Yield every breakdown for which there are sources."""

    def group(_: ComparedSentence, span: Span) -> str | None:
        # `NAM` of `PER.NAM`: what follows the last dot, as the scorer groups types.
        return span.label.rpartition(".")[2] or None if "." in span.label else None

    yield Classes("type", lambda _, span: span.label)
    yield Classes("group", group)
    lengths = (*(name for _, name in LENGTHS), LONGER)
    yield Classes("length", lambda _, span: length_class(span.end - span.start), lengths)
    if lexicon is not None:
        words = lexicon
        # For each text the places between two characters that lie inside a word of it.
        inside: list[set[int]] = [set() for _ in compared]
        counts, starts, ends, _ = lexicon.match_many([fold(row.text) for row in compared])
        texts = np.repeat(np.arange(len(compared)), counts)
        columns = (array.tolist() for array in (texts, starts, ends))
        for text, start, end in zip(*columns, strict=True):
            inside[text].update(range(start + 1, end))

        def is_word(sentence: ComparedSentence, span: Span) -> str:
            return IN if sentence.text[span.start : span.end] in words else OUT

        def crossing(sentence: ComparedSentence, span: Span) -> str:
            is_free = inside[sentence.index].isdisjoint((span.start, span.end))
            return FREE if is_free else CROSSED

        yield Classes("lexicon", is_word, (IN, OUT))
        yield Classes("borders", crossing, (CROSSED, FREE))
    if trained is not None:
        known = seen_labels(trained)
        order = (SEEN, RELABELLED, UNSEEN)
        yield Classes("training", lambda row, span: seen_class(row.text, span, known), order)


# ---- The report: lines, tables, sentences with brackets, and all of it as Markdown


def summary(mistakes: Mistakes) -> Iterator[str]:
    """Yield the lines above the tables."""
    row = mistakes.overall
    entities = f"{row.gold:,} {'entity' if row.gold == 1 else 'entities'}"
    yield (
        f"{entities} in {counted(mistakes.count, 'sentence')}: {row.both:,} found by both, "
        f"{row.only_a:,} only by A, {row.only_b:,} only by B, {row.neither:,} by neither"
    )
    yield (
        f"exact McNemar test, {row.only_a:,} only by A against {row.only_b:,} only by B: "
        f"p = {mistakes.p_value:.4g}; "
        f"error reduction of B against A: {percent(row.error_reduction)} %"
    )
    if mistakes.repeated is not None:
        yield f"{mistakes.repeated:,} of the {mistakes.count:,} sentences stand in train verbatim"
    yield f"the two differ in {counted(mistakes.different, 'sentence')}"


def tables(mistakes: Mistakes) -> Iterator[Table]:
    """Yield all entities, the kinds of error, the entities in the lexicon, every breakdown."""
    both = mistakes.overall
    rows = []
    for name, side in (("A", both.a), ("B", both.b)):
        wrong = side.score.predicted - side.score.correct
        numbers = (side.score.correct, side.errors, wrong, both.wrong_both)
        rows.append((name, *side.score.cells(), *map(count, numbers)))
    headings: tuple[str, ...] = ("model", "precision", "recall", "F1")
    headings = (*headings, "correct", "missed", "wrong", "wrong in both")
    yield Table("All entities", headings, tuple(rows))
    columns = (both.a.missed, both.b.missed, both.a.wrong, both.b.wrong)
    kinds = (*NEAR, MISSED[-1], WRONG[-1])
    rows = [(kind, *(count(column.get(kind)) for column in columns)) for kind in kinds]
    headings = ("kind", "missed by A", "missed by B", "wrong in A", "wrong in B")
    yield Table("Kinds of error", headings, tuple(rows))
    rows = []
    for part in mistakes.coverage:
        shares = part.share, part.error_reduction, part.error_reduction_known
        rows.append((part.part, count(part.entities), count(part.known), *map(percent, shares)))
    if rows:
        headings = ("part", "entities", "in the lexicon", "ratio %", "ER %")
        headings = (*headings, "ER % of those in the lexicon")
        yield Table("Entities in the lexicon", headings, tuple(rows))
    for name, classes in mistakes.breakdowns.items():
        headings = (name, "gold", "A: P", "R", "F1", "B: P", "R", "F1", "only A", "only B", "ER %")
        rows = []
        for row in classes:
            scores = (*row.a.score.cells(), *row.b.score.cells())
            only = (count(row.only_a), count(row.only_b), percent(row.error_reduction))
            rows.append((row.name, count(row.gold), *scores, *only))
        yield Table(TITLES[name], headings, tuple(rows))


class MarkedText(NamedTuple):
    """A part of a line; `mark` is '' between spans, else 'gold', 'right' or 'wrong'."""

    text: str
    mark: str


def sentence_title(sentence: ComparedSentence) -> str:
    return f"Sentence {sentence.index + 1:,}: {counted(sentence.differences, 'difference')}"


def sentence_lines(sentence: ComparedSentence) -> Iterator[tuple[str, list[MarkedText]]]:
    """Yield (who, the sentence with brackets) for the gold labels, A and B."""
    marked = [(span, "right" if span.gold else "wrong") for span in sentence.spans]
    yield "gold", _pieces(sentence.text, ((span, "gold") for span in sentence.spans if span.gold))
    yield "A", _pieces(sentence.text, ((span, mark) for span, mark in marked if span.in_a))
    yield "B", _pieces(sentence.text, ((span, mark) for span, mark in marked if span.in_b))


def _pieces(text: str, spans: Iterable[tuple[ComparedSpan, str]]) -> list[MarkedText]:
    """Write a span as `[text/label]`, like `hanlattice tag`."""
    pieces = []
    last = 0
    for compared, mark in spans:
        start, end = compared.span.start, compared.span.end
        # For places without colour.
        cross = " ✗" if mark == "wrong" else ""
        label = visible(compared.span.label)
        pieces.append(MarkedText(visible(text[last:start]), ""))
        pieces.append(MarkedText(f"[{visible(text[start:end])}/{label}{cross}]", mark))
        last = end
    return [piece for piece in (*pieces, MarkedText(visible(text[last:]), "")) if piece.text]


def markdown(
    mistakes: Mistakes,
    about: Iterable[tuple[str, str]] = (),
    notes: Iterable[str] = (),
    sentences: int = 20,
) -> str:
    """Return one document; `about` says what A, B and the files are."""
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
        # Longer than any run of backticks inside, so nothing there needs an escape.
        fence = "`" * max(3, longest + 1)
        lines += ["", f"### {sentence_title(sentence)}", "", fence, *block, fence]
    return "\n".join(lines) + "\n"
