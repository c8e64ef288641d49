"""What holds of every backend on a CPU; `batched` against `reference`; `reference` against a plain
loop.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice import Lattice
from hanlattice.errors import InputError
from hanlattice.lab.bench.equality import TOLERANCES, LSTMCase, largest_difference
from hanlattice.ops import library
from hanlattice.ops.lattice_lstm import (
    LatticeLSTMWeights,
    bidirectional,
    lattice_lstm,
    reference,
    resolve,
    runnable,
)
from hanlattice.ops.lattice_lstm.weights import weight_shapes
from tests.helpers.strategies import lattices

D = 3
E = 4
H = 5
NATIVE = pytest.param(
    "native", marks=pytest.mark.skipif(bool(library.missing()), reason=library.missing())
)
FAST = ["batched", NATIVE, "auto"]


def make_weights(
    generator: torch.Generator, coupled: bool, dtype: torch.dtype = torch.float64
) -> LatticeLSTMWeights:
    shapes = weight_shapes(D, E, H, coupled)
    return LatticeLSTMWeights(
        *(torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes)
    )


def make_inputs(
    lattice: Lattice, generator: torch.Generator, extra: int = 0
) -> tuple[Tensor, Tensor]:
    B = len(lattice.lengths)
    T = int(lattice.lengths.max()) + extra
    x = torch.randn(B, T, D, generator=generator, dtype=torch.float64)
    word_x = torch.randn(len(lattice), E, generator=generator, dtype=torch.float64)
    return x.requires_grad_(), word_x.requires_grad_()


@given(
    lattice=lattices(),
    both=st.booleans(),
    seed=st.integers(0, 2**31),
    extra=st.integers(0, 2),
    coupled=st.booleans(),
)
def test_batched_equals_reference(
    lattice: Lattice, both: bool, seed: int, extra: int, coupled: bool
) -> None:
    """The others are compared in test_native.py and test_lattice_lstm_fused.py."""
    case = LSTMCase.draw(
        lattice, H, coupled, D=D, E=E, directions=1 + both, extra=extra, scale=1.0, seed=seed
    )
    worst, difference = largest_difference(case.values("batched"), case.values("reference"))
    assert difference <= TOLERANCES["float64"], f"{worst}: {difference:.1e}"


@pytest.mark.parametrize("coupled", [True, False])
def test_reference_without_words_is_a_plain_loop(coupled: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    weights = make_weights(generator, coupled)
    lattice = Lattice.from_words([6, 1], [])
    x, word_x = make_inputs(lattice, generator)
    expected = torch.zeros(2, 6, H, dtype=torch.float64)
    for b, length in enumerate([6, 1]):
        h = c = torch.zeros(H, dtype=torch.float64)
        for t in range(length):
            z = x[b, t] @ weights.char_input + h @ weights.char_hidden + weights.char_bias
            i = torch.sigmoid(z[:H])
            g = torch.tanh(z[-H:])
            o = torch.sigmoid(z[-2 * H : -H])
            f = 1 - i if coupled else torch.sigmoid(z[H : 2 * H])
            c = f * c + i * g
            h = o * torch.tanh(c)
            expected[b, t] = h
    torch.testing.assert_close(
        reference.lattice_lstm(x, word_x, lattice, weights, coupled), expected
    )


def test_reference_uncoupled_without_words_is_torch_lstm() -> None:
    generator = torch.Generator().manual_seed(4)
    weights = make_weights(generator, coupled=False)
    lattice = Lattice.from_words([5], [])
    x, word_x = make_inputs(lattice, generator)
    lstm = torch.nn.LSTM(D, H, batch_first=True, dtype=torch.float64)
    places = [0, 1, 3, 2]  # ours i, f, o, g; torch's i, f, g, o
    with torch.no_grad():
        for theirs, ours in (
            (lstm.weight_ih_l0, weights.char_input),
            (lstm.weight_hh_l0, weights.char_hidden),
        ):
            theirs.copy_(torch.cat([ours.chunk(4, dim=1)[p] for p in places], dim=1).T)
        lstm.bias_ih_l0.copy_(torch.cat([weights.char_bias.chunk(4)[p] for p in places]))
        lstm.bias_hh_l0.zero_()
    torch.testing.assert_close(lattice_lstm(x, word_x, lattice, weights, coupled=False), lstm(x)[0])


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("backend", ["reference", "batched"])
def test_gradcheck(backend: str, coupled: bool) -> None:
    lattice = Lattice.from_words([3, 2], [(0, 0, 3, 1), (0, 1, 3, 2), (1, 0, 2, 3), (0, 0, 2, 4)])
    case = LSTMCase.draw(lattice, 2, coupled, D=2, E=2, directions=1, scale=1.0)

    def run(x: Tensor, word_x: Tensor, *flat: Tensor) -> Tensor:
        return lattice_lstm(x, word_x, lattice, LatticeLSTMWeights(*flat), coupled, backend)

    assert torch.autograd.gradcheck(run, (case.x, case.word_x, *case.weights[0]))


@pytest.mark.parametrize("backend", ["reference", "batched", NATIVE])
@settings(max_examples=20)
@given(lattice=lattices(), seed=st.integers(0, 2**31))
def test_a_sentence_does_not_depend_on_its_batch(lattice: Lattice, seed: int, backend: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = make_weights(generator, True)
    x, word_x = make_inputs(lattice, generator)
    together = lattice_lstm(x, word_x, lattice, weights, backend=backend)
    for b, length in enumerate(lattice.lengths.tolist()):
        mine = np.flatnonzero(lattice.sentence == b)
        alone = Lattice(
            lattice.lengths[b : b + 1],
            lattice.sentence[mine] * 0,
            lattice.start[mine],
            lattice.end[mine],
            lattice.word[mine],
        )
        h = lattice_lstm(
            x[b : b + 1, :length], word_x[torch.from_numpy(mine)], alone, weights, backend=backend
        )
        torch.testing.assert_close(h[0], together[b, :length], rtol=1e-12, atol=1e-12)
        assert (together[b, length:] == 0).all()


@pytest.mark.parametrize("backend", ["reference", "batched", NATIVE])
def test_padding_is_never_read(backend: str) -> None:
    case = LSTMCase.draw(Lattice.from_words([2, 5, 0], [(0, 0, 2, 0), (1, 1, 4, 1)]), H, D=D, E=E)
    assert case.x.isnan().any()
    found = case.values(backend)
    with torch.no_grad():
        case.x.nan_to_num_()
    expected = case.values(backend)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("sentences", [[4], [5, 2], [1]])
def test_without_gradients_it_is_the_same_and_leaves_its_inputs_alone(
    sentences: list[int], backend: str
) -> None:
    generator = torch.Generator().manual_seed(10)
    ahead = make_weights(generator, True)
    back = make_weights(generator, True)
    lattice = Lattice.from_words(
        sentences, [(0, 0, 3, 0), (0, 2, 4, 1)] if sentences[0] > 3 else []
    )
    x, word_x = make_inputs(lattice, generator)
    given = [tensor.detach().clone() for tensor in (x, word_x, *ahead, *back)]
    one = lattice_lstm(x, word_x, lattice, ahead, backend=backend)
    both = bidirectional(x, word_x, lattice, ahead, back, backend=backend)
    with torch.no_grad():
        assert torch.equal(lattice_lstm(x, word_x, lattice, ahead, backend=backend), one)
        assert torch.equal(bidirectional(x, word_x, lattice, ahead, back, backend=backend), both)
    assert all(torch.equal(*pair) for pair in zip((x, word_x, *ahead, *back), given, strict=True))


def test_the_order_of_words_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(7)
    weights = make_weights(generator, True)
    words = [(0, 0, 3, 0), (0, 3, 7, 1), (0, 2, 4, 2), (0, 3, 5, 3), (0, 5, 7, 4)]
    lattice = Lattice.from_words([7], words)
    x, word_x = make_inputs(lattice, generator)
    mixed = [3, 1, 4, 0, 2]
    shuffled = Lattice.from_words([7], [words[k] for k in mixed])
    h = lattice_lstm(x, word_x, lattice, weights)
    torch.testing.assert_close(
        h, lattice_lstm(x, word_x[mixed], shuffled, weights), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("backend", ["reference", "batched", NATIVE])
def test_where_words_end_the_previous_cell_does_not_enter(backend: str) -> None:
    """A word over the whole sentence (0, 3): characters 1 and 2 meet only in h, which these weights
    ignore.
    """
    generator = torch.Generator().manual_seed(8)
    weights = make_weights(generator, True)
    weights = weights._replace(char_hidden=torch.zeros_like(weights.char_hidden))
    lattice = Lattice.from_words([3], [(0, 0, 3, 0)])
    x, word_x = make_inputs(lattice, generator)
    h = lattice_lstm(x, word_x, lattice, weights, backend=backend)
    (gradient,) = torch.autograd.grad(h[0, 2].sum(), x)
    assert (gradient[0, 1] == 0).all()
    assert (gradient[0, 0] != 0).any()


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_long_sentence_with_a_word_over_all_of_it(dtype: torch.dtype, backend: str) -> None:
    generator = torch.Generator().manual_seed(9)
    weights = make_weights(generator, True, dtype)
    T = 500
    lattice = Lattice.from_words([T], [(0, 0, T, 0), (0, 10, 12, 1)])
    x = torch.randn(1, T, D, generator=generator, dtype=dtype, requires_grad=True)
    word_x = torch.randn(2, E, generator=generator, dtype=dtype, requires_grad=True)
    h = lattice_lstm(x, word_x, lattice, weights, backend=backend)
    h[0, -1].sum().backward()
    assert h.isfinite().all()
    assert (word_x.grad[0] != 0).any()


def test_shapes_that_do_not_fit_are_refused() -> None:
    weights = make_weights(torch.Generator(), True)
    lattice = Lattice.from_words([3], [(0, 0, 2, 0)])
    x = torch.zeros(1, 3, D, dtype=torch.float64)
    word_x = torch.zeros(1, E, dtype=torch.float64)
    with pytest.raises(ValueError, match="char_input must be"):
        lattice_lstm(x, word_x, lattice, weights, coupled=False)
    with pytest.raises(ValueError, match="1 words"):
        lattice_lstm(x, word_x[:0], lattice, weights)
    narrow = LatticeLSTMWeights(*(tensor[..., : tensor.shape[-1] // H] for tensor in weights))
    narrow = narrow._replace(
        **{
            name: getattr(narrow, name)[:1]
            for name in ("char_hidden", "word_hidden", "link_hidden")
        }
    )
    with pytest.raises(
        ValueError, match="both directions must have one H: forward has 5, backward 1"
    ):
        bidirectional(x, word_x, lattice, weights, narrow)
    with pytest.raises(ValueError, match="longest of 3"):
        lattice_lstm(x[:, :2], word_x, lattice, weights)
    with pytest.raises(ValueError, match="backend must be one of"):
        lattice_lstm(x, word_x, lattice, weights, backend="cuda")


def test_a_backend_that_cannot_work_here_says_why() -> None:
    weights = make_weights(torch.Generator(), True)
    lattice = Lattice.from_words([3], [(0, 0, 2, 0)])
    x = torch.zeros(1, 3, D, dtype=torch.float64)
    word_x = torch.zeros(1, E, dtype=torch.float64)
    with pytest.raises(
        InputError, match="fused-bf16 cannot be used: it takes float32, not float64"
    ):
        lattice_lstm(x, word_x, lattice, weights, backend="fused")


def test_auto_takes_the_precision_that_is_asked_for(monkeypatch):
    x = torch.empty(0)
    assert resolve("auto-fp32", x) == resolve("auto", x) != "auto"
    monkeypatch.setattr(
        "hanlattice.ops.lattice_lstm._best", lambda x: "fused"
    )  # as with a tensor on a GPU
    assert resolve("auto", x) == resolve("fused", x) == "fused-bf16"
    assert resolve("auto-fp32", x) == "fused-fp32"


def test_auto_comes_once_with_its_full_name():
    names = runnable(torch.empty(0))
    best = "batched" if library.missing() else "native"
    assert list(names)[:2] == ["auto", "reference"]
    assert names["auto"] == best
    assert best not in names
    assert len(set(names.values())) == len(names)
    assert runnable(torch.empty(0, dtype=torch.float16))["auto"] == "batched"
