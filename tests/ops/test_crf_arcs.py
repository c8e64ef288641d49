"""Arcs in the CRF: all that it says of a chain with arcs is what all paths through it say, written
down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice.ops import crf, library
from hanlattice.ops.crf import Arcs, CRFScores, TaggedSpans, native, plain
from hanlattice.ops.crf.values import FORBIDDEN
from tests.helpers.levels import at_level

IMPOSSIBLE = FORBIDDEN * 1e6
BACKENDS = [plain, *([native] if library.loaded().library is not None else [])]


class Case(NamedTuple):
    emissions: np.ndarray
    lengths: np.ndarray
    scores: CRFScores
    arcs: Arcs


def make_case(seed: int, B: int, T: int, K: int, A: int, impossible: bool = False) -> Case:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, T + 1, B)
    scores = CRFScores(rng.normal(size=K), rng.normal(size=(K, K)), rng.normal(size=K))
    emissions = 3 * rng.normal(size=(B, T, K))
    if impossible:
        emissions[:, :, 0] = IMPOSSIBLE
        emissions[:, rng.random(T) < 0.4] = IMPOSSIBLE
    sentence = rng.integers(0, B, A)
    start = (rng.random(A) * lengths[sentence]).astype(np.int64)
    end = start + 1 + (rng.random(A) * (lengths[sentence] - start)).astype(np.int64)
    first, last = rng.integers(0, K, (2, A))
    return Case(
        emissions, lengths, scores, Arcs(sentence, start, end, first, last, 5 * rng.normal(size=A))
    )


Path = tuple[int, ...]


def paths(case: Case, b: int) -> dict[Path, float]:
    """The score of each way through sentence b: a tag for each character, −1 − a in arc a."""
    emissions, lengths, scores, arcs = case
    K = len(scores.start)
    length = int(lengths[b])

    def onward(t: int, last: int | None) -> Iterator[tuple[Path, float]]:
        if t == length:
            assert last is not None
            yield (), float(scores.end[last])
            return
        step = scores.start if last is None else scores.transitions[last]
        for tag in range(K):
            for path, score in onward(t + 1, tag):
                yield (tag, *path), score + step[tag] + emissions[b, t, tag]
        for a in np.flatnonzero((arcs.sentence == b) & (arcs.start == t)).tolist():
            end = int(arcs.end[a])
            for path, score in onward(end, int(arcs.last[a])):
                yield (*[-1 - a] * (end - t), *path), score + step[arcs.first[a]] + arcs.score[a]

    return dict(onward(0, None))


def probabilities(found: dict[Path, float]) -> dict[Path, float]:
    top = max(found.values())
    weights = {path: math.exp(score - top) for path, score in found.items()}
    return {path: weight / sum(weights.values()) for path, weight in weights.items()}


cases = st.builds(
    make_case,
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(0, 7),
    st.booleans(),
)


@pytest.mark.parametrize("op", BACKENDS)
@settings(deadline=None)
@given(case=cases, n=st.integers(1, 5))
def test_the_best_paths_are_those_of_all(op: ModuleType, case: Case, n: int) -> None:
    emissions, lengths, scores, arcs = case
    best, score = op.viterbi(emissions, lengths, scores, arcs=arcs)
    several, several_scores = op.nbest(emissions, lengths, scores, n, arcs=arcs)
    for b, length in enumerate(lengths.tolist()):
        every = paths(case, b)
        ranked = sorted(every.values(), reverse=True)[:n]
        assert every[tuple(best[b, :length].tolist())] == pytest.approx(
            score[b], rel=1e-12, abs=1e-9
        )
        assert score[b] == pytest.approx(ranked[0], rel=1e-12, abs=1e-9)
        assert not best[b, length:].any()
        assert several_scores[b, : len(ranked)] == pytest.approx(ranked, rel=1e-12, abs=1e-9)
        assert (several_scores[b, len(ranked) :] == -np.inf).all()
        ways = [tuple(row[:length].tolist()) for row in several[b, : len(ranked)]]
        assert len(set(ways)) == len(ways)
        assert [every[way] for way in ways] == pytest.approx(ranked, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("op", BACKENDS)
@settings(deadline=None)
@given(case=cases)
def test_sums_and_probabilities_are_those_of_all_paths(op: ModuleType, case: Case) -> None:
    emissions, lengths, scores, arcs = case
    found = op.arc_marginals(emissions, lengths, scores, arcs)
    for b, length in enumerate(lengths.tolist()):
        every = paths(case, b)
        top = max(every.values())
        if top < IMPOSSIBLE / 2:  # nothing is possible, so nothing is exact
            continue
        whole = top + math.log(sum(math.exp(score - top) for score in every.values()))
        assert found.log_partition[b] == pytest.approx(whole, abs=1e-9)
        chances = probabilities(every)
        for a in np.flatnonzero(arcs.sentence == b).tolist():
            wanted = sum(p for path, p in chances.items() if path[arcs.start[a]] == -1 - a)
            assert math.exp(found.arcs[a]) == pytest.approx(wanted, abs=1e-9)
        for t in range(length):
            for tag in range(emissions.shape[2]):
                wanted = sum(p for path, p in chances.items() if stands(arcs, path[t], t, tag))
                assert found.tags[b, t, tag] == pytest.approx(wanted, abs=1e-9)
        assert not found.tags[b, length:].any()


def stands(arcs: Arcs, place: int, t: int, tag: int) -> bool:
    """Whether a path has this tag at t, or an arc that ends there with it."""
    if place >= 0:
        return place == tag
    return bool(arcs.end[-1 - place] == t + 1 and arcs.last[-1 - place] == tag)


@pytest.mark.parametrize("op", BACKENDS)
@settings(deadline=None)
@given(case=cases, data=st.data())
def test_spans_of_the_chain_are_those_of_all_paths(
    op: ModuleType, case: Case, data: st.DataObject
) -> None:
    emissions, lengths, scores, arcs = case
    K = emissions.shape[2]
    b = data.draw(st.integers(0, len(lengths) - 1))
    start = data.draw(st.integers(0, int(lengths[b]) - 1))
    end = data.draw(st.integers(start + 1, int(lengths[b])))
    tags = data.draw(st.lists(st.integers(0, K - 1), min_size=end - start, max_size=end - start))
    blocked = np.array([data.draw(st.lists(st.booleans(), min_size=K, max_size=K))])
    spans = TaggedSpans(
        *(np.array([value]) for value in (b, start, end)), np.array([tags]), blocked
    )
    answer = op.span_log_probability(emissions, lengths, scores, spans, arcs=arcs)
    every = paths(case, b)
    if max(every.values()) < IMPOSSIBLE / 2:
        return

    def counts(path: Path) -> bool:
        if not stands(arcs, path[start], start, tags[0]) or list(path[start + 1 : end]) != tags[1:]:
            return False
        if end == len(path):
            return True
        follows = path[end] if path[end] >= 0 else arcs.first[-1 - path[end]]
        return not blocked[0, follows]

    wanted = sum(p for path, p in probabilities(every).items() if counts(path))
    assert math.exp(min(answer[0], 0.0)) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("op", BACKENDS)
@pytest.mark.parametrize("tag", [0, 1, 2])
def test_a_span_of_the_last_character_is_as_probable_as_its_tag(op: ModuleType, tag: int) -> None:
    """At the text's edge the end score counts instead of a transition."""
    emissions, lengths, scores, _ = make_case(3, 4, 6, 3, 0)
    sentences = np.arange(4)
    tags = np.full((4, 1), tag)
    spans = TaggedSpans(sentences, lengths - 1, lengths, tags, np.zeros((4, 3), dtype=bool))
    found = np.exp(op.span_log_probability(emissions, lengths, scores, spans))
    wanted = op.marginals(emissions, lengths, scores)[sentences, lengths - 1, tag]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.skipif(native not in BACKENDS, reason=f"no C library: {library.missing()}")
@pytest.mark.parametrize("level", library.possible_levels())
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 2e-3)])
@pytest.mark.parametrize(("K", "A"), [(1, 3), (13, 40), (16, 0), (21, 300)])
def test_every_instruction_set_gives_what_numpy_gives(
    level: str, dtype: type, tolerance: float, K: int, A: int
) -> None:
    exact = make_case(K, 9, 40, K, A)
    emissions = exact.emissions.astype(dtype)
    lengths = exact.lengths
    scores = CRFScores(*(part.astype(dtype) for part in exact.scores))
    wanted = plain.arc_marginals(exact.emissions, lengths, exact.scores, exact.arcs)
    with at_level(level):
        found = native.arc_marginals(emissions, lengths, scores, exact.arcs)
        tags, score = native.viterbi(emissions, lengths, scores, arcs=exact.arcs)
        several = native.nbest(emissions, lengths, scores, 3, arcs=exact.arcs)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    if dtype is np.float64:
        in_numpy = plain.nbest(emissions, lengths, scores, 3, arcs=exact.arcs)
        np.testing.assert_array_equal(several[0], in_numpy[0])
        np.testing.assert_allclose(several[1], in_numpy[1], rtol=1e-12)
    np.testing.assert_array_equal(tags, several[0][:, 0])
    np.testing.assert_allclose(score, several[1][:, 0], rtol=1e-6)


@pytest.mark.parametrize("op", BACKENDS)
def test_of_equals_the_chain_comes_first_and_then_the_first_arc(op: ModuleType) -> None:
    zeros = CRFScores(np.zeros(2), np.zeros((2, 2)), np.zeros(2))
    arcs = Arcs(
        *(np.array(column) for column in ([0, 0], [0, 0], [2, 2], [1, 1], [0, 0])), np.zeros(2)
    )
    given = np.zeros((1, 3, 2)), np.array([3]), zeros
    tags, _ = op.nbest(*given, 12, arcs=arcs)
    plain_paths = [[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    with_arcs = [[-1 - a, -1 - a, c] for a in (0, 1) for c in (0, 1)]
    assert tags[0].tolist() == plain_paths + with_arcs
    assert op.viterbi(*given, arcs=arcs)[0].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("op", BACKENDS)
@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"sentence": 1}, IndexError, "sentences from 0 to 0"),
        ({"sentence": -1}, IndexError, "sentences from 0 to 0"),
        ({"start": -1}, IndexError, "in its sentence"),
        ({"end": 4}, IndexError, "in its sentence"),
        ({"end": 1}, IndexError, "hold a character"),
        ({"first": 2}, IndexError, "from 0 to 1"),
        ({"last": -1}, IndexError, "from 0 to 1"),
        ({"score": math.nan}, ValueError, "finite"),
        ({"score": -math.inf}, ValueError, "finite"),
    ],
)
def test_arcs_that_would_lead_outside_are_refused(
    op: ModuleType, changes: dict[str, float], error: type[Exception], says: str
) -> None:
    emissions, lengths, scores, _ = make_case(1, 1, 3, 2, 0)
    lengths = np.array([3])
    good = {"sentence": 0, "start": 1, "end": 2, "first": 0, "last": 1, "score": 0.5}
    arcs = Arcs(*(np.array([value]) for value in (good | changes).values()))
    with pytest.raises(error, match=says):
        op.viterbi(emissions, lengths, scores, arcs=arcs)
    with pytest.raises(error, match=says):
        op.arc_marginals(emissions, lengths, scores, arcs)
    uneven = Arcs(*(np.array([value]) for value in good.values()))._replace(last=np.array([0, 1]))
    with pytest.raises(ValueError, match=r"\[A\]"):
        op.nbest(emissions, lengths, scores, 2, arcs=uneven)


def test_tensors_have_no_arcs() -> None:
    emissions, lengths, scores, arcs = make_case(1, 1, 3, 2, 2)
    tensors = (
        torch.from_numpy(emissions),
        torch.from_numpy(lengths),
        CRFScores(*map(torch.from_numpy, scores)),
    )
    with pytest.raises(ValueError, match="arrays of numpy"):
        crf.viterbi(*tensors, arcs=arcs)
    assert crf.viterbi(emissions, lengths, scores, arcs=arcs)[0].shape == (1, 3)
