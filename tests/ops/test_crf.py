"""The batched CRF against the enumerating reference, against pytorch-crf, and against what must hold of any CRF."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torchcrf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.ops import crf
from hanlattice.ops.crf import FORBIDDEN, CRFScores, TaggedSpans, reference
from hanlattice.ops.crf.batched import _logsumexp

Case = tuple[Tensor, Tensor, CRFScores]


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=tolerance)


def make(seed: int, B: int, T: int, K: int, *, scale: float = 1.0, forbidden: float = 0.0) -> Case:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=g, dtype=torch.float64)

    emissions = normal(B, T, K)
    lengths = torch.randint(1, T + 1, (B,), generator=g)
    scores = CRFScores(normal(K), normal(K, K), normal(K))
    allowed = [torch.rand(part.shape, generator=g) >= forbidden for part in scores]
    return emissions, lengths, crf.forbid(scores, *allowed)


def make_tags(case: Case, seed: int) -> Tensor:
    B, T, K = case[0].shape
    return torch.randint(0, K, (B, T), generator=torch.Generator().manual_seed(seed))


def make_spans(case: Case, seed: int, S: int = 6) -> TaggedSpans:
    emissions, lengths, _ = case
    B, _, K = emissions.shape
    g = torch.Generator().manual_seed(seed)
    sentence = torch.randint(0, B, (S,), generator=g)
    start = (torch.rand(S, generator=g) * lengths[sentence]).long()
    end = start + 1 + (torch.rand(S, generator=g) * (lengths[sentence] - start)).long()
    tags = torch.randint(0, K, (S, int((end - start).max())), generator=g)
    return TaggedSpans(sentence, start, end, tags, torch.rand(S, K, generator=g) < 0.4)


cases = st.builds(
    make,
    seed=st.integers(0, 10_000),
    B=st.integers(1, 3),
    T=st.integers(1, 4),
    K=st.integers(1, 3),
    scale=st.sampled_from([0.1, 1.0, 30.0, 1000.0]),
    forbidden=st.sampled_from([0.0, 0.3]),
)


@settings(deadline=None, max_examples=60)
@given(cases, st.integers(0, 10_000))
def test_sums_equal_enumeration(case: Case, seed: int) -> None:
    emissions, lengths, scores = case
    tags = make_tags(case, seed)
    close(crf.log_partition(*case), reference.log_partition(*case))
    close(crf.marginals(*case), reference.marginals(*case))
    close(
        crf.log_likelihood(emissions, tags, lengths, scores),
        reference.log_likelihood(emissions, tags, lengths, scores),
    )


@settings(deadline=None, max_examples=60)
@given(cases, st.integers(1, 7))
def test_best_taggings_equal_enumeration(case: Case, n: int) -> None:
    tags, score = crf.nbest(*case, n)
    expected_tags, expected_score = reference.nbest(*case, n)
    close(score, expected_score)
    assert torch.equal(tags, expected_tags)
    best_tags, best_score = crf.viterbi(*case)
    assert torch.equal(best_tags, tags[:, 0])
    close(best_score, score[:, 0])


@settings(deadline=None, max_examples=60)
@given(cases, st.integers(0, 10_000))
def test_span_probability_equals_enumeration(case: Case, seed: int) -> None:
    spans = make_spans(case, seed)
    actual = crf.span_log_probability(*case, spans)
    expected = reference.span_log_probability(*case, spans)
    possible = expected > FORBIDDEN / 2  # what cannot be is −∞ for the one and near FORBIDDEN for the other
    close(actual[possible], expected[possible])
    assert (actual[~possible] < FORBIDDEN / 2).all()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
def test_equals_are_in_the_order_of_the_tags(seed: int, B: int, T: int, K: int, n: int) -> None:
    """Small whole numbers tie often, and their sums are exact: every tagging has its one place."""
    emissions, lengths, scores = make(seed, B, T, K)
    case = emissions.round(), lengths, CRFScores(*(part.round() for part in scores))
    for actual, expected in zip(crf.nbest(*case, n), reference.nbest(*case, n), strict=True):
        assert torch.equal(actual, expected)


def test_fewer_taggings_than_asked_for() -> None:
    emissions, _, scores = make(0, 2, 2, 2)
    tags, score = crf.nbest(emissions, torch.tensor([1, 2]), scores, 5)
    assert score.isinf().sum(1).tolist() == [3, 1]
    assert score[0, 2:].tolist() == [-torch.inf] * 3
    assert tags[0, 2:].eq(0).all()
    assert sorted(tags[1, :4].tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize(("B", "T", "K"), [(1, 1, 1), (4, 1, 5), (3, 7, 4), (8, 20, 9)])
def test_equals_pytorch_crf(B: int, T: int, K: int) -> None:
    case = emissions, lengths, scores = make(B + T, B, T, K)
    tags = make_tags(case, 1)
    lengths[0] = T  # pytorch-crf decodes no further than the longest sentence
    other = torchcrf.CRF(K, batch_first=True).double()
    with torch.no_grad():
        other.start_transitions.copy_(scores.start)
        other.transitions.copy_(scores.transitions)
        other.end_transitions.copy_(scores.end)
    mask = torch.arange(T) < lengths.unsqueeze(1)
    close(crf.log_likelihood(emissions, tags, lengths, scores), other(emissions, tags, mask, reduction="none").detach())
    decoded = crf.viterbi(*case)[0]
    assert [row[:n].tolist() for row, n in zip(decoded, lengths.tolist(), strict=True)] == other.decode(emissions, mask)


def names() -> dict[str, Callable[..., Tensor]]:
    return {
        "log_partition": lambda e, n, s, _: crf.log_partition(e, n, s),
        "log_likelihood": lambda e, n, s, tags: crf.log_likelihood(e, tags, n, s),
        "marginals": lambda e, n, s, _: crf.marginals(e, n, s),
        "viterbi": lambda e, n, s, _: crf.viterbi(e, n, s)[1],
    }


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_gradients(name: str, forbidden: float) -> None:
    case = emissions, lengths, learned = make(3, 3, 5, 3)
    tags = make_tags(case, 4)
    allowed = [torch.rand(part.shape, generator=torch.Generator().manual_seed(5)) >= forbidden for part in learned]
    if name == "log_likelihood":  # numeric differences of a path at FORBIDDEN have too few digits left
        allowed = [torch.ones_like(mask) for mask in allowed]

    def run(emissions: Tensor, *parts: Tensor) -> Tensor:
        return names()[name](emissions, lengths, crf.forbid(CRFScores(*parts), *allowed), tags)

    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in (emissions, *learned)])


def test_gradient_of_the_span_probability() -> None:
    case = emissions, lengths, scores = make(6, 2, 5, 3)
    spans = make_spans(case, 7)

    def run(emissions: Tensor, *parts: Tensor) -> Tensor:
        return crf.span_log_probability(emissions, lengths, CRFScores(*parts), spans)

    possible = reference.span_log_probability(*case, spans) > FORBIDDEN / 2
    assert possible.all()
    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in (emissions, *scores)])


def test_marginals_are_the_gradient_of_the_partition() -> None:
    emissions, lengths, scores = make(8, 5, 9, 6, forbidden=0.2)
    emissions.requires_grad_()
    (gradient,) = torch.autograd.grad(crf.log_partition(emissions, lengths, scores).sum(), emissions)
    marginals = crf.marginals(emissions, lengths, scores).detach()
    close(marginals, gradient)
    inside = (torch.arange(9) < lengths.unsqueeze(1)).double()
    close(marginals.sum(2), inside)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_nothing_beyond_a_sentence_matters(poison: float) -> None:
    case = emissions, lengths, scores = make(9, 4, 6, 3)
    lengths[0] = 6
    tags, beyond = make_tags(case, 1), torch.arange(6) >= lengths.unsqueeze(1)
    spans = make_spans(case, 2)
    poisoned = emissions.masked_fill(beyond.unsqueeze(2), poison).requires_grad_()
    bad_tags = tags.masked_fill(beyond, -100)
    for clean, dirty in [
        (crf.log_likelihood(emissions, tags, lengths, scores), crf.log_likelihood(poisoned, bad_tags, lengths, scores)),
        (crf.marginals(*case), crf.marginals(poisoned, lengths, scores)),
        (crf.viterbi(*case)[0], crf.viterbi(poisoned, lengths, scores)[0]),
        (crf.nbest(*case, 3)[1], crf.nbest(poisoned, lengths, scores, 3)[1]),
        (crf.span_log_probability(*case, spans), crf.span_log_probability(poisoned, lengths, scores, spans)),
    ]:
        assert torch.equal(clean, dirty)
    crf.log_likelihood(poisoned, bad_tags, lengths, scores).sum().backward()
    assert poisoned.grad is not None
    assert poisoned.grad.isfinite().all()
    assert poisoned.grad[beyond].eq(0).all()


def test_a_sentence_does_not_feel_its_batch() -> None:
    case = emissions, lengths, scores = make(10, 6, 8, 5)
    tags = make_tags(case, 1)
    together = crf.log_likelihood(emissions, tags, lengths, scores), crf.viterbi(*case)[0], crf.marginals(*case)
    for b, n in enumerate(lengths.tolist()):
        alone = emissions[b : b + 1, :n], lengths[b : b + 1], scores
        close(together[0][b : b + 1], crf.log_likelihood(alone[0], tags[b : b + 1, :n], alone[1], scores))
        assert torch.equal(together[1][b, :n], crf.viterbi(*alone)[0][0])
        close(together[2][b, :n], crf.marginals(*alone)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_forbidden_gold_path_is_very_unlikely_and_trains_on(dtype: torch.dtype) -> None:
    emissions, _, scores = make(11, 2, 4, 3)
    emissions = emissions.to(dtype).requires_grad_()
    parts = CRFScores(*(part.to(dtype).requires_grad_() for part in scores))
    allowed = torch.tensor([[True, False, True], [True, True, True], [True, True, True]])
    ones = torch.ones(3, dtype=torch.bool)
    tags = torch.tensor([[0, 1, 0, 1], [0, 0, 2, 2]])  # the first steps 0 → 1 twice
    forbidding = crf.forbid(parts, ones, allowed, ones)
    likelihood = crf.log_likelihood(emissions, tags, torch.tensor([4, 4]), forbidding)
    assert likelihood[0].item() == pytest.approx(2 * FORBIDDEN, rel=1e-4)
    assert likelihood[1].item() > -100
    likelihood.sum().backward()
    for tensor in (emissions, *parts):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
    assert parts.transitions.grad is not None
    assert parts.transitions.grad[0, 1] == 0


def test_no_legal_tagging_at_all_still_has_finite_gradients() -> None:
    emissions, lengths, scores = make(12, 2, 4, 3, forbidden=1.0)
    emissions = emissions.float().requires_grad_()
    marginals = crf.marginals(emissions, lengths, CRFScores(*(part.float() for part in scores)))
    marginals.square().sum().backward()
    assert marginals.isfinite().all()
    assert emissions.grad is not None
    assert emissions.grad.isfinite().all()


def test_a_long_float32_sentence_stays_close_to_float64() -> None:
    emissions, lengths, scores = make(13, 2, 500, 9, scale=5.0, forbidden=0.3)
    single = emissions.float(), lengths, CRFScores(*(part.float() for part in scores))
    close(crf.marginals(*single).double(), crf.marginals(emissions, lengths, scores), 5e-3)
    assert torch.equal(crf.viterbi(*single)[0], crf.viterbi(emissions, lengths, scores)[0])


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 2), st.sampled_from([1.0, 20.0, 1000.0]))
def test_logsumexp_equals_torch(seed: int, dim: int, scale: float) -> None:
    x = scale * torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = x.masked_fill(x > scale, FORBIDDEN).requires_grad_()
    ours, theirs = _logsumexp(x, dim), torch.logsumexp(x, dim)
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)
    weight = torch.linspace(-1, 1, ours.numel(), dtype=torch.float64).view_as(ours)
    gradients = [torch.autograd.grad((weight * y).sum(), x)[0] for y in (ours, theirs)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-15)
