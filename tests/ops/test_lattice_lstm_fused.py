"""The Triton kernels against `reference` in float64, outputs and every gradient by name: on a GPU where there is one,
else in Triton's interpreter, which runs them on the CPU."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice import Lattice
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, fused, lattice_lstm, prepare
from hanlattice.ops.lattice_lstm.fused import make_schedule
from tests.strategies import lattices

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'hanlattice[triton]'")


DEVICE = torch.device("cuda:0" if HAS_GPU else "cpu")
BF16 = pytest.param("bf16", marks=pytest.mark.skipif(not HAS_GPU, reason="Triton's interpreter has no bf16 products"))
# Relative errors, in the Euclidean norm, of one tensor. The interpreter computes tf32 products in float32.
TOLERANCE = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 2e-2}
few = settings(max_examples=40 if HAS_GPU else 6, deadline=None)


def make_weights(generator: torch.Generator, D: int, E: int, H: int, coupled: bool) -> list[Tensor]:
    G = 3 if coupled else 4
    shapes = ((D, G * H), (H, G * H), (G * H,), (E, 3 * H), (H, 3 * H), (3 * H,), (D, H), (H, H), (H,))
    return [torch.randn(shape, generator=generator) / (shape[0] ** 0.5 if len(shape) == 2 else 1) for shape in shapes]


def random_lattice(rng: np.random.Generator, lengths: list[int], density: float) -> Lattice:
    words = []
    for b, length in enumerate(lengths):
        starts = rng.integers(0, max(1, length - 1), size=rng.poisson(density * length) if length > 1 else 0)
        words += [(b, int(start), int(min(length, start + rng.integers(2, 6))), 0) for start in starts]
    return Lattice.from_words(lengths, words)


def results(backend: str, lattice: Lattice, tensors: list[Tensor], both: bool, coupled: bool) -> dict[str, Tensor]:
    """h and the gradients, by name, of a sum in which no two outputs weigh the same."""
    x, word_x, *flat = (tensor.detach().clone().requires_grad_() for tensor in tensors)
    weights = [LatticeLSTMWeights(*flat[:9]), LatticeLSTMWeights(*flat[9:])]
    if both:
        h = bidirectional(x, word_x, lattice, *weights, coupled, backend)
    else:
        h = lattice_lstm(x, word_x, lattice, weights[0], coupled, backend)
    names = ["x", "word_x", *(f"{n}.{name}" for n in range(2 if both else 1) for name in weights[0]._fields)]
    inputs = [x, word_x, *flat][: len(names)]
    found: list[Tensor | None] = [None] * len(names)
    if h.requires_grad:
        scale = torch.linspace(-1, 2, h.numel(), dtype=h.dtype).view_as(h).to(h.device)
        found = list(torch.autograd.grad((h * scale).sum(), inputs, allow_unused=True))
    named = {name: torch.zeros_like(t) if g is None else g for name, t, g in zip(names, inputs, found, strict=True)}
    return {"h": h.detach(), **named}


def assert_equal_to_reference(
    lattice: Lattice, H: int, precision: str, both: bool = True, coupled: bool = True, extra: int = 0, seed: int = 0
) -> None:
    """Padding is poisoned: the reference does not read it, so nobody may."""
    generator = torch.Generator().manual_seed(seed)
    D, E = 5, 7
    x = torch.randn(len(lattice.lengths), int(lattice.lengths.max()) + extra, D, generator=generator)
    for row, length in zip(x, lattice.lengths, strict=True):
        row[length:] = float("nan")
    word_x = torch.randn(len(lattice), E, generator=generator)
    tensors = [x, word_x, *make_weights(generator, D, E, H, coupled), *make_weights(generator, D, E, H, coupled)]
    expected = results("reference", lattice, [tensor.double() for tensor in tensors], both, coupled)
    found = results(f"fused-{precision}", lattice, [tensor.to(DEVICE) for tensor in tensors], both, coupled)
    for name, value in expected.items():
        error = (found[name].cpu().double() - value).norm() / value.norm().clamp(min=1e-6)
        assert error < TOLERANCE[precision], f"{name}: relative error {error:.1e} with {precision}"


@few
@given(lattice=lattices(), both=st.booleans(), coupled=st.booleans(), extra=st.integers(0, 2), seed=st.integers(0, 99))
def test_any_lattice(lattice: Lattice, both: bool, coupled: bool, extra: int, seed: int) -> None:
    assert_equal_to_reference(lattice, 5, "fp32", both, coupled, extra, seed)


@pytest.mark.parametrize("precision", ["fp32", "tf32", BF16])
@pytest.mark.parametrize("H", [1, 17, 37])
def test_odd_widths_in_every_precision(H: int, precision: str) -> None:
    lattice = random_lattice(np.random.default_rng(H), [4, 0, 5, 1], 1.0)
    assert_equal_to_reference(lattice, H, precision)


@pytest.mark.parametrize("coupled", [True, False])
def test_units_in_several_tiles(coupled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with H = 512, in small."""
    shape = fused.launch_shape
    monkeypatch.setattr(fused, "launch_shape", lambda *given: shape(*given)._replace(block_n=16))
    lattice = random_lattice(np.random.default_rng(6), [4, 3], 1.0)
    assert_equal_to_reference(lattice, 37, "fp32", coupled=coupled)


@pytest.mark.parametrize("coupled", [True, False])
def test_more_words_at_a_place_than_a_program_takes_at_once(coupled: bool) -> None:
    words = [(0, 1, 3 + n % 2, n) for n in range(37)] + [(1, 0, 2, 40)]
    assert_equal_to_reference(Lattice.from_words([4, 2], words), 6, "fp32", coupled=coupled)


@pytest.mark.parametrize("programs", [1, 2, 16])
def test_many_sentences_a_program_or_few(programs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "programs_at_once", lambda device: programs)
    monkeypatch.setattr(fused, "launch_shape", fused.launch_shape.__wrapped__)
    lattice = random_lattice(np.random.default_rng(1), [3, 4, 2, 4, 1] * 4, 1.5)
    assert_equal_to_reference(lattice, 4, "fp32")


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device: too large for Triton's interpreter")
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize(("H", "B"), [(100, 64), (200, 40), (512, 20)])
def test_real_sizes(H: int, B: int, precision: str) -> None:
    rng = np.random.default_rng(H)
    lattice = random_lattice(rng, rng.integers(0, 40, size=B).tolist(), 1.0)
    assert_equal_to_reference(lattice, H, precision, coupled=H != 200)


@pytest.mark.parametrize("T", [20_000 if HAS_GPU else 25])
def test_a_long_sentence_with_a_word_over_all_of_it(T: int) -> None:
    """In float64 the batched twin is exact, and the reference would take minutes."""
    lattice = Lattice.from_words([T], [(0, 0, T, 0), (0, 10, 12, 1)])
    generator = torch.Generator().manual_seed(3)
    weights = make_weights(generator, 3, 4, 8, True)
    x, word_x = torch.randn(1, T, 3, generator=generator), torch.randn(2, 4, generator=generator)
    tensors = [x, word_x, *weights, *weights]
    expected = results("batched", lattice, [tensor.double() for tensor in tensors], True, True)
    found = results("fused-fp32", lattice, [tensor.to(DEVICE) for tensor in tensors], True, True)
    for name, value in expected.items():
        assert (found[name].cpu().double() - value).norm() <= 1e-4 * value.norm(), name
    assert (found["word_x"][0] != 0).any()


def test_without_gradients_it_is_the_same_and_sees_what_an_optimizer_did() -> None:
    """A fused optimizer changes weights without a trace in their version counters."""
    generator = torch.Generator().manual_seed(4)
    lattice = random_lattice(np.random.default_rng(2), [5, 3], 1.0)
    x, word_x = (torch.randn(shape, generator=generator).to(DEVICE) for shape in ((2, 5, 3), (len(lattice), 4)))
    flat = [torch.nn.Parameter(tensor.to(DEVICE)) for tensor in make_weights(generator, 3, 4, 6, True)]
    weights = LatticeLSTMWeights(*flat)
    optimizer = torch.optim.AdamW(flat, lr=0.1, fused=True)
    for _ in range(2):
        with_gradients = lattice_lstm(x, word_x, lattice, weights, backend="fused-fp32")
        with torch.no_grad():
            assert torch.equal(lattice_lstm(x, word_x, lattice, weights, backend="fused-fp32"), with_gradients)
        with_gradients.sum().backward()
        optimizer.step()


def test_the_same_call_gives_the_same_bits() -> None:
    lattice = random_lattice(np.random.default_rng(3), [4, 2, 4], 2.0)
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(3, 4, 5, generator=generator), torch.randn(len(lattice), 7, generator=generator)]
    tensors += make_weights(generator, 5, 7, 9, True) + make_weights(generator, 5, 7, 9, True)
    tensors = [tensor.to(DEVICE) for tensor in tensors]
    first, second = (results("fused", lattice, tensors, True, True) if HAS_GPU else
                     results("fused-fp32", lattice, tensors, True, True) for _ in range(2))  # fmt: skip
    assert all(torch.equal(first[name], second[name]) for name in first)


@given(lattice=lattices())
def test_the_schedule_finds_every_word_at_both_its_ends(lattice: Lattice) -> None:
    plan = make_schedule(lattice, torch.device("cpu"))
    expected = sorted(zip(lattice.sentence, lattice.start, lattice.end - 1, range(len(lattice)), strict=True))
    for direction in range(2):
        starts, ends = plan.starts[direction].tolist(), plan.ends[direction].tolist()
        ended_at = {at: r for r in range(len(ends) - 1) for at in range(ends[r], ends[r + 1])}
        found = []
        for r in range(len(starts) - 1):
            for at in range(starts[r], starts[r + 1]):
                far = ended_at[int(plan.place[direction, at])]
                low, high = sorted((r % plan.stride, far % plan.stride))
                assert r // plan.stride == far // plan.stride
                found.append((r // plan.stride, low, high, int(plan.row[direction, at])))
        assert sorted(found) == expected


def test_a_schedule_is_made_once() -> None:
    lattice = Lattice.from_words([3], [(0, 0, 2, 0)])
    prepare(lattice, "cpu")
    assert not lattice.cache
    if HAS_GPU:
        prepare(lattice, DEVICE)
        kept = dict(lattice.cache)
        prepare(lattice, DEVICE)
        assert kept
        assert all(lattice.cache[key] is value for key, value in kept.items())


def test_torch_settings_of_others_are_left_alone() -> None:
    """Whatever precision they chose for torch's own products, and float64 as the default dtype."""
    lattice = random_lattice(np.random.default_rng(8), [3, 2], 1.0)
    kept = torch.get_float32_matmul_precision()
    try:
        for chosen in ("medium", "high", "highest"):
            torch.set_float32_matmul_precision(chosen)
            with fused.matmul_precision("tf32"):
                pass
            assert torch.get_float32_matmul_precision() == chosen
        torch.set_default_dtype(torch.float64)
        generator = torch.Generator().manual_seed(1)
        shapes = [(2, 3, 5), (len(lattice), 7)]
        tensors = [torch.randn(shape, generator=generator) for shape in shapes]
        tensors += make_weights(generator, 5, 7, 4, True) + make_weights(generator, 5, 7, 4, True)
        results("fused-fp32", lattice, [tensor.float().to(DEVICE) for tensor in tensors], True, True)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision(kept)
