"""The Triton kernels against `reference` in float64, outputs and every gradient by name: on a GPU
where there is one, else in Triton's interpreter, which runs them on the CPU."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice import Lattice
from hanlattice.lab.bench.equality import TOLERANCES, LSTMCase, largest_difference
from hanlattice.ops.lattice_lstm import fused, prepare
from hanlattice.ops.lattice_lstm.fused import make_schedule
from tests.helpers.strategies import lattices

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'hanlattice[triton]'")


DEVICE = torch.device("cuda:0" if HAS_GPU else "cpu")
BF16 = pytest.param(
    "bf16",
    marks=pytest.mark.skipif(not HAS_GPU, reason="Triton's interpreter has no bf16 products"),
)
TF32 = pytest.param(
    "tf32",
    marks=pytest.mark.skipif(not HAS_GPU, reason="Triton's interpreter computes it in float32"),
)
few = settings(max_examples=40 if HAS_GPU else 3, deadline=None)


def random_lattice(rng: np.random.Generator, lengths: list[int], density: float) -> Lattice:
    words = []
    for b, length in enumerate(lengths):
        starts = rng.integers(
            0, max(1, length - 1), size=rng.poisson(density * length) if length > 1 else 0
        )
        words += [
            (b, int(start), int(min(length, start + rng.integers(2, 6))), 0) for start in starts
        ]
    return Lattice.from_words(lengths, words)


def check(case: LSTMCase, precision: str, trusted: str = "reference") -> dict[str, Tensor]:
    """The fused values beside those of a trusted backend in float64. Padding is NaN, so reading it
    shows.
    """
    found = case.to(DEVICE, torch.float32).values(f"fused-{precision}")
    worst, difference = largest_difference(found, case.values(trusted))
    assert difference < TOLERANCES[precision], f"{worst}: {difference:.1e} with {precision}"
    return found


def draw(lattice: Lattice, H: int, coupled: bool = True, **more: int) -> LSTMCase:
    return LSTMCase.draw(lattice, H, coupled, D=5, E=7, **more)


@few
@given(
    lattice=lattices(max_length=5, max_words=6) if HAS_GPU else lattices(3, 3, 3),
    both=st.booleans(),
    coupled=st.booleans(),
    extra=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_any_lattice(lattice: Lattice, both: bool, coupled: bool, extra: int, seed: int) -> None:
    check(draw(lattice, 5, coupled, directions=1 + both, extra=extra, seed=seed), "fp32")


@pytest.mark.parametrize("precision", ["fp32", TF32, BF16])
@pytest.mark.parametrize("H", [1, 37])
def test_odd_widths_in_every_precision(H: int, precision: str) -> None:
    check(draw(random_lattice(np.random.default_rng(H), [3, 0, 4, 1], 1.0), H), precision)


@pytest.mark.parametrize("coupled", [True, False])
def test_units_in_several_tiles(coupled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with H = 512, in small."""
    shape = fused.launch_shape
    monkeypatch.setattr(fused, "launch_shape", lambda *given: shape(*given)._replace(block_n=16))
    check(draw(random_lattice(np.random.default_rng(6), [3], 1.0), 19, coupled), "fp32")


def test_more_words_at_a_place_than_a_program_takes_at_once() -> None:
    words = [(0, 0, 2 + n % 2, n) for n in range(37)] + [(1, 0, 2, 40)]
    check(draw(Lattice.from_words([3, 2], words), 3), "fp32")


@pytest.mark.parametrize("programs", [1, 4])
def test_many_sentences_a_program_or_few(programs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "programs_at_once", lambda device: programs)
    monkeypatch.setattr(fused, "launch_shape", fused.launch_shape.__wrapped__)
    check(draw(random_lattice(np.random.default_rng(1), [3, 2, 1, 2, 1, 1], 1.5), 4), "fp32")


@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device: too large for Triton's interpreter")
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize(("H", "B"), [(100, 64), (200, 40), (512, 20)])
def test_real_sizes(H: int, B: int, precision: str) -> None:
    rng = np.random.default_rng(H)
    lattice = random_lattice(rng, rng.integers(0, 40, size=B).tolist(), 1.0)
    check(draw(lattice, H, H != 200), precision)


@pytest.mark.parametrize("T", [20_000 if HAS_GPU else 6])
def test_a_long_sentence_with_a_word_over_all_of_it(T: int) -> None:
    """In float64 the batched twin is exact, and the reference would take minutes."""
    case = draw(Lattice.from_words([T], [(0, 0, T, 0), (0, 3, 5, 1)]), 8)
    assert (check(case, "fp32", "batched")["gradient of word_x"][0] != 0).any()


def test_without_gradients_it_is_the_same_and_sees_what_an_optimizer_did() -> None:
    """A fused optimizer changes weights without a trace in their version counters."""
    lattice = random_lattice(np.random.default_rng(2), [3, 1], 1.0)
    case = draw(lattice, 3, directions=1).to(DEVICE, torch.float32)
    optimizer = torch.optim.AdamW(case.weights[0], lr=0.1, fused=True)
    for _ in range(2):
        with_gradients = case.run("fused-fp32")
        with torch.no_grad():
            assert torch.equal(case.run("fused-fp32"), with_gradients)
        with_gradients.sum().backward()
        optimizer.step()


def test_the_same_call_gives_the_same_bits() -> None:
    lattice = random_lattice(np.random.default_rng(3), [2, 3] * (8 if HAS_GPU else 1), 2.0)
    case = draw(lattice, 9).to(DEVICE, torch.float32)
    first, second = (case.values("fused" if HAS_GPU else "fused-fp32") for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@given(lattice=lattices())
def test_the_schedule_finds_every_word_at_both_its_ends(lattice: Lattice) -> None:
    plan = make_schedule(lattice, torch.device("cpu"))
    expected = sorted(
        zip(lattice.sentence, lattice.start, lattice.end - 1, range(len(lattice)), strict=True)
    )
    for direction in range(2):
        starts = plan.starts[direction].tolist()
        ends = plan.ends[direction].tolist()
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
    case = draw(random_lattice(np.random.default_rng(8), [2], 1.0), 4)
    kept = torch.get_float32_matmul_precision()
    try:
        for chosen in ("medium", "high", "highest"):
            torch.set_float32_matmul_precision(chosen)
            with fused.matmul_precision("tf32"):
                pass
            assert torch.get_float32_matmul_precision() == chosen
        torch.set_default_dtype(torch.float64)
        case.to(DEVICE, torch.float32).values("fused-fp32")
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision(kept)
