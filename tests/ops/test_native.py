"""The C path of the lattice LSTM against `reference`, for every instruction set that this machine
can run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice import Lattice
from hanlattice.errors import InputError
from hanlattice.lab.bench.equality import LSTMCase, largest_difference
from hanlattice.ops import library
from hanlattice.ops import threads as ops_threads
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, lattice_lstm
from hanlattice.ops.lattice_lstm.native import KernelCall, KernelTask
from tests.helpers.levels import at_level
from tests.helpers.strategies import lattices

pytestmark = pytest.mark.skipif(
    bool(library.missing()), reason=f"no C library: {library.missing()}"
)

D = 3
E = 4
LEVELS = library.possible_levels()
coupled_or_not = pytest.mark.parametrize("coupled", [True, False])
every_level = pytest.mark.parametrize("level", LEVELS)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def make(
    lattice: Lattice,
    H: int = 5,
    coupled: bool = True,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> LSTMCase:
    scale = min(1.0, 3 / H**0.5)
    return LSTMCase.draw(lattice, H, coupled, D=D, E=E, extra=1, scale=scale, seed=seed).to(
        "cpu", dtype
    )


def one(case: LSTMCase, backend: str = "native") -> Tensor:
    """The forward direction alone."""
    return replace(case, weights=case.weights[:1]).run(backend)


def assert_same(fast: dict[str, Tensor], slow: dict[str, Tensor], tolerance: float = 1e-9) -> None:
    worst, difference = largest_difference(fast, slow)
    assert difference <= tolerance, f"{worst}: {difference:.1e}"


def random_lattice(lengths: list[int], seed: int = 0, words_each: float = 1.0) -> Lattice:
    """About this many words a character, in any order."""
    rng = np.random.default_rng(seed)
    words = []
    for b, length in enumerate(lengths):
        for _ in range(int(length * words_each) if length > 1 else 0):
            start = int(rng.integers(0, length - 1))
            words.append((b, start, int(rng.integers(start + 2, length + 1)), 0))
    return Lattice.from_words(lengths, [words[k] for k in rng.permutation(len(words))])


@settings(max_examples=60)
@given(
    lattice=lattices(),
    both=st.booleans(),
    seed=st.integers(0, 2**31),
    coupled=st.booleans(),
    level=st.sampled_from(LEVELS or ("none",)),
)
def test_it_equals_the_reference(
    lattice: Lattice, both: bool, seed: int, coupled: bool, level: str
) -> None:
    case = make(lattice, coupled=coupled, seed=seed)
    case = case if both else replace(case, weights=case.weights[:1])
    with at_level(level):
        assert_same(case.values("native"), case.values("reference"))


@coupled_or_not
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("H", [1, 5, 17, 100, 130])
def test_any_width(H: int, dtype: torch.dtype, coupled: bool) -> None:
    """More sentences than a call takes, ragged, with empty ones and with more words than
    characters.
    """
    lengths = [*range(12), *[9] * 30]
    case = make(random_lattice(lengths, words_each=1.5), H=H, coupled=coupled, dtype=dtype)
    slow = case.values("batched")
    for level in LEVELS:
        with at_level(level):
            assert_same(case.values("native"), slow, 1e-9 if dtype == torch.float64 else 1e-4)


@coupled_or_not
def test_float32_is_near_reference_in_float64(coupled: bool) -> None:
    case = make(random_lattice([12, 7, 1, 0]), H=17, coupled=coupled, dtype=torch.float32)
    slow = case.to("cpu", torch.float64).values("reference")
    for level in LEVELS:
        with at_level(level):
            assert_same(case.values("native"), slow, 1e-5)


@pytest.mark.parametrize("words", [0, 300])
def test_any_number_of_words_at_a_place(words: int) -> None:
    lattice = Lattice.from_words([3, 6], [(1, 2, 4 + k % 3, 0) for k in range(words)])
    case = make(lattice, H=17)
    slow = case.run("reference")
    fast = case.run("native")
    assert_same(case.with_gradients(fast), case.with_gradients(slow))


@coupled_or_not
def test_gradcheck(coupled: bool) -> None:
    lattice = Lattice.from_words([3, 2], [(0, 0, 3, 1), (0, 1, 3, 2), (1, 0, 2, 3), (0, 0, 2, 4)])
    case = make(lattice, H=2, coupled=coupled)

    def run(x: Tensor, word_x: Tensor, *flat: Tensor) -> Tensor:
        ahead = LatticeLSTMWeights(*flat[:9])
        back = LatticeLSTMWeights(*flat[9:])
        return bidirectional(x, word_x, lattice, ahead, back, coupled, "native")

    assert torch.autograd.gradcheck(run, (case.x, case.word_x, *case.weights[0], *case.weights[1]))


@every_level
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("is_fork", [False, True], ids=["torch's threads", "own threads"])
def test_the_number_of_threads_changes_no_bit(
    is_fork: bool, dtype: torch.dtype, level: str
) -> None:
    case = make(random_lattice([11, 3, 0, 9, 9, 1, 8] * 6), H=17, dtype=dtype)
    weights = [
        LatticeLSTMWeights(*(tensor.detach().numpy() for tensor in each)) for each in case.weights
    ]
    found = []
    for count in (1, 2, 3, 8):
        with threads(count), at_level(level), mock.patch.object(ops_threads, "_is_fork", is_fork):
            x = case.x.detach().numpy()
            word_x = case.word_x.detach().numpy()
            problem = KernelCall(x, word_x, case.lattice, weights, True)
            h, traces = problem.run_forward(keep=True)
            gates = problem.run_backward(np.sin(h), traces)
            found.append([h, *(tensor for direction in gates for tensor in direction)])
    for other in found[1:]:
        assert all(np.array_equal(*pair) for pair in zip(found[0], other, strict=True))


@every_level
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rest_of_the_batch_changes_no_bit(dtype: torch.dtype, level: str) -> None:
    lattice = random_lattice([11, 3, 0, 9, 9, 1, 8, 2, 5] * 4)
    case = make(lattice, H=17, dtype=dtype)
    with at_level(level), torch.no_grad():
        together = case.run("native")
        for b, length in enumerate(lattice.lengths[:9].tolist()):
            mine = np.flatnonzero(lattice.sentence == b)
            places = (
                lattice.sentence[mine] * 0,
                lattice.start[mine],
                lattice.end[mine],
                lattice.word[mine],
            )
            alone = Lattice(lattice.lengths[b : b + 1], *places)
            x = case.x[b : b + 1, :length]
            word_x = case.word_x[torch.from_numpy(mine)]
            h = bidirectional(x, word_x, alone, case.weights[0], case.weights[1], backend="native")
            assert torch.equal(h[0], together[b, :length])
            assert (together[b, length:] == 0).all()


@every_level
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_inside_a_sentence_comes_out(dtype: torch.dtype, level: str) -> None:
    case = make(random_lattice([6, 6]), H=17, dtype=dtype)
    with at_level(level), torch.no_grad():
        clean = one(case)
        case.x[0, 3] = float("nan")
        h = one(case)
    assert torch.equal(h[0, :3], clean[0, :3])
    assert h[0, 3:6].isnan().all()
    assert torch.equal(h[1], clean[1])


@every_level
@pytest.mark.parametrize("scale", [0.0, 1e3, 1e30, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_gates_stay_finite(dtype: torch.dtype, scale: float, level: str) -> None:
    case = make(random_lattice([8, 3]), H=5, dtype=dtype)
    with torch.no_grad():
        for weights in case.weights:
            weights.char_bias.copy_(torch.where(weights.char_bias > 0, scale, -scale))
            weights.word_bias.copy_(torch.where(weights.word_bias > 0, scale, -scale))
            weights.link_bias.copy_(torch.where(weights.link_bias > 0, scale, -scale))
    slow = case.run("reference")
    with at_level(level):
        fast = case.run("native")
        assert_same(case.with_gradients(fast), case.with_gradients(slow), 1e-5)


@every_level
@pytest.mark.parametrize(("dtype", "units"), [(torch.float32, 5.0), (torch.float64, 8.0)])
def test_the_functions_are_precise_near_zero_and_far_from_it(
    dtype: torch.dtype, units: float, level: str
) -> None:
    """One character whose i and o are 1: h = tanh tanh g, and g runs over many sizes. In units of
    the last place.
    """
    size = torch.logspace(-30, 1.6, 400, dtype=dtype)
    g = torch.cat([size, -size, torch.linspace(-3, 3, 400, dtype=dtype)])
    H = len(g)
    none = torch.zeros(0, dtype=dtype)
    bias = torch.cat([torch.full((2 * H,), 80.0, dtype=dtype), g])
    zeros = [
        torch.zeros(shape, dtype=dtype)
        for shape in ((1, 3 * H), (H, 3 * H), (3 * H,), (1, H), (H, H), (H,))
    ]
    weights = LatticeLSTMWeights(zeros[0], zeros[1], bias, *zeros)
    with at_level(level):
        x = none.new_zeros(1, 1, 1)
        word_x = none.new_zeros(0, 1)
        h = lattice_lstm(x, word_x, Lattice.from_words([1], []), weights, backend="native")
    exact = (
        torch.tanh(torch.tanh(g.double())) if dtype == torch.float32 else torch.tanh(torch.tanh(g))
    )
    error = ((h[0, 0].double() - exact).abs() / exact.abs()).max().item()
    assert error < units * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_very_long_sentence_with_a_word_over_all_of_it(dtype: torch.dtype) -> None:
    T = 20_000
    words = [(0, 0, T, 0), (0, 10, 12, 1), (0, T - 2, T, 2)]
    case = make(Lattice.from_words([T], words), H=17, dtype=dtype)
    h = one(case)
    assert h.isfinite().all()
    found = torch.autograd.grad(h[0, T - 1].sum(), [case.x, case.word_x, *case.weights[0]])
    assert all(gradient.isfinite().all() for gradient in found)
    assert (found[1][0] != 0).any()
    assert (
        found[0][0, 0] != 0
    ).any()  # by the word: through 20,000 characters nothing else would be left


@coupled_or_not
def test_memory_that_nobody_filled_is_not_read(coupled: bool) -> None:
    case = make(random_lattice([9, 4, 0, 1, 7]), H=17, coupled=coupled)
    expected = case.run("native")
    with mock.patch.object(
        KernelCall, "new", lambda self, *shape: np.full(shape, np.nan, dtype=self.x.dtype)
    ):
        h = case.run("native")
        found = case.with_gradients(h)
    assert torch.equal(h, expected)
    assert_same(found, case.with_gradients(expected))


def test_without_gradients_it_is_the_same_and_keeps_nothing() -> None:
    case = make(random_lattice([9, 4, 0]), H=17)
    before = {name: tensor.detach().clone() for name, tensor in case.named().items()}
    single = one(case)
    both = case.run("native")
    with torch.no_grad():
        assert torch.equal(one(case), single)
        assert torch.equal(case.run("native"), both)
    assert all(
        torch.equal(tensor.nan_to_num(), before[name].nan_to_num())
        for name, tensor in case.named().items()
    )


def test_backward_twice_gives_the_same() -> None:
    case = make(random_lattice([9, 4, 0]), H=17)
    h = case.run("native")
    wanted = list(case.named().values())
    first = torch.autograd.grad(h.sum(), wanted, retain_graph=True)
    second = torch.autograd.grad(h.sum(), wanted)
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))


@pytest.mark.parametrize("wanted", ["x", "word_x", "forward char_hidden", "backward link_input"])
def test_only_what_wants_a_gradient_gets_one(wanted: str) -> None:
    case = make(random_lattice([9, 4, 0]), H=17)
    expected = case.values("native")[f"gradient of {wanted}"]
    for name, tensor in case.named().items():
        tensor.requires_grad_(name == wanted)
    h = case.run("native")
    (h * torch.linspace(-1, 2, h.numel(), dtype=h.dtype).view_as(h)).sum().backward()
    gradients = {
        name: tensor.grad for name, tensor in case.named().items() if tensor.grad is not None
    }
    assert list(gradients) == [wanted]
    torch.testing.assert_close(gradients[wanted], expected)


def test_tensors_need_not_be_contiguous() -> None:
    case = make(random_lattice([9, 4, 0]), H=17)
    expected = case.run("native")

    def spread(tensor: Tensor) -> Tensor:
        return torch.stack([tensor, tensor], dim=-1)[..., 0]

    x = spread(case.x)
    word_x = spread(case.word_x)
    ahead, back = (LatticeLSTMWeights(*map(spread, each)) for each in case.weights)
    h = bidirectional(x, word_x, case.lattice, ahead, back, backend="native")
    assert torch.equal(h, expected)
    (by_expanded,) = torch.autograd.grad(h.sum(), case.x)  # whose d h is one number, expanded
    (by_ones,) = torch.autograd.grad(expected, case.x, torch.ones_like(expected))
    torch.testing.assert_close(by_expanded, by_ones)


def test_arrays_of_a_lattice_need_not_be_contiguous() -> None:
    case = make(random_lattice([9, 4, 0]), H=17)
    expected = case.run("native")
    names = ("lengths", "sentence", "start", "end", "word")
    spread = Lattice.trusted(*(np.repeat(getattr(case.lattice, name), 2)[::2] for name in names))
    h = replace(case, lattice=spread).run("native")
    assert torch.equal(h, expected)
    assert_same(case.with_gradients(h), case.with_gradients(expected))


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_nothing_to_do(lengths: list[int]) -> None:
    weights = make(Lattice.from_words([1], [])).weights[0]
    x = torch.randn(len(lengths), 2, D, dtype=torch.float64)
    word_x = torch.zeros(0, E, dtype=torch.float64)
    h = bidirectional(
        x, word_x, Lattice.from_words(lengths, []), weights, weights, backend="native"
    )
    assert torch.equal(h, torch.zeros(len(lengths), 2, 10, dtype=torch.float64))


def test_mixed_types_are_refused() -> None:
    case = make(random_lattice([4]))
    with pytest.raises(RuntimeError, match="all of them float32 or all float64"):
        lattice_lstm(case.x.float(), case.word_x, case.lattice, case.weights[0], backend="native")


def test_without_the_library_it_says_why() -> None:
    case = make(random_lattice([4]))
    assert library.available(case.x)
    assert not library.available(case.x.half())
    with mock.patch.object(
        library, "loaded", return_value=library.Loaded(None, "", "it was left at home")
    ):
        assert not library.available(case.x)
        with pytest.raises(InputError, match="left at home"):
            one(case)


@pytest.mark.parametrize("name", ["lattice_forward", "lattice_backward"])
def test_a_task_of_another_build_is_refused(name: str) -> None:
    call = library.function(name, torch.float32, ctypes.c_void_p)
    task = KernelTask(size=ctypes.sizeof(KernelTask) + 8)
    assert call(ctypes.addressof(task)) == -1
