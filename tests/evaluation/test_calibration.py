"""Calibration: figures worked out by hand, and a plain loop over random spans."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanlattice.evaluation.calibration import (
    THRESHOLDS,
    Calibration,
    calibrate,
    draw,
    markdown,
    summary,
    tables,
)
from hanlattice.evaluation.ner import score as score_spans
from hanlattice.text.span import Span


def made(outcomes: list[tuple[float, bool]], missed: int = 0) -> Calibration:
    """Spans side by side with these scores, right or wrong, and `missed` further gold ones that
    were not found.
    """
    gold = [Span(at, at + 1, "X" if right else "Y") for at, (_, right) in enumerate(outcomes)]
    found = [Span(at, at + 1, "X", score) for at, (score, _) in enumerate(outcomes)]
    return calibrate([gold, [Span(at, at + 1, "X") for at in range(missed)]], [found, []])


def test_figures_by_hand():
    """Four spans near 0.9, three of them right; two near 0.3, one of them right; two gold spans are
    missed.
    """
    result = made(
        [(0.9, True), (0.95, True), (0.9, False), (0.97, True), (0.25, False), (0.35, True)], 2
    )
    assert result.count == 6
    assert result.score == pytest.approx((0.9 + 0.95 + 0.9 + 0.97 + 0.25 + 0.35) / 6)
    assert result.share == pytest.approx(4 / 6)
    assert [each.count for each in result.width] == [0, 0, 1, 1, 0, 0, 0, 0, 0, 4]
    last = result.width[-1]
    assert (last.low, last.high, last.score, last.share) == (
        0.9,
        1.0,
        pytest.approx(0.93),
        pytest.approx(0.75),
    )
    assert result.ece == pytest.approx((4 * 0.18 + 0.25 + 0.65) / 6)
    assert result.brier == pytest.approx((0.01 + 0.0025 + 0.81 + 0.0009 + 0.0625 + 0.4225) / 6)
    assert [each.min_score for each in result.thresholds] == list(THRESHOLDS)
    whole, half, *_, sure = result.thresholds
    assert (whole.score.gold, whole.score.predicted, whole.score.correct, whole.coverage) == (
        8,
        6,
        4,
        1.0,
    )
    assert (half.score.predicted, half.score.correct, half.coverage) == (4, 3, pytest.approx(4 / 6))
    assert (sure.score.predicted, sure.score.precision, sure.score.recall, sure.coverage) == (
        0,
        0.0,
        0.0,
        0.0,
    )


def test_borders_belong_to_the_bin_above_and_one_to_the_last():
    result = made([(0.0, False), (0.1, False), (0.3, True), (0.7, True), (1.0, True)])
    assert [at for at, each in enumerate(result.width) if each.count] == [0, 1, 3, 7, 9]


def test_a_label_or_a_border_that_is_wrong_is_wrong():
    gold = [[Span(0, 2, "X"), Span(3, 4, "X")]]
    found = [[Span(0, 2, "Y", 0.8), Span(3, 5, "X", 0.8), Span(0, 2, "X", 0.8)]]
    assert calibrate(gold, found).share == pytest.approx(1 / 3)


def test_probabilities_that_are_true_have_hardly_any_error():
    rng = np.random.default_rng(5)
    scores = rng.random(8_000)
    result = made(list(zip(scores.tolist(), (rng.random(8_000) < scores).tolist(), strict=True)))
    assert result.ece < 0.02
    assert result.ece_mass < 0.02
    assert result.brier == pytest.approx(1 / 6, abs=0.01)  # ∫ p(1 − p) dp
    wrong = made([(score, False) for score in scores.tolist()])
    assert wrong.ece == pytest.approx(0.5, abs=0.01)


@given(
    st.lists(
        st.tuples(st.floats(0, 1) | st.sampled_from([0.1, 0.5, 1.0]), st.booleans()), max_size=40
    )
)
@example([])
def test_a_plain_loop_agrees(outcomes: list[tuple[float, bool]]) -> None:
    result = made(outcomes, 1)
    error = 0.0
    for at, each in enumerate(result.width):
        inside = [
            (s, r) for s, r in outcomes if at / 10 <= s < (at + 1) / 10 or (at == 9 and s == 1.0)
        ]
        assert each.count == len(inside)
        if inside:
            share = sum(r for _, r in inside) / len(inside)
            score = sum(s for s, _ in inside) / len(inside)
            assert (each.score, each.share) == (pytest.approx(score), pytest.approx(share))
            error += len(inside) / len(outcomes) * abs(share - score)
    assert result.ece == pytest.approx(error)
    assert sum(each.count for each in result.mass) == len(outcomes)
    assert (
        max((each.count for each in result.mass), default=0)
        - min((each.count for each in result.mass), default=0)
        <= 1
    )
    assert all(
        left.high <= right.low for left, right in zip(result.mass, result.mass[1:], strict=False)
    )
    assert result.brier == pytest.approx(
        sum((s - r) ** 2 for s, r in outcomes) / max(1, len(outcomes))
    )
    for each in result.thresholds:
        kept = [(s, r) for s, r in outcomes if s >= each.min_score]
        assert each.score.predicted == len(kept)
        assert each.score.correct == sum(r for _, r in kept)
    json.dumps(result.as_dict(), allow_nan=False)


def test_nothing_left_out_is_the_score_that_evaluate_gives():
    gold = [[Span(0, 2, "X"), Span(3, 4, "Y")], [], [Span(1, 2, "X")]]
    found = [[Span(0, 2, "X", 0.4)], [Span(0, 1, "Y", 0.6)], [Span(1, 2, "X", 1.0)]]
    assert calibrate(gold, found).thresholds[0].score == score_spans(gold, found).overall


def test_what_cannot_be_calibrated():
    with pytest.raises(ValueError, match=r"the span \[0, 1\) X has no score"):
        calibrate([[]], [[Span(0, 1, "X")]])
    with pytest.raises(ValueError, match="2 gold sentences cannot be compared with 1"):
        calibrate([[], []], [[]])
    with pytest.raises(ValueError, match="bins must be 1 or more"):
        calibrate([[]], [[]], bins=0)


def test_in_words():
    result = made([(0.9, True), (0.95, False)], 1)
    assert summary(result).startswith(
        "2 spans: mean score 0.9250, 50.00 % right; expected calibration error 0.4250"
    )
    by_label, by_score, _, thresholds = tables(result)
    assert by_label.rows == (("X", "2", "0.9250", "50.00", "0.4250", "0.4562"),)
    assert by_score.rows[-1] == ("0.9 to 1", "2", "0.9250", "50.00")
    assert by_score.rows[0] == ("0 to 0.1", "0", "–", "–")
    assert thresholds.rows[0] == ("0", "50.00", "33.33", "40.00", "2", "100.00")
    assert thresholds.rows[-1] == ("0.99", "–", "0.00", "0.00", "0", "0.00")
    text = markdown({"a|b.bmes": result, "nothing.bmes": made([])}, "a model")
    assert "| 0.9 to 1 | 2 | 0.9250 | 50.00 |" in text
    assert "nothing was found" in text


def test_the_plot_names_every_file(tmp_path):
    files = {"a $x$ <b>": made([(0.9, True), (0.2, False), (1.0, True)]), "nothing": made([])}
    for name in ("one.svg", "two.svg"):
        draw(files, tmp_path / name)
    draw({"nothing": made([])}, tmp_path / "one.png")
    words = [
        element.text for element in ElementTree.parse(tmp_path / "one.svg").iter() if element.text
    ]
    for text in ("a $x$ <b>", "nothing", "share that is right", "spans", "score"):
        assert text in words, words
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
