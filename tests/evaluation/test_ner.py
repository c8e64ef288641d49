"""Strict scores against seqeval on any tags; loose scores against a second implementation of the
original code.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2, IOBES

from hanlattice.evaluation.ner import Report, Score, score, score_tags
from hanlattice.text.span import Span
from hanlattice.text.tags import tag_set

Pairs = list[tuple[str, str]]


def pairs_of(scheme: str) -> st.SearchStrategy[list[Pairs]]:
    """Sentences of (gold, predicted) tags, legal or not; the predicted tag is often the gold one,
    so some are right.
    """
    tag = st.sampled_from(tag_set(["X", "Y"], scheme))
    pair = st.one_of(tag.map(lambda t: (t, t)), st.tuples(tag, tag))
    return st.lists(st.lists(pair, min_size=1, max_size=8), min_size=1, max_size=4)


any_pairs = st.sampled_from(["BIO", "BMES", "BIOES"]).flatmap(
    lambda s: st.tuples(st.just(s), pairs_of(s))
)


def split(pairs: list[Pairs]) -> tuple[list[list[str]], list[list[str]]]:
    return [[g for g, _ in row] for row in pairs], [[p for _, p in row] for row in pairs]


def seqeval(
    gold: list[list[str]], predicted: list[list[str]], scheme: str
) -> dict[str, dict[str, float]]:
    def spelled(rows: list[list[str]]) -> list[list[str]]:
        return [[tag.replace("M-", "I-", 1) for tag in row] for row in rows]

    reader = IOB2 if scheme == "BIO" else IOBES
    result: dict[str, dict[str, float]] = classification_report(
        spelled(gold),
        spelled(predicted),
        mode="strict",
        scheme=reader,
        output_dict=True,
        zero_division=0,
    )
    return result


@settings(max_examples=60)
@given(any_pairs)
def test_strict_equals_seqeval(drawn: tuple[str, list[Pairs]]) -> None:
    scheme, pairs = drawn
    gold, predicted = split(pairs)
    report = score_tags(gold, predicted, scheme)
    if not report.by_type:  # seqeval cannot report on no entity at all
        assert report.overall == Score(0, 0, 0)
        return
    theirs = seqeval(gold, predicted, scheme)
    ours = {"micro avg": report.overall, **report.by_type}
    assert ours.keys() == {name for name in theirs if name not in ("macro avg", "weighted avg")}
    for name, mine in ours.items():
        expected = theirs[name]
        assert mine.gold == expected["support"]
        got = (mine.precision, mine.recall, mine.f1)
        want = (expected["precision"], expected["recall"], expected["f1-score"])
        assert got == pytest.approx(want, rel=0, abs=1e-12)


def counts(gold: str, predicted: str, scheme: str, *, loose: bool) -> tuple[int, int, int]:
    overall = score_tags([gold.split()], [predicted.split()], scheme, loose=loose).overall
    return overall.gold, overall.predicted, overall.correct


LOOSE_CASES = [
    # scheme, gold, predicted, strict (gold, predicted, correct), loose
    ("BMES", "B-X M-X E-X", "B-X M-X E-X", (1, 1, 1), (1, 1, 1)),
    ("BMES", "B-X M-X E-X", "B-X M-X E-Y", (1, 0, 0), (1, 1, 1)),  # the label of B is enough
    ("BMES", "B-X M-X E-X", "B-X O E-X", (1, 0, 0), (1, 1, 1)),  # O and M are passed over
    ("BMES", "B-X M-X E-X", "B-X M-Y E-X", (1, 0, 0), (1, 1, 1)),
    ("BMES", "B-X E-X O", "O E-X O", (1, 0, 0), (1, 0, 0)),  # E alone is nothing
    ("BMES", "B-X E-X S-Y", "B-X M-X S-Y", (2, 1, 1), (2, 2, 2)),  # S closes what is open
    ("BMES", "B-X E-X B-Y E-Y", "B-X M-X B-Y E-Y", (2, 1, 1), (2, 2, 2)),  # so does B
    ("BMES", "S-X O O", "B-X O O", (1, 0, 0), (1, 1, 1)),  # left open: as a single at its start
    ("BMES", "S-X S-Y O", "B-X S-Y O", (2, 1, 1), (2, 2, 1)),  # X[0] and X[0,0] are two
    ("BMES", "S-X B-Y E-Y", "B-X B-Y E-Y", (2, 1, 1), (2, 2, 1)),
    ("BMES", "O O O", "B-X O O", (0, 0, 0), (0, 1, 0)),  # loose is the lower one here
    ("BMES", "B-X E-X E-X", "B-X O E-X", (1, 0, 0), (1, 1, 0)),
    ("BMES", "B-x E-x O", "B-X E-X O", (1, 1, 0), (1, 1, 1)),  # labels are upper-cased
    ("BIOES", "B-X I-X E-X", "B-X I-Y E-Y", (1, 0, 0), (1, 1, 1)),
    ("BIOES", "S-X O", "B-X I-X", (1, 0, 0), (1, 1, 1)),
    ("BIO", "B-X I-X O", "B-X I-X O", (1, 1, 1), (1, 1, 1)),
    ("BIO", "B-X I-X O", "B-X I-X I-Y", (1, 1, 1), (1, 1, 1)),  # I-Y closes and does not open
    ("BIO", "O I-X O", "O I-X O", (0, 0, 0), (0, 0, 0)),
    (
        "BIO",
        "O B-X I-X",
        "O B-X I-Y",
        (1, 1, 0),
        (1, 1, 0),
    ),  # gold runs to the edge, X[1]; the other is X[1,1]
    ("BIO", "O B-X I-X", "O B-X I-X", (1, 1, 1), (1, 1, 1)),
    ("BIO", "B-X I-X I-X", "B-X O O", (1, 1, 0), (1, 1, 0)),
    ("BIO", "O O B-X", "O O B-X", (1, 1, 1), (1, 1, 1)),
    ("BIO", "B-X B-X O", "B-X B-X O", (2, 2, 2), (2, 2, 2)),
    ("BIO", "B-X I-X O", "B-X I-X I-X", (1, 1, 0), (1, 1, 0)),
]


@pytest.mark.parametrize(("scheme", "gold", "predicted", "strict", "loose"), LOOSE_CASES)
def test_strict_and_loose_by_hand(
    scheme: str,
    gold: str,
    predicted: str,
    strict: tuple[int, int, int],
    loose: tuple[int, int, int],
) -> None:
    assert counts(gold, predicted, scheme, loose=False) == strict
    assert counts(gold, predicted, scheme, loose=True) == loose


def written_down(tags: list[str], scheme: str) -> set[str]:
    """The original code's strings for the entities of a sentence, found by what follows each
    beginning.
    """
    entities = set()
    for start, tag in enumerate(tags):
        label = tag[2:]
        if tag[0] == "S":
            entities.add(f"{label}[{start}]")
        if tag[0] != "B":
            continue
        stops = "BES" if scheme != "BIO" else "BIO"
        goes_on = f"I-{label}" if scheme == "BIO" else None
        stop = next(
            (
                at
                for at in range(start + 1, len(tags))
                if tags[at][0] in stops and tags[at] != goes_on
            ),
            None,
        )
        last = "" if stop is None else f",{stop}" if tags[stop][0] == "E" else f",{stop - 1}"
        entities.add(f"{label}[{start}{last}]")
    return entities


@settings(max_examples=80)
@given(any_pairs)
def test_loose_equals_a_second_implementation(drawn: tuple[str, list[Pairs]]) -> None:
    scheme, pairs = drawn
    gold, predicted = split(pairs)
    report = score_tags(gold, predicted, scheme, loose=True)
    rows = [
        (written_down(g, scheme), written_down(p, scheme))
        for g, p in zip(gold, predicted, strict=True)
    ]
    for label, mine in {"": report.overall, **report.by_type}.items():
        mine_only = [
            ({e for e in g if e.startswith(label)}, {e for e in p if e.startswith(label)})
            for g, p in rows
        ]
        wanted = sum(len(g) for g, _ in mine_only)
        found = sum(len(p) for _, p in mine_only)
        assert mine == Score(wanted, found, sum(len(g & p) for g, p in mine_only))


@given(st.sampled_from(["BMES", "BIOES"]).flatmap(lambda s: st.tuples(st.just(s), pairs_of(s))))
def test_loose_compares_tags_with_themselves_as_equal(drawn: tuple[str, list[Pairs]]) -> None:
    scheme, pairs = drawn
    overall = score_tags(split(pairs)[0], split(pairs)[0], scheme, loose=True).overall
    assert overall.gold == overall.predicted == overall.correct


def test_counts_by_type_and_by_group() -> None:
    gold = [[Span(0, 2, "PER.NAM"), Span(3, 4, "PER.NOM")], [Span(0, 1, "LOC.NAM")], []]
    predicted = [
        [Span(0, 2, "PER.NAM", score=0.9), Span(3, 5, "PER.NOM")],
        [],
        [Span(0, 1, "GPE.NAM")],
    ]
    report = score(gold, predicted)
    assert report.overall == Score(gold=3, predicted=3, correct=1)
    assert report.by_type == {
        "GPE.NAM": Score(0, 1, 0),
        "LOC.NAM": Score(1, 0, 0),
        "PER.NAM": Score(1, 1, 1),
        "PER.NOM": Score(1, 1, 0),
    }
    assert report.groups == {"NAM": Score(2, 2, 1), "NOM": Score(1, 1, 0)}
    assert report.by_type["GPE.NAM"].f1 == 0.0


def test_labels_without_a_dot_have_no_groups() -> None:
    assert score([[Span(0, 1, "PER")]], [[Span(0, 1, "PER")]]).groups == {}


def test_the_same_span_twice_counts_once() -> None:
    span = Span(0, 1, "PER")
    assert score([[span]], [[span, span]]).overall == Score(1, 1, 1)


def test_nothing_scores_zero() -> None:
    report = score([], [])
    assert report == Report(Score(0, 0, 0), {}, {})
    assert (report.overall.precision, report.overall.recall, report.overall.f1) == (0.0, 0.0, 0.0)


def test_ratios() -> None:
    mixed = Score(gold=4, predicted=5, correct=3)
    assert (mixed.precision, mixed.recall) == (0.6, 0.75)
    assert mixed.f1 == pytest.approx(2 * 0.6 * 0.75 / (0.6 + 0.75))


def test_a_report_is_json() -> None:
    report = score([[Span(0, 1, "PER.NAM")]], [[]])
    there_and_back = json.loads(json.dumps(report.as_dict()))
    nothing = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "gold": 1, "predicted": 0, "correct": 0}
    assert there_and_back == {
        "overall": nothing,
        "by_type": {"PER.NAM": nothing},
        "groups": {"NAM": nothing},
    }


def test_what_does_not_fit_together_is_named() -> None:
    with pytest.raises(ValueError, match="2 gold sentences cannot be compared with 1 predicted"):
        score([[], []], [[]])
    with pytest.raises(ValueError, match="1 gold sentences cannot be compared with 0 predicted"):
        score_tags([["O"]], [], "BIO")
    with pytest.raises(ValueError, match="sentence 1 has 2 gold tags but 1 predicted tags"):
        score_tags([["O"], ["O", "O"]], [["O"], ["O"]], "BIO")
    with pytest.raises(ValueError, match="'BILOU' is not a scheme"):
        score_tags([["O"]], [["O"]], "BILOU")


def test_loose_entities_end_before_whatever_closes_them() -> None:
    """What E closes ends with it; what another entity closes ends before that one."""
    report = score_tags(
        [["B-X", "M-X", "E-X", "O"]], [["B-X", "O", "O", "S-X"]], "BMES", loose=True
    )
    assert report.overall == Score(1, 2, 1)
    tags = ["B-PER", "I-PER", "O"]
    assert score_tags([tags], [tags], "BIO", loose=True).overall == Score(1, 1, 1)
    assert score_tags([tags], [["B-PER", "O", "O"]], "BIO", loose=True).overall == Score(1, 1, 0)


@pytest.mark.parametrize("tags", [(["O"], ["O", "O"]), (["O", "O"], ["O"])])
def test_sentences_of_other_lengths_are_refused(tags: tuple[list[str], list[str]]) -> None:
    with pytest.raises(ValueError, match=r"sentence 0 has \d gold tags but \d predicted tags"):
        score_tags([tags[0]], [tags[1]], "BIO")


def test_a_ratio_without_a_denominator_is_a_dash() -> None:
    dash = Score(0, 0, 0).cells()[0]
    nothing = Score(1, 1, 0).cells()[0]
    assert dash != nothing
    assert Score(2, 0, 0).cells() == (dash, nothing, nothing)
    assert Score(0, 2, 0).cells() == (nothing, dash, nothing)
