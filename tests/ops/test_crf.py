"""Each backend of the CRF against the enumerating reference, against pytorch-crf, and against what
holds of any CRF.

The fused one runs on a GPU, or else in Triton's interpreter.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torchcrf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.lab.bench.equality import CRFCase, largest_difference
from hanlattice.ops import crf, library
from hanlattice.ops.crf import FORBIDDEN, CRFScores, TaggedSpans, reference
from hanlattice.ops.crf.batched import _logsumexp

GPU = torch.cuda.is_available()
if not GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before anybody imports triton

Case = tuple[Tensor, Tensor, CRFScores]


def moved(x: Any, device: str) -> Any:
    """Every tensor in x, on the device."""
    if isinstance(x, Tensor):
        return x.to(device)
    if isinstance(x, tuple):
        parts = [moved(part, device) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return x


class Op:
    """The functions of `crf` with one backend, on its device; results are on the CPU again."""

    def __init__(self, backend: str) -> None:
        self.backend, self.device = backend, "cuda" if backend == "fused" and GPU else "cpu"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self.call, name)

    def call(self, name: str, *given: Any) -> Any:
        return moved(getattr(crf, name)(*moved(given, self.device), backend=self.backend), "cpu")

    def __repr__(self) -> str:
        return self.backend


no_library = pytest.mark.skipif(
    library.loaded().library is None, reason=f"no C library: {library.missing()}"
)
no_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None
    or (not GPU and os.environ["TRITON_INTERPRET"] != "1"),
    reason="needs triton, and a GPU or TRITON_INTERPRET=1",
)
BATCHED = pytest.param(Op("batched"), id="batched")
NATIVE = pytest.param(Op("native"), id="native", marks=no_library)
FUSED = pytest.param(Op("fused"), id="fused", marks=no_triton)
every_backend = pytest.mark.parametrize("op", [BATCHED, NATIVE, FUSED])


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


@every_backend
@settings(deadline=None, max_examples=10)
@given(case=cases, seed=st.integers(0, 10_000))
def test_sums_equal_enumeration(op: Op, case: Case, seed: int) -> None:
    emissions, lengths, scores = case
    tags = make_tags(case, seed)
    close(op.log_partition(*case), reference.log_partition(*case))
    close(op.marginals(*case), reference.marginals(*case))
    close(
        op.log_likelihood(emissions, tags, lengths, scores),
        reference.log_likelihood(emissions, tags, lengths, scores),
    )


@pytest.mark.parametrize("op", [BATCHED, NATIVE])
@settings(deadline=None, max_examples=30)
@given(case=cases, n=st.integers(1, 7))
def test_best_taggings_equal_enumeration(op: Op, case: Case, n: int) -> None:
    tags, score = op.nbest(*case, n)
    expected_tags, expected_score = reference.nbest(*case, n)
    close(score, expected_score)
    assert torch.equal(tags, expected_tags)


@every_backend
@settings(deadline=None, max_examples=15)
@given(case=cases)
def test_the_best_tagging_equals_enumeration(op: Op, case: Case) -> None:
    tags, score = op.viterbi(*case)
    expected_tags, expected_score = reference.viterbi(*case)
    assert torch.equal(tags, expected_tags)
    close(score, expected_score)


@every_backend
@settings(deadline=None, max_examples=12)
@given(case=cases, seed=st.integers(0, 10_000))
def test_span_probability_equals_enumeration(op: Op, case: Case, seed: int) -> None:
    spans = make_spans(case, seed)
    actual = op.span_log_probability(*case, spans)
    expected = reference.span_log_probability(*case, spans)
    possible = (
        expected > FORBIDDEN / 2
    )  # what cannot be is −∞ for the one and near FORBIDDEN for the other
    close(actual[possible], expected[possible])
    assert (actual[~possible] < FORBIDDEN / 2).all()


sizes = {
    "seed": st.integers(0, 10_000),
    "B": st.integers(1, 3),
    "T": st.integers(1, 4),
    "K": st.integers(1, 3),
}


def with_equals(seed: int, B: int, T: int, K: int) -> Case:
    """Small whole numbers tie often, and their sums are exact: every tagging has its one place."""
    emissions, lengths, scores = make(seed, B, T, K)
    return emissions.round(), lengths, CRFScores(*(part.round() for part in scores))


@pytest.mark.parametrize("op", [BATCHED, NATIVE])
@settings(deadline=None, max_examples=25)
@given(n=st.integers(1, 9), **sizes)
def test_equals_are_in_the_order_of_the_tags(op: Op, n: int, **size: int) -> None:
    case = with_equals(**size)
    for actual, expected in zip(op.nbest(*case, n), reference.nbest(*case, n), strict=True):
        assert torch.equal(actual, expected)


@every_backend
@settings(deadline=None, max_examples=15)
@given(**sizes)
def test_of_equals_the_first_is_best(op: Op, **size: int) -> None:
    case = with_equals(**size)
    for actual, expected in zip(op.viterbi(*case), reference.viterbi(*case), strict=True):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("op", [BATCHED, NATIVE])
def test_fewer_taggings_than_asked_for(op: Op) -> None:
    emissions, _, scores = make(0, 2, 2, 2)
    tags, score = op.nbest(emissions, torch.tensor([1, 2]), scores, 5)
    assert score.isinf().sum(1).tolist() == [3, 1]
    assert score[0, 2:].tolist() == [-torch.inf] * 3
    assert tags[0, 2:].eq(0).all()
    assert sorted(tags[1, :4].tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]


@every_backend
@pytest.mark.parametrize(("B", "T", "K"), [(1, 1, 1), (4, 1, 5), (4, 9, 9), (2, 5, 17), (1, 3, 33)])
def test_equals_pytorch_crf(op: Op, B: int, T: int, K: int) -> None:
    case = emissions, lengths, scores = make(B + T, B, T, K)
    tags = make_tags(case, 1)
    lengths[0] = T  # pytorch-crf decodes no further than the longest sentence
    other = torchcrf.CRF(K, batch_first=True).double()
    with torch.no_grad():
        other.start_transitions.copy_(scores.start)
        other.transitions.copy_(scores.transitions)
        other.end_transitions.copy_(scores.end)
    mask = torch.arange(T) < lengths.unsqueeze(1)
    close(
        op.log_likelihood(emissions, tags, lengths, scores),
        other(emissions, tags, mask, reduction="none").detach(),
    )
    decoded = op.viterbi(*case)[0]
    assert [
        row[:n].tolist() for row, n in zip(decoded, lengths.tolist(), strict=True)
    ] == other.decode(emissions, mask)


def names() -> dict[str, Callable[..., Tensor]]:
    return {
        "log_partition": lambda op, e, n, s, _: op.log_partition(e, n, s),
        "log_likelihood": lambda op, e, n, s, tags: op.log_likelihood(e, tags, n, s),
        "marginals": lambda op, e, n, s, _: op.marginals(e, n, s),
        "viterbi": lambda op, e, n, s, _: op.viterbi(e, n, s)[1],
    }


with_gradient = [
    *((name, BATCHED) for name in names()),
    *((name, NATIVE) for name in ("log_partition", "log_likelihood")),
    *((name, FUSED) for name in ("log_partition", "log_likelihood")),
]


@pytest.mark.parametrize(
    ("name", "op"),
    [
        pytest.param(name, *op.values, id=f"{name}-{op.id}", marks=op.marks)
        for name, op in with_gradient
    ],
)
def test_gradients(op: Op, name: str) -> None:
    case = emissions, lengths, learned = make(3, 2, 4, 3)
    tags = make_tags(case, 4)
    allowed = [
        torch.rand(part.shape, generator=torch.Generator().manual_seed(5)) >= 0.2
        for part in learned
    ]
    if (
        name == "log_likelihood"
    ):  # numeric differences of a path at FORBIDDEN have too few digits left
        allowed = [torch.ones_like(mask) for mask in allowed]

    def run(emissions: Tensor, *parts: Tensor) -> Tensor:
        return names()[name](op, emissions, lengths, crf.forbid(CRFScores(*parts), *allowed), tags)

    inputs = [x.requires_grad_() for x in (emissions, *learned)]
    assert torch.autograd.gradcheck(
        run, inputs, fast_mode=op.backend == "fused"
    )  # the interpreter is slow


@pytest.mark.parametrize("op", [NATIVE, FUSED])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("B", "T", "K", "scale", "forbidden"),
    [
        (1, 1, 1, 1.0, 0.0),
        (2, 1, 5, 3.0, 0.3),
        (3, 5, 17, 3.0, 0.5),
        (2, 4, 33, 30.0, 0.6),
        (3, 4, 70, 1.0, 0.2),
    ],
)
def test_gradients_equal_those_of_the_batched(
    op: Op, dtype: torch.dtype, B: int, T: int, K: int, scale: float, forbidden: float
) -> None:
    """By name, and in float32 no worse than a few units of its last place."""
    emissions, lengths, scores = drawn = make(B + K, B, T, K, scale=scale, forbidden=forbidden)
    case = CRFCase(emissions, make_tags(drawn, 1), lengths, scores)
    found = case.values(op.backend, op.device, dtype)
    worst, difference = largest_difference(found, case.values("batched", "cpu", torch.float64))
    assert difference <= (1e-10 if dtype == torch.float64 else 2e-5), f"{worst}: {difference:.1e}"
    assert {found[name].dtype for name in found if name.startswith("gradient")} == {dtype}


def test_gradient_of_the_span_probability() -> None:
    case = emissions, lengths, scores = make(6, 2, 5, 3)
    spans = make_spans(case, 7)

    def run(emissions: Tensor, *parts: Tensor) -> Tensor:
        return crf.span_log_probability(emissions, lengths, CRFScores(*parts), spans)

    possible = reference.span_log_probability(*case, spans) > FORBIDDEN / 2
    assert possible.all()
    assert torch.autograd.gradcheck(run, [x.requires_grad_() for x in (emissions, *scores)])


@every_backend
def test_marginals_are_the_gradient_of_the_partition(op: Op) -> None:
    emissions, lengths, scores = make(8, 3, 5, 6, forbidden=0.2)
    emissions.requires_grad_()
    (gradient,) = torch.autograd.grad(op.log_partition(emissions, lengths, scores).sum(), emissions)
    marginals = op.marginals(emissions.detach(), lengths, scores)
    close(marginals, gradient)
    inside = (torch.arange(5) < lengths.unsqueeze(1)).double()
    close(marginals.sum(2), inside)


@every_backend
def test_nothing_beyond_a_sentence_matters(op: Op) -> None:
    case = emissions, lengths, scores = make(9, 4, 6, 3)
    lengths[:] = torch.tensor([6, 3, 1, 4])
    tags = make_tags(case, 1)
    beyond = torch.arange(6) >= lengths.unsqueeze(1)
    spans = make_spans(case, 2)
    poison = torch.tensor([0.0, torch.nan, torch.inf, -torch.inf]).double()[:, None, None]
    poisoned = torch.where(beyond.unsqueeze(2), poison, emissions)
    bad_tags = tags.masked_fill(beyond, -100)
    for clean, dirty in [
        (
            op.log_likelihood(emissions, tags, lengths, scores),
            op.log_likelihood(poisoned, bad_tags, lengths, scores),
        ),
        (op.marginals(*case), op.marginals(poisoned, lengths, scores)),
        (op.viterbi(*case)[0], op.viterbi(poisoned, lengths, scores)[0]),
        (
            op.span_log_probability(*case, spans),
            op.span_log_probability(poisoned, lengths, scores, spans),
        ),
    ]:
        assert torch.equal(clean, dirty)
    if op.backend != "fused":
        assert torch.equal(op.nbest(*case, 3)[1], op.nbest(poisoned, lengths, scores, 3)[1])
    op.log_likelihood(poisoned.requires_grad_(), bad_tags, lengths, scores).sum().backward()
    assert poisoned.grad is not None
    assert poisoned.grad.isfinite().all()
    assert poisoned.grad[beyond].eq(0).all()


@every_backend
def test_a_sentence_does_not_feel_its_batch(op: Op) -> None:
    case = emissions, lengths, scores = make(10, 3, 6, 5)
    tags = make_tags(case, 1)
    together = (
        op.log_likelihood(emissions, tags, lengths, scores),
        op.viterbi(*case)[0],
        op.marginals(*case),
    )
    for b, n in enumerate(lengths.tolist()):
        alone = emissions[b : b + 1, :n], lengths[b : b + 1], scores
        close(
            together[0][b : b + 1],
            op.log_likelihood(alone[0], tags[b : b + 1, :n], alone[1], scores),
        )
        assert torch.equal(together[1][b, :n], op.viterbi(*alone)[0][0])
        close(together[2][b, :n], op.marginals(*alone)[0])


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_forbidden_gold_path_is_very_unlikely_and_trains_on(op: Op, dtype: torch.dtype) -> None:
    emissions, _, scores = make(11, 2, 4, 3)
    emissions = emissions.to(dtype).requires_grad_()
    parts = CRFScores(*(part.to(dtype).requires_grad_() for part in scores))
    allowed = torch.tensor([[True, False, True], [True, True, True], [True, True, True]])
    ones = torch.ones(3, dtype=torch.bool)
    tags = torch.tensor([[0, 1, 0, 1], [0, 0, 2, 2]])  # the first steps 0 → 1 twice
    forbidding = crf.forbid(parts, ones, allowed, ones)
    likelihood = op.log_likelihood(emissions, tags, torch.tensor([4, 4]), forbidding)
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


@every_backend
def test_no_legal_tagging_at_all_still_trains(op: Op) -> None:
    emissions, lengths, scores = make(12, 2, 4, 3, forbidden=1.0)
    single = emissions.float().requires_grad_()
    value = op.log_partition(single, lengths, CRFScores(*(part.float() for part in scores)))
    close(
        value.detach().double(), reference.log_partition(emissions, lengths, scores), 1.0
    )  # a float32 of −5e6 has steps of 0.5
    value.sum().backward()
    assert single.grad is not None
    assert single.grad.isfinite().all()
    close(single.grad.sum(2).double(), (torch.arange(4) < lengths.unsqueeze(1)).double(), 1e-5)


@pytest.mark.parametrize("op", [BATCHED, NATIVE])
def test_a_long_float32_sentence_stays_close_to_float64(op: Op) -> None:
    case = emissions, lengths, scores = make(13, 2, 500, 9, scale=5.0, forbidden=0.3)
    single = emissions.float(), lengths, CRFScores(*(part.float() for part in scores))
    close(op.marginals(*single).double(), crf.marginals(*case, backend="batched"), 5e-3)
    assert torch.equal(op.viterbi(*single)[0], crf.viterbi(*case, backend="batched")[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_backend
def test_a_tag_far_behind_is_not_lost(op: Op, dtype: torch.dtype) -> None:
    """Tag 1 lies 10,000 behind at every character, but it alone may come last: no exponential of it
    is above zero.
    """
    emissions = torch.tensor([[[0.0, -1e4], [0.0, -1e4], [0.0, -1e4]]], dtype=dtype)
    scores = CRFScores(
        torch.zeros(2, dtype=dtype),
        torch.zeros(2, 2, dtype=dtype),
        torch.tensor([FORBIDDEN, 0.0]).to(dtype),
    )
    scores.transitions[0, 1] = FORBIDDEN
    case = emissions, torch.tensor([3]), scores
    close(op.log_partition(*case), torch.tensor([-3e4], dtype=dtype), 1e-2)
    close(op.marginals(*case), torch.tensor([[[0.0, 1.0]] * 3], dtype=dtype))
    assert op.viterbi(*case)[0].tolist() == [[1, 1, 1]]


@every_backend
def test_no_sentences(op: Op) -> None:
    emissions = torch.zeros(0, 3, 2)
    lengths = torch.zeros(0, dtype=torch.int64)
    scores = make(0, 1, 1, 2)[2]
    case = emissions, lengths, CRFScores(*(part.float() for part in scores))
    assert op.log_partition(*case).shape == (0,)
    assert op.marginals(*case).shape == (0, 3, 2)
    assert op.viterbi(*case)[0].shape == (0, 3)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 2), st.sampled_from([1.0, 20.0, 1000.0]))
def test_logsumexp_equals_torch(seed: int, dim: int, scale: float) -> None:
    x = scale * torch.randn(
        3, 4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    x = x.masked_fill(x > scale, FORBIDDEN).requires_grad_()
    ours = _logsumexp(x, dim)
    theirs = torch.logsumexp(x, dim)
    torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)
    weight = torch.linspace(-1, 1, ours.numel(), dtype=torch.float64).view_as(ours)
    gradients = [torch.autograd.grad((weight * y).sum(), x)[0] for y in (ours, theirs)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-15)
