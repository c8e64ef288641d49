"""The CRF module: what it decodes is legal in its scheme; a span scores the sum over all taggings
that have it.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.errors import TagError
from hanlattice.inference.constraints import constrain
from hanlattice.inference.span_search import decoded_span_scores, span_scores
from hanlattice.nn.crf import CRF
from hanlattice.ops.crf import log_likelihood, marginals
from hanlattice.text.boundaries import CUT, FREE, JOIN, SPACED
from hanlattice.text.span import Span
from hanlattice.text.tags import SCHEMES, may_follow, tag_set, tags_to_spans


def trained(scheme: str, labels: str = "XY", seed: int = 0, tags: list[str] | None = None) -> CRF:
    """A CRF as training might leave it: no score is zero, those of forbidden steps neither."""
    module = CRF(tags or tag_set(labels, scheme), scheme).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return module


def draw(module: CRF, B: int, T: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    emissions = scale * torch.randn(
        B, T, len(module.tags), generator=generator, dtype=torch.float64
    )
    return emissions, torch.randint(1, T + 1, (B,), generator=generator)


def is_legal(tags: list[str], scheme: str) -> bool:
    return all(may_follow(left, right, scheme) for left, right in pairwise([None, *tags, None]))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(SCHEMES), st.integers(0, 1000), st.sampled_from([1.0, 100.0, 10_000.0]))
def test_decoded_tags_are_legal(scheme: str, seed: int, scale: float) -> None:
    module = trained(scheme, seed=seed)
    emissions, lengths = draw(module, 4, 12, seed, scale)
    decoded = module.decode(emissions, lengths)
    for row, length in zip(decoded.tolist(), lengths.tolist(), strict=True):
        assert is_legal([module.tags[k] for k in row[:length]], scheme)
        assert row[length:] == [0] * (12 - length)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_readings_are_the_legal_taggings_and_no_other(scheme: str) -> None:
    module = trained(scheme, "X")
    emissions, _ = draw(module, 2, 3, 1)
    lengths = torch.tensor([3, 1])
    n = len(module.tags) ** 3
    tags, score = map(torch.from_numpy, module.readings(emissions, lengths, n))
    for b, length in enumerate(lengths.tolist()):
        legal = [list(t) for t in product(module.tags, repeat=length) if is_legal(list(t), scheme)]
        found = [[module.tags[k] for k in row[:length]] for row in tags[b, : len(legal)].tolist()]
        assert sorted(found) == sorted(legal)
        assert score[b, : len(legal)].isfinite().all()
        assert score[b, len(legal) :].eq(-torch.inf).all()
    assert torch.equal(tags[:, 0], module.decode(emissions, lengths))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_span_scores_equal_enumeration(scheme: str) -> None:
    module = trained(scheme)
    emissions, _ = draw(module, 3, 4, 2)
    lengths = torch.tensor([4, 2, 1])
    spans = [
        [Span(s, e, x) for s in range(n) for e in range(s + 1, n + 1) for x in "XY"]
        for n in lengths.tolist()
    ]
    spans[1] = []
    actual = span_scores(module, emissions, lengths, spans)
    K = len(module.tags)
    for b, n in enumerate(lengths.tolist()):
        expected = dict.fromkeys(spans[b], 0.0)
        taggings = list(product(range(K), repeat=n))
        repeated = emissions[b : b + 1, :n].expand(len(taggings), -1, -1)
        lengths_of_all = torch.full((len(taggings),), n)
        likelihood = log_likelihood(repeated, torch.tensor(taggings), lengths_of_all, module.scores)
        for tagging, probability in zip(taggings, likelihood.exp().tolist(), strict=True):
            for span in tags_to_spans([module.tags[k] for k in tagging], scheme):
                if span in expected:
                    expected[span] += probability
        assert actual[b] == pytest.approx(list(expected.values()), abs=1e-9)


@settings(deadline=None)
@given(
    st.sampled_from(SCHEMES), st.integers(0, 1000), st.sampled_from([torch.float32, torch.float64])
)
def test_decoded_spans_score_what_they_score_by_name(
    scheme: str, seed: int, dtype: torch.dtype
) -> None:
    module = trained(scheme, seed=seed).to(dtype)
    emissions, lengths = draw(module, 5, 9, seed, 2.0)
    emissions = emissions.to(dtype)
    decoded = module.decode(emissions, lengths)
    rows = [
        tags_to_spans([module.tags[k] for k in row[:length]], scheme)
        for row, length in zip(decoded.tolist(), lengths.tolist(), strict=True)
    ]
    flat = [(b, span.start, span.end) for b, row in enumerate(rows) for span in row]
    sentence, start, end = np.array(flat, dtype=np.int64).reshape(-1, 3).T
    actual = decoded_span_scores(
        module, emissions, lengths, decoded.int().numpy(), sentence, start, end
    )
    expected = [score for row in span_scores(module, emissions, lengths, rows) for score in row]
    assert actual.dtype == np.float64
    assert actual.tolist() == expected
    assert all(0 < score <= 1 for score in expected)


def test_a_span_of_bio_ends_where_it_says() -> None:
    """`B-X I-X` with `I-X` after it is a longer span, which adds nothing to the shorter one."""
    module = CRF(["O", "B-X", "I-X"], "BIO")
    emissions = torch.tensor([[[0.0, 20.0, 0.0], [0.0, 0.0, 20.0], [0.0, 0.0, 20.0]]])
    short, whole = span_scores(
        module, emissions, torch.tensor([3]), [[Span(0, 2, "X"), Span(0, 3, "X")]]
    )[0]
    assert short < 1e-6
    assert whole > 1 - 1e-6


def test_loss_is_one_number_a_sentence_and_trains_every_allowed_score() -> None:
    module = trained("BMES", "X")
    emissions, lengths = draw(module, 8, 6, 3)
    tags = module.decode(emissions, lengths)
    loss = module.loss(emissions, tags, lengths)
    assert loss.shape == (8,)
    assert (loss > 0).all()
    loss.mean().backward()
    assert module.transitions.grad is not None
    assert module.transitions.grad.ne(0).logical_and(~module.allowed_between).sum() == 0
    assert module.transitions.grad[module.allowed_between].ne(0).all()


def test_marginals_give_forbidden_tags_nothing() -> None:
    module = trained("BMES", "X")
    emissions, _ = draw(module, 2, 3, 4)
    found = marginals(emissions, torch.tensor([3, 3]), module.scores)
    torch.testing.assert_close(found.sum(2), torch.ones(2, 3, dtype=torch.float64))
    for tag, t in [("E-X", 0), ("M-X", 0), ("B-X", 2), ("M-X", 2)]:
        assert found[:, t, module.ids[tag]].eq(0).all()


def test_what_is_saved_and_how_it_starts() -> None:
    module = CRF(["O", "S-X"], "BMES")
    assert sorted(module.state_dict()) == ["end", "start", "transitions"]
    assert all(parameter.eq(0).all() for parameter in module.parameters())


def test_wrong_spans_are_refused_by_name() -> None:
    module = CRF(["O", "B-X", "I-X"], "BIO")
    emissions = torch.zeros(1, 3, 3)
    lengths = torch.tensor([2])
    assert span_scores(module, emissions, lengths, [[]]) == [[]]
    with pytest.raises(TagError, match="no tag 'B-Z'"):
        span_scores(module, emissions, lengths, [[Span(0, 1, "Z")]])
    with pytest.raises(TagError, match="no tag 'I-X'"):
        span_scores(
            CRF(["O", "B-X"], "BIO"),
            emissions[..., :2],
            lengths,
            [[Span(1, 2, "X"), Span(0, 2, "X")]],
        )
    with pytest.raises(ValueError, match=r"\[1, 3\) ends after sentence 0, which has 2 characters"):
        span_scores(module, emissions, lengths, [[Span(1, 3, "X")]])
    with pytest.raises(ValueError, match="spans for 2 sentences came with 1 lengths"):
        span_scores(module, emissions, lengths, [[], []])


# ---- what is known of the gaps


WORD_TAGS = {scheme: [tag for tag in tag_set(["WORD"], scheme) if tag != "O"] for scheme in SCHEMES}


def respecting(scheme: str, gaps: list[int]) -> list[list[str]]:
    """All legal tags of a text under these gaps: a word begins at every CUT, and at no JOIN."""
    found = []
    for tagging in product(WORD_TAGS[scheme], repeat=len(gaps)):
        begins = {span.start for span in tags_to_spans(list(tagging), scheme)}
        kept = all(gap == FREE or (at in begins) == (gap == CUT) for at, gap in enumerate(gaps))
        if kept and is_legal(list(tagging), scheme):
            found.append(list(tagging))
    return found


def path_score(module: CRF, emissions: Tensor, tags: list[str]) -> float:
    """By the definition, one number after the other."""
    ids = [module.ids[tag] for tag in tags]
    start, between, end = (part.tolist() for part in module.parameters())
    each = emissions.tolist()
    inside = sum(each[t][k] for t, k in enumerate(ids)) + sum(
        between[left][right] for left, right in pairwise(ids)
    )
    return float(start[ids[0]] + inside + end[ids[-1]])


@settings(deadline=None, max_examples=25)
@given(
    scheme=st.sampled_from(["BMES", "BIO"]),
    rows=st.lists(st.lists(st.sampled_from([FREE, CUT, JOIN]), max_size=4), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([1.0, 30.0]),
)
def test_under_known_gaps_only_what_respects_them_counts(
    scheme: str, rows: list[list[int]], seed: int, scale: float
) -> None:
    gaps = [[CUT, *row] for row in rows]
    module = trained(scheme, seed=seed, tags=WORD_TAGS[scheme])
    T = max(map(len, gaps))
    emissions, _ = draw(module, len(gaps), T, seed, scale)
    lengths = torch.tensor([len(row) for row in gaps])
    under = constrain(
        module, emissions, torch.tensor([row + [FREE] * (T - len(row)) for row in gaps])
    )
    decoded = module.decode(under, lengths).tolist()
    spans = [
        [Span(s, e, "WORD") for s in range(n) for e in range(s + 1, n + 1)]
        for n in lengths.tolist()
    ]
    probability = span_scores(module, under, lengths, spans)
    for b, row in enumerate(gaps):
        paths = respecting(scheme, row)
        scores = torch.tensor(
            [path_score(module, emissions[b], path) for path in paths], dtype=torch.float64
        )
        assert [module.tags[k] for k in decoded[b][: len(row)]] == paths[int(scores.argmax())]
        expected = dict.fromkeys(spans[b], 0.0)
        for path, share in zip(paths, scores.softmax(0).tolist(), strict=True):
            for span in tags_to_spans(path, scheme):
                expected[span] += share
        assert probability[b] == pytest.approx(list(expected.values()), abs=1e-9)


def is_spaced_out_or_whole(span: Span, gaps: list[int], scheme: str) -> bool:
    """Whether a name may have these gaps inside: no cut, and blanks everywhere or nowhere; nowhere
    in BIO.
    """
    inside = set(gaps[span.start + 1 : span.end])
    return CUT not in inside and (SPACED not in inside or (inside == {SPACED} and scheme != "BIO"))


@settings(deadline=None, max_examples=40)
@given(
    scheme=st.sampled_from(["BMES", "BIOES", "BIO"]),
    gaps=st.lists(st.sampled_from([FREE, SPACED, SPACED, CUT]), min_size=1, max_size=5),
    padding=st.integers(0, 2),
)
def test_a_name_goes_on_after_a_blank_only_if_all_of_it_is_spaced_out(
    scheme: str, gaps: list[int], padding: int
) -> None:
    module = trained(scheme, "X")
    T = len(gaps)
    under = constrain(
        module,
        torch.zeros(1, T + padding, len(module.tags)),
        torch.tensor([gaps + [FREE] * padding]),
    )[0]
    for tagging in product(module.tags, repeat=T):
        if is_legal(list(tagging), scheme):
            allowed = all(under[t, module.ids[tag]] == 0 for t, tag in enumerate(tagging))
            spans = tags_to_spans(list(tagging), scheme)
            assert allowed == all(is_spaced_out_or_whole(span, gaps, scheme) for span in spans), (
                tagging
            )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gaps_of_which_nothing_is_known_change_nothing(scheme: str) -> None:
    module = trained(scheme)
    emissions, _ = draw(module, 2, 5, 1)
    assert torch.equal(constrain(module, emissions, torch.full((2, 5), FREE)), emissions)


# ---- teachers


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_teacher_that_is_sure_is_a_gold_tagging(scheme: str) -> None:
    module = trained(scheme)
    emissions, lengths = draw(module, 5, 7, 1)
    tags = module.decode(emissions + 5 * torch.randn_like(emissions), lengths)
    there = torch.arange(7) < lengths[:, None]
    shares = torch.nn.functional.one_hot(tags, len(module.tags)).double() * there[..., None]
    torch.testing.assert_close(
        module.soft_label_loss(emissions, shares, lengths), module.loss(emissions, tags, lengths)
    )


@pytest.mark.parametrize("scheme", ["BMES", "BIOES"])
def test_what_is_learnt_of_a_teacher_is_the_cross_entropy_of_all_taggings(scheme: str) -> None:
    teacher = CRF(tag_set("X", scheme), scheme).double()
    module = trained(scheme, "X")
    taught, lengths = draw(teacher, 4, 4, 2)
    emissions, _ = draw(module, 4, 4, 3)
    shares = teacher.marginals(taught, lengths)
    found = module.soft_label_loss(emissions, shares, lengths)
    for at, length in enumerate(lengths.tolist()):
        legal = [
            way
            for way in product(range(len(module.tags)), repeat=length)
            if is_legal([module.tags[k] for k in way], scheme)
        ]
        ways = torch.tensor(legal)
        size = torch.full((len(legal),), length)
        many = (emissions[at, :length].expand(len(legal), -1, -1), ways, size)
        of_teacher = log_likelihood(
            taught[at, :length].expand(len(legal), -1, -1), ways, size, teacher.scores
        )
        expected = -(of_teacher.exp() * log_likelihood(*many, module.scores)).sum()
        torch.testing.assert_close(found[at], expected)


def test_the_gradient_of_what_is_learnt_of_a_teacher() -> None:
    module = trained("BMES", "X")
    emissions, lengths = draw(module, 3, 4, 5)
    shares = CRF(module.tags, "BMES").double().marginals(torch.randn_like(emissions), lengths)
    wanted = [emissions.requires_grad_(), module.start, module.transitions, module.end]
    assert torch.autograd.gradcheck(
        lambda *_: module.soft_label_loss(emissions, shares, lengths), wanted
    )
    own = module.marginals(emissions, lengths)
    (gradient,) = torch.autograd.grad(
        module.soft_label_loss(emissions, own, lengths).sum(), emissions
    )
    torch.testing.assert_close(
        gradient, torch.zeros_like(gradient), atol=1e-9, rtol=0
    )  # nothing left to learn
