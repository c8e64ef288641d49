"""The CRF in C: every instruction set, any number of threads, any layout; what it cannot do, it
refuses by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.ops import crf, library
from hanlattice.ops.crf import FORBIDDEN, CRFScores, TaggedSpans, batched, plain
from hanlattice.ops.crf import differentiable as native
from hanlattice.ops.crf import native as arrays

pytestmark = pytest.mark.skipif(
    library.loaded().library is None, reason=f"no C library: {library.missing()}"
)

Case = tuple[Tensor, Tensor, CRFScores]


def make(
    seed: int, B: int, T: int, K: int, dtype: torch.dtype = torch.float64, scale: float = 2.0
) -> Case:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return (scale * torch.randn(*shape, generator=g, dtype=torch.float64)).to(dtype)

    parts = CRFScores(normal(K), normal(K, K), normal(K))
    allowed = [torch.rand(part.shape, generator=g) >= 0.4 for part in parts]
    return normal(B, T, K), torch.randint(1, T + 1, (B,), generator=g), crf.forbid(parts, *allowed)


def make_spans(case: Case, S: int = 9) -> TaggedSpans:
    lengths = case[1]
    K = case[0].shape[2]
    g = torch.Generator().manual_seed(S)
    sentence = torch.randint(0, len(lengths), (S,), generator=g)  # not sorted
    start = (torch.rand(S, generator=g) * lengths[sentence]).long()
    end = torch.minimum(start + 3, lengths[sentence])
    return TaggedSpans(
        sentence,
        start,
        end,
        torch.randint(0, K, (S, 3), generator=g),
        torch.rand(S, K, generator=g) < 0.3,
    )


def everything(op: object, case: Case) -> dict[str, Tensor]:
    """All that an implementation gives for a case, by name."""
    emissions, lengths, scores = case
    B, T, K = emissions.shape
    tags = torch.arange(B * T).view(B, T) % K
    found: dict[str, Tensor] = {}
    found["tags"], found["score"] = op.viterbi(*case)  # type: ignore[attr-defined]
    found["first tags"], found["first scores"] = op.nbest(*case, 3)  # type: ignore[attr-defined]
    found["marginals"] = op.marginals(*case)  # type: ignore[attr-defined]
    found["partition"] = op.log_partition(*case)  # type: ignore[attr-defined]
    found["spans"] = op.span_log_probability(*case, make_spans(case)).clamp(min=FORBIDDEN / 2)  # type: ignore[attr-defined]
    inputs = [x.detach().clone().requires_grad_() for x in (emissions, *scores)]
    found["likelihood"] = op.log_likelihood(inputs[0], tags, lengths, CRFScores(*inputs[1:]))  # type: ignore[attr-defined]
    gradients = torch.autograd.grad(found["likelihood"].sum(), inputs, allow_unused=True)
    for name, x, gradient in zip(
        ("emissions", "start", "transitions", "end"), inputs, gradients, strict=True
    ):
        found[f"by {name}"] = torch.zeros_like(x) if gradient is None else gradient
    return found


@pytest.fixture(params=library.possible_levels())
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HANLATTICE_NATIVE", request.param)
    library.loaded.cache_clear()
    library.function.cache_clear()
    yield request.param
    monkeypatch.undo()
    library.loaded.cache_clear()
    library.function.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("K", [1, 2, 7, 8, 9, 16, 33, 49, 100])
def test_every_instruction_set_gives_what_torch_gives(
    level: str, dtype: torch.dtype, K: int
) -> None:
    case = make(K, 4, 11, K, dtype)
    actual = everything(native, case)
    expected = everything(batched, case)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for name, value in actual.items():
        if name in (
            "tags",
            "score",
            "first tags",
            "first scores",
        ):  # the same sums in the same order
            assert torch.equal(value, expected[name]), name
        else:
            torch.testing.assert_close(
                value, expected[name], rtol=tolerance, atol=tolerance, msg=name
            )


@given(
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 40),
    st.sampled_from([0.01, 3.0, 300.0]),
)
def test_any_size_gives_what_torch_gives(seed: int, B: int, T: int, K: int, scale: float) -> None:
    case = make(seed, B, T, K, scale=scale)
    for (name, actual), expected in zip(
        everything(native, case).items(), everything(batched, case).values(), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8, msg=name)


def test_the_number_of_threads_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make(1, 67, 40, 13, torch.float32)  # large enough to be cut
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append(everything(native, case))
    for name, value in results[0].items():
        assert torch.equal(value, results[1][name]), name
        assert torch.equal(value, results[2][name]), name


def test_a_sentence_is_the_same_bits_in_any_batch() -> None:
    case = emissions, lengths, scores = make(2, 50, 30, 9, torch.float32)
    together = everything(native, case)
    for b in (0, 17, 49):
        alone = everything(native, (emissions[b : b + 1], lengths[b : b + 1], scores))
        for name in ("tags", "score", "first tags", "marginals", "partition"):
            assert torch.equal(alone[name][0], together[name][b]), name


def test_layout_does_not_matter() -> None:
    emissions, lengths, scores = make(3, 3, 6, 5)
    turned = emissions.transpose(0, 1).contiguous().transpose(0, 1)
    loose = CRFScores(
        scores.start, scores.transitions.T.contiguous().T, scores.end.repeat_interleave(2)[::2]
    )
    assert not turned.is_contiguous()
    assert not loose.transitions.is_contiguous()
    expected = everything(native, (emissions, lengths, scores))
    for name, value in everything(native, (turned, lengths.int(), loose)).items():
        assert torch.equal(value, expected[name]), name


def test_a_long_float32_sentence_is_as_exact_as_a_short_one() -> None:
    """Scores are kept relative to their character's best: the marginals do not feel how long the
    sentence is.
    """
    emissions, _, scores = make(4, 1, 20_000, 9, torch.float32)
    lengths = torch.tensor([20_000])
    exact = native.marginals(
        emissions.double(), lengths, CRFScores(*(part.double() for part in scores))
    )
    torch.testing.assert_close(
        native.marginals(emissions, lengths, scores).double(), exact, rtol=0, atol=2e-6
    )


def test_not_a_number_stays_not_a_number() -> None:
    emissions, lengths, scores = make(5, 2, 6, 5, torch.float32)
    lengths[0] = 6
    emissions[0, 3, 2] = torch.nan
    tags = torch.zeros(2, 6, dtype=torch.int64)
    likelihood = native.log_likelihood(emissions, tags, lengths, scores)
    assert likelihood.isnan().tolist() == [True, False]
    assert native.viterbi(emissions, lengths, scores)[0].max() < 5


def test_what_would_lead_outside_is_refused() -> None:
    case = emissions, lengths, scores = make(6, 2, 4, 3)
    lengths[:] = 4
    tags = torch.zeros(2, 4, dtype=torch.int64)
    spans = TaggedSpans(*(torch.tensor(x) for x in ([0], [1], [3], [[0, 1]], [[False] * 3])))
    with pytest.raises(IndexError, match="tags must be from 0 to 2, not from 0 to 3"):
        native.log_likelihood(emissions, tags + torch.tensor([0, 0, 0, 3]), lengths, scores)
    with pytest.raises(ValueError, match="lengths must be from 1 to 4, not from 0 to 4"):
        native.viterbi(emissions, torch.tensor([0, 4]), scores)
    with pytest.raises(ValueError, match="tags must be"):
        native.log_likelihood(emissions, tags[:, :3], lengths, scores)
    with pytest.raises(ValueError, match=r"end must be \(3,\) for 3 tags, not \(2,\)"):
        native.viterbi(emissions, lengths, scores._replace(end=scores.end[:2]))
    with pytest.raises(ValueError, match=r"emissions must be \[B, T, K\]"):
        native.viterbi(emissions, lengths[:1], scores)
    for wrong in (
        spans._replace(sentence=torch.tensor([2])),
        spans._replace(end=torch.tensor([5])),
        spans._replace(end=torch.tensor([1])),
        spans._replace(start=torch.tensor([0])),
        spans._replace(tags=torch.tensor([[0, 3]])),
    ):
        with pytest.raises(IndexError):
            native.span_log_probability(*case, wrong)
    with pytest.raises(ValueError, match="must be"):
        native.span_log_probability(
            *case, spans._replace(blocked_next=torch.zeros(1, 2, dtype=torch.bool))
        )
    assert native.span_log_probability(*case, spans).shape == (1,)


def test_no_tags_and_too_many_taggings_are_refused() -> None:
    """A CRF without tags has no best one to read, and C counts the ways on from a character in 32
    bits.
    """
    none = (
        torch.zeros(1, 3, 0),
        torch.tensor([3]),
        CRFScores(torch.zeros(0), torch.zeros(0, 0), torch.zeros(0)),
    )
    in_numpy = none[0].numpy(), none[1].numpy(), CRFScores(*(part.numpy() for part in none[2]))
    for name, more in (("viterbi", ()), ("nbest", (2,)), ("marginals", ()), ("log_partition", ())):
        for op, values in (
            (arrays, in_numpy),
            (plain, in_numpy),
            (native, none),
            (crf, none),
            (crf, in_numpy),
        ):
            with pytest.raises(ValueError, match="one tag or more"):
                getattr(op, name)(*values, *more)
    emissions, lengths, scores = make(1, 1, 1, 3)
    given = emissions.numpy(), lengths.numpy(), CRFScores(*(part.numpy() for part in scores))
    for op in (arrays, plain, crf):
        with pytest.raises(ValueError, match="n may be 715,827,882 at most"):
            op.nbest(*given, 2**31 // 3 + 1)
        with pytest.raises(ValueError, match="n must be 1 or more"):
            op.nbest(*given, 0)


@pytest.mark.parametrize("op", [arrays, plain])
def test_a_batch_of_nothing_has_an_answer(op: ModuleType) -> None:
    emissions = np.zeros((0, 0, 2))
    lengths = np.zeros(0, dtype=np.int64)
    scores = CRFScores(np.zeros(2), np.zeros((2, 2)), np.zeros(2))
    assert op.viterbi(emissions, lengths, scores)[0].shape == (0, 0)
    assert op.marginals(emissions, lengths, scores).shape == (0, 0, 2)


def test_an_older_library_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "sizeof", lambda _: 8)
    with pytest.raises(RuntimeError, match="older than this package"):
        native.viterbi(*make(7, 1, 2, 3))


def test_auto_takes_the_library_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions, lengths, scores = case = make(8, 2, 3, 4)
    asked: list[str] = []
    real = native.viterbi

    def listening(*given: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(str(given[0].dtype))
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(native, "viterbi", listening)
    crf.viterbi(*case)
    crf.viterbi(*case, backend="batched")
    crf.viterbi(emissions.float(), lengths, scores)  # two dtypes: torch can, C cannot
    crf.viterbi(emissions.requires_grad_(), lengths, scores)  # the score's gradient is torch's
    assert asked == ["torch.float64"]
    with pytest.raises(ValueError, match="has a gradient only in backend='batched'"):
        crf.viterbi(emissions, lengths, scores, backend="native")
    with pytest.raises(ValueError, match="all float32 or all float64"):
        native.viterbi(emissions.float(), lengths, scores)


def test_backends_are_named() -> None:
    case = make(9, 1, 2, 3)
    with pytest.raises(
        ValueError,
        match="backend must be one of auto, batched, fused, native, reference, not 'fast'",
    ):
        crf.viterbi(*case, backend="fast")
    for backend in ("reference", "batched", "native", "auto"):
        torch.testing.assert_close(
            crf.log_partition(*case, backend=backend), batched.log_partition(*case)
        )
