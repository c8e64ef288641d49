"""What two models get differently, in words: tables, lines and sentences with brackets; all of it as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hanlattice.evaluation.mistakes.comparison import Mistakes
from hanlattice.evaluation.mistakes.judged import MISSED, NEAR, WRONG, Compared, Judged
from hanlattice.evaluation.mistakes.rows import Row, Side
from hanlattice.text.display import counted, visible

TITLES = {
    "type": "By type",
    "group": "By group of types",
    "length": "By length in characters",
    "lexicon": "By whether the entity is a word of the lexicon",
    "borders": "By whether a word of the lexicon lies across a border of the entity",
    "training": "By whether the entity was seen in training",
}
_ROW = ("gold", "A: P", "R", "F1", "B: P", "R", "F1", "only A", "only B", "ER %")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&#~])")


class Table(NamedTuple):
    title: str
    headings: tuple[str, ...]  # the first column is text, the others are numbers
    rows: tuple[tuple[str, ...], ...]


class Piece(NamedTuple):
    """Some text of a line; `mark` is '' between spans, else 'gold', 'right' or 'wrong'."""

    text: str
    mark: str


def tables(mistakes: Mistakes) -> list[Table]:
    """The whole, the kinds of error, the lexicon's share, and every breakdown."""
    made = [_whole(mistakes.overall), _kinds(mistakes.overall)]
    if mistakes.coverage:
        made.append(_coverage(mistakes))
    for name, rows in mistakes.breakdowns.items():
        made.append(Table(TITLES[name], (name, *_ROW), tuple((visible(row.name), *_cells(row)) for row in rows)))
    return made


def summary(mistakes: Mistakes) -> Iterator[str]:
    """What is said in lines beside the tables."""
    row = mistakes.overall
    yield (
        f"{row.gold:,} {'entity' if row.gold == 1 else 'entities'} in {counted(mistakes.count, 'sentence')}: "
        f"{row.both:,} found by both, {row.only_a:,} only by A, {row.only_b:,} only by B, {row.neither:,} by neither"
    )
    yield (
        f"exact McNemar test, {row.only_a:,} only by A against {row.only_b:,} only by B: p = {mistakes.p_value:.4g}; "
        f"error reduction of B against A: {_percent(row.error_reduction)} %"
    )
    if mistakes.repeated is not None:
        yield f"{mistakes.repeated:,} of the {mistakes.count:,} sentences stand in train verbatim"
    yield f"the two differ in {counted(mistakes.different, 'sentence')}"


def _whole(row: Row) -> Table:
    headings = ("model", "precision", "recall", "F1", "correct", "missed", "wrong", "wrong in both")
    rows = [
        (name, *_ratios(side), *(f"{n:,}" for n in (side.score.correct, side.errors, _wrong(side), row.wrong_both)))
        for name, side in (("A", row.a), ("B", row.b))
    ]
    return Table("All entities", headings, tuple(rows))


def _wrong(side: Side) -> int:
    return side.score.predicted - side.score.correct


def _kinds(row: Row) -> Table:
    rows = []
    for kind in (*NEAR, MISSED[-1], WRONG[-1]):
        counts = (row.a.missed.get(kind), row.b.missed.get(kind), row.a.wrong.get(kind), row.b.wrong.get(kind))
        rows.append((kind, *("–" if count is None else f"{count:,}" for count in counts)))
    return Table("Kinds of error", ("kind", "missed by A", "missed by B", "wrong in A", "wrong in B"), tuple(rows))


def _coverage(mistakes: Mistakes) -> Table:
    headings = ("part", "entities", "in the lexicon", "ratio %", "ER %", "ER % of those in the lexicon")
    rows = tuple(
        (
            part.part,
            f"{part.entities:,}",
            f"{part.known:,}",
            *map(_percent, (part.share, part.error_reduction, part.error_reduction_known)),
        )
        for part in mistakes.coverage
    )
    return Table("Entities in the lexicon", headings, rows)


def _cells(row: Row) -> tuple[str, ...]:
    counts = f"{row.only_a:,}", f"{row.only_b:,}"
    return f"{row.gold:,}", *_ratios(row.a), *_ratios(row.b), *counts, _percent(row.error_reduction)


def _ratios(side: Side) -> tuple[str, str, str]:
    """Precision, recall and F1; a dash where nothing was found, or nothing is there to be found."""
    score = side.score
    return (
        _percent(score.precision if score.predicted else None),
        _percent(score.recall if score.gold else None),
        _percent(score.f1 if score.gold or score.predicted else None),
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def sentence_lines(sentence: Compared) -> Iterator[tuple[str, list[Piece]]]:
    """(who, the sentence with brackets) for the gold labels, A and B."""
    yield "gold", _pieces(sentence.text, ((each, "gold") for each in sentence.spans if each.gold))
    yield "A", _pieces(sentence.text, ((each, _mark(each)) for each in sentence.spans if each.in_a))
    yield "B", _pieces(sentence.text, ((each, _mark(each)) for each in sentence.spans if each.in_b))


def sentence_title(sentence: Compared) -> str:
    one = "difference" if sentence.differences == 1 else "differences"
    return f"Sentence {sentence.index + 1:,}: {sentence.differences:,} {one}"


def _mark(each: Judged) -> str:
    return "right" if each.gold else "wrong"


def _pieces(text: str, spans: Iterable[tuple[Judged, str]]) -> list[Piece]:
    """A span is `[text/label]`, as `hanlattice tag` writes it; a wrong one has a cross, which needs no colour."""
    pieces, at = [], 0
    for each, mark in spans:
        start, end = each.span.start, each.span.end
        cross = " ✗" if mark == "wrong" else ""
        pieces.append(Piece(visible(text[at:start]), ""))
        pieces.append(Piece(f"[{visible(text[start:end])}/{visible(each.span.label)}{cross}]", mark))
        at = end
    return [piece for piece in (*pieces, Piece(visible(text[at:]), "")) if piece.text]


def markdown(
    mistakes: Mistakes, about: Sequence[tuple[str, str]] = (), notes: Sequence[str] = (), sentences: int = 20
) -> str:
    """All of it as one document; `about` says what A, B and the files are."""
    lines = ["# What two models get differently", ""]
    lines += [f"- {name}: {escaped(value)}" for name, value in about]
    lines += [f"- note: {escaped(note)}" for note in notes]
    lines += ["", *(f"- {line}" for line in summary(mistakes))]
    for table in tables(mistakes):
        lines += ["", f"## {table.title}", "", *_markdown_rows(table)]
    different = [sentence for sentence in mistakes.sentences if sentence.differences][:sentences]
    if different:
        lines += ["", f"## Sentences, {len(different):,} of {mistakes.different:,}"]
    for sentence in different:
        lines += ["", f"### {sentence_title(sentence)}", "", *_block(sentence)]
    return "\n".join(lines) + "\n"


def _markdown_rows(table: Table) -> Iterator[str]:
    yield _bars(table.headings)
    yield _bars(["---", *["---:"] * (len(table.headings) - 1)])
    for name, *numbers in table.rows:
        yield _bars([escaped(name), *numbers])


def _bars(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _block(sentence: Compared) -> list[str]:
    """A fenced block, in which nothing needs an escape; the fence is longer than any run of backticks in it."""
    lines = [f"{who:<5}{''.join(piece.text for piece in pieces)}" for who, pieces in sentence_lines(sentence)]
    longest = max(map(len, re.findall("`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]


def escaped(text: str) -> str:
    """Text in Markdown, on one line, that means nothing but itself."""
    return _SPECIAL.sub(r"\\\1", visible(text))
