"""Two models against plain loops, against the scorer, and against themselves with A and B
swapped.
"""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.errors import InputError
from hanlattice.evaluation import ner
from hanlattice.lab.mistakes import (
    Mistakes,
    ModelComparison,
    compare,
    markdown,
    sign_test,
    summary,
    tables,
)
from hanlattice.text.display import visible
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.text.span import Span
from tests.helpers import strategies

Case = tuple[list[Sentence], list[tuple[Span, ...]], list[tuple[Span, ...]]]
LETTERS = st.sampled_from("南京市长江大桥Ａa１ \n`")


@st.composite
def cases(draw: st.DrawFn, characters: st.SearchStrategy[str] = LETTERS) -> Case:
    """Sentences, and what two models made of them, which is often the same and often right."""
    gold = draw(st.lists(strategies.sentences(characters), max_size=4))
    found: list[list[tuple[Span, ...]]] = [[], []]
    for sentence in gold:
        some = strategies.spans(len(sentence), strategies.some_labels)
        choices = (sentence.spans or (), draw(some), draw(some))
        for spans in found:
            spans.append(draw(st.sampled_from(choices)))
    return gold, found[0], found[1]


words = st.lists(st.text("南京市长江大桥aA1１", min_size=2, max_size=4), max_size=8).map(Lexicon)
trained = st.lists(strategies.sentences(LETTERS), max_size=5)


def as_json(mistakes: Mistakes) -> dict[str, Any]:
    """Through JSON, which proves that it is plain data."""
    record: dict[str, Any] = json.loads(json.dumps(mistakes.as_dict()))
    return record


@given(cases())
def test_counts_equal_a_plain_loop(case: Case) -> None:
    counts = dict.fromkeys(("gold", "both", "only_a", "only_b", "neither", "wrong_both"), 0)
    for sentence, a, b in zip(*case, strict=True):
        for span in sentence.spans or ():
            counts["gold"] += 1
            counts[
                {(1, 1): "both", (1, 0): "only_a", (0, 1): "only_b", (0, 0): "neither"}[
                    span in a, span in b
                ]
            ] += 1
        for span in a:
            counts["wrong_both"] += span in b and span not in (sentence.spans or ())
    row = compare(*case).overall.as_dict()
    assert {name: row[name] for name in counts} == counts


@given(cases(), words, trained)
def test_every_breakdown_adds_up_and_the_scores_are_the_scorers(
    case: Case, lexicon: Lexicon, train: list[Sentence]
) -> None:
    gold, a, b = case
    mistakes = compare(gold, a, b, lexicon, train)
    for table in tables(mistakes):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.headings)}
    for name, rows in mistakes.breakdowns.items():
        if name != "group":  # not every label is in one
            added = sum(
                (numbers(row) for row in rows), start=np.zeros_like(numbers(mistakes.overall))
            )
            assert (added == numbers(mistakes.overall)).all(), name
    for found, side in ((a, "a"), (b, "b")):
        report = ner.score([sentence.spans or () for sentence in gold], found)
        assert getattr(mistakes.overall, side).score == report.overall
        for name, expected in (("type", report.by_type), ("group", report.groups)):
            rows = {row.name: getattr(row, side).score for row in mistakes.breakdowns.get(name, ())}
            assert {key: score for key, score in rows.items() if score.gold or score.predicted} == {
                key: score for key, score in expected.items() if score.gold or score.predicted
            }


def numbers(row: ModelComparison) -> Any:
    """Everything in a row that can be added."""
    counts = [row.gold, row.both, row.only_a, row.only_b, row.neither, row.wrong_both]
    for side in (row.a, row.b):
        assert side.score.correct == row.both + (row.only_a if side is row.a else row.only_b)
        assert sum(side.missed.values()) == side.errors == row.gold - side.score.correct
        assert sum(side.wrong.values()) == side.score.predicted - side.score.correct
        counts += [side.score.predicted, *side.missed.values(), *side.wrong.values()]
    return np.array(counts)


@settings(max_examples=20)
@given(cases(), words, trained)
def test_swapping_the_models_swaps_the_columns(
    case: Case, lexicon: Lexicon, train: list[Sentence]
) -> None:
    gold, a, b = case
    one = as_json(compare(gold, a, b, lexicon, train))
    other = as_json(compare(gold, b, a, lexicon, train))
    assert swapped(one) == without_reduction(other)
    assert one["p_value"] == other["p_value"]


def swapped(value: Any) -> Any:
    """The same with a for b and b for a, without error reductions, which have A below the line."""
    if isinstance(value, list):
        return [swapped(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = {"a": "b", "b": "a", "only_a": "only_b", "only_b": "only_a"}
    return {
        names.get(key, key): swapped(each) for key, each in value.items() if "reduction" not in key
    }


def without_reduction(value: Any) -> Any:
    return swapped(swapped(value))


@given(cases())
def test_kinds_of_error_against_shared_characters(case: Case) -> None:
    for sentence in compare(*case).sentences:
        gold = [each.span for each in sentence.spans if each.gold]
        found = {
            "a": [each.span for each in sentence.spans if each.in_a],
            "b": [each.span for each in sentence.spans if each.in_b],
        }
        assert sentence.differences == len(set(found["a"]) ^ set(found["b"]))
        for each in sentence.spans:
            for side, spans in found.items():
                kind = getattr(each, side)
                if each.gold:
                    assert kind == (
                        "correct"
                        if each.span in spans
                        else expected_kind(each.span, spans, "missed")
                    )
                else:
                    assert kind == (
                        expected_kind(each.span, gold, "invented") if each.span in spans else None
                    )


def expected_kind(span: Span, others: list[Span], alone: str) -> str:
    """By the sets of characters that spans are."""
    mine = set(range(span.start, span.end))
    theirs = [(set(range(other.start, other.end)), other.label == span.label) for other in others]
    meeting = [(places == mine, same_label) for places, same_label in theirs if places & mine]
    if not meeting:
        return alone
    if any(same_places for same_places, _ in meeting):
        return "label"
    return "boundary" if any(same_label for _, same_label in meeting) else "boundary and label"


@given(cases(), words)
def test_the_words_of_the_lexicon_against_a_search(case: Case, lexicon: Lexicon) -> None:
    gold, a, b = case
    rows = compare(gold, a, b, lexicon).breakdowns
    inside = crossed = 0
    for sentence in gold:
        places = [
            (at, at + len(w))
            for w in lexicon
            for at in range(len(sentence))
            if same(sentence, at, w)
        ]
        for span in sentence.spans or ():
            inside += span_text(sentence, span).strip() in [fold_plainly(word) for word in lexicon]
            crossed += any(
                low < border < high for low, high in places for border in (span.start, span.end)
            )
    assert (
        sum(row.gold for row in rows.get("lexicon", ()) if row.name == "in the lexicon") == inside
    )
    assert (
        sum(row.gold for row in rows.get("borders", ()) if row.name == "a word crosses a border")
        == crossed
    )


def same(sentence: Sentence, at: int, word: str) -> bool:
    return fold_plainly(sentence.text).startswith(fold_plainly(word), at)


def span_text(sentence: Sentence, span: Span) -> str:
    return fold_plainly(sentence.text)[span.start : span.end]


def fold_plainly(text: str) -> str:
    return text.replace("Ａ", "A").replace("１", "1")


@pytest.mark.parametrize("n", range(9))
def test_the_sign_test_against_every_outcome(n: int) -> None:
    outcomes = [sum(each) for each in product((0, 1), repeat=n)]
    for k in range(n + 1):
        as_uneven = sum(abs(2 * heads - n) >= abs(2 * k - n) for heads in outcomes)
        assert (
            sign_test(k, n - k)
            == sign_test(n - k, k)
            == pytest.approx(as_uneven / len(outcomes), abs=1e-15)
        )


def test_the_sign_test_of_many() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(3000, 3000) == 1.0
    assert sign_test(0, 5000) == 0.0  # less than a float can say
    assert 0.0 < sign_test(480, 520) < sign_test(490, 510) < 1.0


TEXT = "王小明去南京市长江大桥"
GOLD = Sentence(TEXT, (Span(0, 3, "PER"), Span(4, 7, "LOC"), Span(7, 11, "LOC")))
A = (Span(0, 2, "PER"), Span(4, 7, "ORG"), Span(9, 11, "ORG"))
B = (Span(0, 3, "PER"), Span(3, 4, "PER"), Span(4, 7, "LOC"))


def test_a_small_case_by_hand() -> None:
    lexicon = Lexicon(["南京", "市长", "长江大桥"])
    train = [Sentence("长江大桥和南京市", (Span(0, 4, "LOC"), Span(5, 8, "ORG")))]
    mistakes = compare([GOLD, Sentence("天气好", ())], [A, ()], [B, ()], lexicon, train)
    row = mistakes.overall
    assert (row.gold, row.both, row.only_a, row.only_b, row.neither) == (3, 0, 0, 2, 1)
    assert row.error_reduction == pytest.approx(2 / 3)
    assert row.a.missed == {"boundary": 1, "label": 1, "boundary and label": 1, "missed": 0}
    assert row.b.missed == {"boundary": 0, "label": 0, "boundary and label": 0, "missed": 1}
    assert row.a.wrong == {"boundary": 1, "label": 1, "boundary and label": 1, "invented": 0}
    assert row.b.wrong == {"boundary": 0, "label": 0, "boundary and label": 0, "invented": 1}
    assert mistakes.p_value == 0.5
    golds = {
        name: {row.name: row.gold for row in rows} for name, rows in mistakes.breakdowns.items()
    }
    assert golds == {
        "type": {"LOC": 2, "ORG": 0, "PER": 1},
        "length": {"1": 0, "2": 0, "3": 2, "4": 1},
        "lexicon": {"in the lexicon": 1, "not in it": 2},
        "borders": {"a word crosses a border": 2, "no word crosses": 1},
        "training": {"seen": 1, "seen with another label": 1, "unseen": 1},
    }
    assert [part.as_dict() for part in mistakes.coverage] == [
        {"part": "train", "entities": 2, "known": 1, "share": 0.5}
        | {"error_reduction": None, "error_reduction_known": None},
        {"part": "test", "entities": 3, "known": 1, "share": pytest.approx(1 / 3)}
        | {"error_reduction": pytest.approx(2 / 3), "error_reduction_known": 0.0},
    ]
    assert (mistakes.count, mistakes.different, mistakes.repeated, len(mistakes.sentences)) == (
        2,
        1,
        0,
        1,
    )


def test_lengths_have_their_classes() -> None:
    text = "字" * 60
    gold = []
    at = 0
    for length in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11):
        gold.append(Span(at, at + length, "X"))
        at += length
    rows = compare([Sentence(text, tuple(gold))], [()], [()]).breakdowns["length"]
    assert [(row.name, row.gold) for row in rows] == [
        *((name, 1) for name in "1234"),
        *((name, 2) for name in ("5–6", "7–9", "10 or more")),
    ]


def test_without_lexicon_and_training_their_breakdowns_are_left_out() -> None:
    mistakes = compare([GOLD], [A], [B])
    assert mistakes.breakdowns.keys() == {"type", "length"}
    assert (mistakes.coverage, mistakes.repeated) == ((), None)


def test_sentences_most_different_first_and_all_with_a_mistake() -> None:
    right = GOLD.spans or ()
    gold = [GOLD, GOLD, GOLD, GOLD]
    mistakes = compare(gold, [right, right, A, A], [right, right[:2], A, B], trained=[GOLD])
    assert [(sentence.index, sentence.differences) for sentence in mistakes.sentences] == [
        (3, 6),
        (1, 1),
        (2, 0),
    ]
    assert (mistakes.different, mistakes.repeated) == (2, 4)
    assert "4 of the 4 sentences stand in train verbatim" in list(summary(mistakes))


def test_nothing_at_all() -> None:
    mistakes = compare([], [], [], Lexicon(["南京"]), [])
    assert (mistakes.overall.gold, mistakes.overall.error_reduction, mistakes.p_value) == (
        0,
        None,
        1.0,
    )
    assert as_json(mistakes)["breakdowns"] == {}
    assert "| A | – | – | – | 0 | 0 | 0 | 0 |" in markdown(mistakes)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(
        ValueError, match="1 sentences cannot be compared with the spans of 1 and of 2"
    ):
        compare([GOLD], [A], [B, B])
    with pytest.raises(InputError, match="sentence 2 has no labels"):
        compare([GOLD, Sentence("天")], [A, ()], [B, ()])
    with pytest.raises(ValueError, match="a model's spans of sentence 1: spans overlap"):
        compare([GOLD], [A], [(Span(0, 3, "X"), Span(2, 4, "X"))])
    with pytest.raises(ValueError, match="ends after the text"):
        compare([GOLD], [(Span(0, 12, "X"),)], [B])
    assert compare([GOLD], [(*B, *B)], [B]).different == 0  # the same span twice is one


@settings(max_examples=20)
@given(cases(strategies.any_character), trained)
def test_any_text_makes_json_and_markdown_that_can_be_written(
    case: Case, train: list[Sentence]
) -> None:
    gold, a, b = case
    mistakes = compare(gold, a, b, Lexicon(["南京"]), train)
    for sentence in as_json(mistakes)["sentences"]:
        for span in sentence["spans"]:
            assert sentence["text"][span["start"] : span["end"]] == span["text"]
    lines = markdown(mistakes, [("file", "a|b")], ["odd\nnote"], sentences=2).split("\n")
    assert (
        "\n".join(lines).encode("utf-8").decode("utf-8").splitlines() == lines[:-1]
    )  # and no other line end in it
    assert sum(line.startswith("### Sentence") for line in lines) == min(2, mistakes.different)
    assert sum(line.startswith(("gold ", "A    ", "B    ")) for line in lines) == 3 * min(
        2, mistakes.different
    )
    for fence in (line for line in lines if re.fullmatch("`{3,}", line)):
        assert lines.count(fence) % 2 == 0


def test_markdown_as_it_is_read() -> None:
    text = markdown(compare([GOLD], [A], [B]), [("A", "runs/a_b")], ["so"], sentences=1)
    assert "- A: runs/a\\_b\n- note: so\n" in text
    assert (
        "| type | gold | A: P | R | F1 | B: P | R | F1 | only A | only B | ER % |\n| --- | ---: |"
        in text
    )
    assert "| LOC | 2 | – | 0.00 | 0.00 | 100.00 | 50.00 | 66.67 | 0 | 1 | 50.00 |" in text
    assert (
        "## Sentences, 1 of 1\n\n### Sentence 1: 6 differences\n\n```\n"
        "gold [王小明/PER]去[南京市/LOC][长江大桥/LOC]\n"
        "A    [王小/PER ✗]明去[南京市/ORG ✗]长江[大桥/ORG ✗]\n"
        "B    [王小明/PER][去/PER ✗][南京市/LOC]长江大桥\n```\n"
    ) in text
    assert "## Sentences" not in markdown(compare([GOLD], [A], [B]), sentences=0)


@given(strategies.any_text)
def test_visible_is_one_line_of_what_can_be_printed(text: str) -> None:
    seen = visible(text)
    assert seen.replace("\u3000", "").isprintable()
    if text.replace("\u3000", "").isprintable():
        assert seen == text
