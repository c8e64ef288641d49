"""Compressed weights come back near, in the same shape, and what cannot be small stays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.checkpoint import quantize
from hanlattice.checkpoint.quantize import SCALE

TABLES = (
    "words.trained",
    "words.fixed",
    "chars.vectors",
    "words.words.fixed",
    "extra_embeddings.positions.vectors",
)
MATRIX = "encoder.weight"
sizes = st.integers(0, 7)


def compressed(tensors: dict[str, Tensor], precision: str) -> dict[str, Tensor]:
    arrays = quantize.compressed(
        {name: tensor.numpy() for name, tensor in tensors.items()}, precision
    )
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def expanded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    arrays = quantize.expanded({name: tensor.numpy() for name, tensor in tensors.items()})
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def drawn(rows: int, columns: int, seed: int = 0, size: float = 1.0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * size


def round_trip(name: str, tensor: Tensor, precision: str) -> Tensor:
    return expanded(compressed({name: tensor}, precision))[name]


def step(name: str, tensor: Tensor) -> Tensor:
    """The distance of two neighbours, for each row of a table or column of a matrix."""
    along = 0 if name == MATRIX else 1
    most = 7 if name.endswith(".fixed") and tensor.shape[1] % 2 == 0 else 127
    return tensor.abs().amax(along, keepdim=True) / most


@pytest.mark.parametrize("name", [*TABLES, MATRIX])
@given(
    rows=sizes,
    columns=st.integers(1, 7),
    seed=st.integers(0, 9),
    size=st.sampled_from([1e-3, 1.0, 200.0]),
)
def test_small_numbers_are_near(name: str, rows: int, columns: int, seed: int, size: float) -> None:
    tensor = drawn(rows, columns, seed, size)
    found = round_trip(name, tensor, "small")
    assert found.shape == tensor.shape
    assert found.dtype == (torch.half if name.endswith(".fixed") else torch.float32)
    if tensor.numel():
        along = 0 if name == MATRIX else 1
        uncut = (step(name, tensor) * 0.52 + 127 * 2**-25) * tensor.shape[
            along
        ] ** 0.5  # nothing is cut off for less
        assert ((found.float() - tensor).norm(dim=along, keepdim=True) <= uncut).all()


@pytest.mark.parametrize("name", [*TABLES, MATRIX])
def test_what_is_whole_already_comes_back_exactly(name):
    """Twice through it is once through it: a packed model can be packed again."""
    once = round_trip(name, drawn(6, 4), "small")
    torch.testing.assert_close(round_trip(name, once, "small"), once, rtol=2e-3, atol=1e-6)


def test_bytes_of_each_kind():
    tensors = {
        "words.trained": drawn(5, 4),
        "words.fixed": drawn(6, 4),
        "extra_embeddings.bichars.fixed": drawn(6, 3),
        MATRIX: drawn(7, 3),
        "encoder.bias": drawn(1, 8)[0],
        "crf.transitions": drawn(4, 4),
        "count": torch.arange(6).reshape(2, 3),
    }
    found = compressed(tensors, "small")
    kinds = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in found.items()}
    assert kinds == {
        "words.trained": (torch.int8, (5, 4)),
        "words.trained.scale": (torch.half, (5, 1)),
        "words.fixed": (torch.uint8, (6, 2)),  # two numbers a byte
        "words.fixed.scale": (torch.half, (6, 1)),
        "extra_embeddings.bichars.fixed": (torch.int8, (6, 3)),  # which has no pairs
        "extra_embeddings.bichars.fixed.scale": (torch.half, (6, 1)),
        MATRIX: (torch.int8, (7, 3)),
        MATRIX + SCALE: (torch.half, (1, 3)),
        "encoder.bias": (torch.float32, (8,)),
        "crf.transitions": (torch.float32, (4, 4)),
        "count": (torch.int64, (2, 3)),
    }
    assert all(tensor.is_contiguous() for tensor in found.values())
    back = expanded(found)
    assert back.keys() == tensors.keys()
    for name in ("encoder.bias", "crf.transitions", "count"):
        assert torch.equal(back[name], tensors[name])


def test_pairs_hold_every_number_they_can():
    rows = torch.arange(-7.0, 7.0).repeat(2).reshape(2, 14)
    rows[:, 0] = 7.0
    assert torch.equal(round_trip("words.fixed", rows, "small").float(), rows)


@pytest.mark.parametrize("name", [*TABLES, MATRIX])
def test_zeros_stay_zeros_beside_others(name):
    tensor = drawn(4, 4)
    tensor[1], tensor[:, 2] = 0.0, 0.0
    found = round_trip(name, tensor, "small")
    assert not found[1].any()
    assert not found[:, 2].any()
    assert found[0].any()


@pytest.mark.parametrize("precision", ["small", "half"])
@pytest.mark.parametrize("name", [*TABLES, MATRIX])
@pytest.mark.parametrize("largest", [32768.0, 40_000.0, 65504.0, 1e6, 1e30, torch.inf, torch.nan])
def test_numbers_that_half_precision_might_not_hold(precision, name, largest):
    """Odd numbers stay near, or their tensor stays; nothing becomes infinite or NaN."""
    tensor = drawn(3, 4)
    tensor[1, 2] = largest
    found = round_trip(name, tensor, precision).float()
    assert torch.equal(found.isfinite(), tensor.isfinite())
    if largest > 32768 or largest != largest:
        assert torch.equal(found.nan_to_num(), tensor.nan_to_num())
    else:
        assert found[1, 2] == pytest.approx(largest, rel=0.31)


def test_numbers_too_small_for_a_scale_become_zero():
    found = round_trip("words.trained", torch.full((2, 3), 1e-9), "small")
    assert not found.any()


def test_half_and_full():
    tensors = {
        "words.trained": drawn(3, 4),
        "words.fixed": drawn(3, 4).half(),
        "encoder.bias": drawn(1, 4)[0],
    }
    half = compressed(tensors, "half")
    full = compressed(tensors, "full")
    assert {name: tensor.dtype for name, tensor in half.items()} == {
        "words.trained": torch.half,
        "words.fixed": torch.half,
        "encoder.bias": torch.float32,
    }
    back = expanded(half)
    assert back["words.trained"].dtype == torch.float32
    assert torch.equal(back["words.trained"], tensors["words.trained"].half().float())
    assert back["words.fixed"].dtype == torch.half
    for name, tensor in expanded(full).items():
        assert tensor.dtype == tensors[name].dtype
        assert torch.equal(tensor, tensors[name])


def test_a_scale_without_its_numbers_is_not_dropped():
    """Whoever reads the tensors then says that it does not fit."""
    assert expanded({"words.trained.scale": torch.ones(2, 1)}).keys() == {"words.trained.scale"}
