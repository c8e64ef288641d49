"""Weights of 8 bits in C against the same cell in numpy, for every instruction set that this
machine can run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanlattice import Lattice
from hanlattice.inference.encoders import (
    NumpyLatticeLSTM,
    NumpyLSTM,
    NumpyStack,
    packed,
    without_words,
)
from hanlattice.ops import library
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, int8, native, trace
from hanlattice.ops.lattice_lstm.weights import weight_shapes
from tests.helpers.levels import at_level
from tests.helpers.strategies import lattices

pytestmark = pytest.mark.skipif(
    bool(library.missing()), reason=f"no C library: {library.missing()}"
)

Floats = npt.NDArray[np.float32]
LEVELS = library.possible_levels()
TWO = Lattice.from_words(
    [6, 3], [(0, 0, 2, 5), (0, 1, 4, 3), (0, 2, 4, 3), (0, 4, 6, 1), (1, 0, 3, 0), (1, 1, 3, 2)]
)


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with at_level(request.param):
        yield request.param


def draw(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Floats:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def eight_bits(matrix: Floats) -> Floats:
    """Rounded as the C library rounds it: by columns."""
    if matrix.ndim < 2 or not matrix.size:
        return matrix
    scale = np.abs(matrix).max(axis=0) / 127
    return (np.rint(matrix / np.where(scale, scale, 1)) * scale).astype(np.float32)


def test_rows_without_numbers_have_scales() -> None:
    """C reads one for each row."""
    rounded = int8.round_rows(np.empty((3, 5, 0), dtype=np.float32))
    assert rounded.scale is not None
    assert rounded.scale.shape == (15,)


def make_weights(
    D: int, E: int, H: int, coupled: bool, seed: int = 0
) -> tuple[LatticeLSTMWeights, ...]:
    rng = np.random.default_rng(seed)
    shapes = weight_shapes(D, E, H, coupled)
    scale = min(1.0, 2 / H**0.5)
    return tuple(
        LatticeLSTMWeights(*(draw(rng, *shape, scale=scale) for shape in shapes)) for _ in range(2)
    )


def make_inputs(lattice: Lattice, D: int, E: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    return draw(rng, len(lattice.lengths), int(lattice.lengths.max(initial=0)), D), draw(
        rng, len(lattice), E
    )


def in_numpy(
    x: Floats,
    word_x: Floats,
    lattice: Lattice,
    weights: tuple[LatticeLSTMWeights, ...],
    coupled: bool,
) -> Floats:
    rounded = tuple(LatticeLSTMWeights(*map(eight_bits, each)) for each in weights)
    return np.concatenate(
        [each.h for each in trace.bidirectional(x, word_x, lattice, rounded, coupled)], axis=2
    )


def most_wrong() -> float:
    """Return the error of rounded rows: one byte has steps of 1/127, two bytes of 1/8191."""
    return 0.08 if int8.number_bytes() == 1 else 2e-3


def test_rows_are_rounded_to_the_nearest(level: str) -> None:
    values = draw(np.random.default_rng(1), 9, 37)
    values[3] = 0
    rows = int8.round_rows(values)
    one = int8.number_bytes() == 1
    kind = (np.uint8 if level == "vnni" else np.int8) if one else np.int16
    numbers = rows.numbers[: -int8.SLACK].view(kind).reshape(9, 37).astype(int)
    numbers -= numbers[3, 0]  # zero, or what is added so that no number has a sign
    largest = 127 if one else 8191
    assert rows.scale is not None
    assert rows.scale == pytest.approx(np.abs(values).max(axis=1) / largest, rel=1e-6)
    assert np.abs(numbers).max(axis=1).tolist() == [0 if n == 3 else largest for n in range(9)]
    assert (np.abs(numbers * rows.scale[:, None] - values) <= rows.scale[:, None] * 0.5001).all()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 70),
    st.integers(1, 40),
    st.sampled_from(LEVELS or ("none",)),
    st.booleans(),
)
def test_products_are_exact(B: int, D: int, H: int, level: str, coupled: bool) -> None:
    """Of numbers that are whole already, no product loses anything: one character, without words,
    is one product.
    """
    rng = np.random.default_rng(B * D * H)
    with at_level(level):
        largest = 127 if int8.number_bytes() == 1 else 8191
    x = rng.integers(-largest, largest, (B, 1, D)).astype(np.float32)
    x[:, :, rng.integers(D)] = largest
    ahead, back = make_weights(D, 2, H, coupled, seed=D)
    whole = rng.integers(-127, 128, ahead.char_input.shape).astype(np.float32)
    whole[rng.integers(D)] = -127
    ahead = ahead._replace(char_input=whole / np.float32(128 * largest))
    lattice = Lattice.from_words([1] * B, [])
    with at_level(level):
        layer = int8.int8_layer((ahead, back), coupled)
        h = int8.run_layers([layer], x, np.empty((0, 2), dtype=np.float32), lattice)
    z = x[:, 0].astype(np.float64) @ ahead.char_input.astype(np.float64) + ahead.char_bias
    i, o, g = np.split(z, 3, axis=1) if coupled else (z[:, :H], z[:, 2 * H : 3 * H], z[:, 3 * H :])
    expected = np.tanh(np.tanh(g) / (1 + np.exp(-i))) / (1 + np.exp(-o))
    assert h[:, 0, :H] == pytest.approx(expected, abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(lattices(), st.integers(1, 20), st.sampled_from(LEVELS or ("none",)), st.booleans())
def test_layers_give_what_numpy_gives_up_to_rounding(
    lattice: Lattice, H: int, level: str, coupled: bool
) -> None:
    first = make_weights(3, 4, H, coupled)
    second = make_weights(2 * H, 4, H, coupled, seed=1)
    x, word_x = make_inputs(lattice, 3, 4)
    with at_level(level):
        layers = [int8.int8_layer(each, coupled) for each in (first, second)]
        h = int8.run_layers(layers, x, word_x, lattice)
        expected = in_numpy(
            in_numpy(x, word_x, lattice, first, coupled), word_x, lattice, second, coupled
        )
        assert h.shape == expected.shape
        assert np.abs(h - expected).max(initial=0) < 2 * most_wrong()
        assert np.sqrt(np.mean((h - expected) ** 2)) < most_wrong() / 4 if h.size else True


def test_a_sentence_does_not_depend_on_its_batch(level: str) -> None:
    weights = make_weights(5, 4, 17, True)
    x, word_x = make_inputs(TWO, 5, 4)
    layer = int8.int8_layer(weights, True)
    both = int8.run_layers([layer], x, word_x, TWO)
    alone = Lattice.from_words([3], [(0, 0, 3, 0), (0, 1, 3, 2)])
    assert np.array_equal(both[1:, :3], int8.run_layers([layer], x[1:, :3], word_x[4:], alone))
    assert not both[1, 3:].any()


def test_packed_floats_give_the_same_numbers(level: str) -> None:
    for kind in (np.float32, np.float64):
        weights = [
            LatticeLSTMWeights(*(part.astype(kind) for part in each))
            for each in make_weights(5, 4, 17, False)
        ]
        x, word_x = (part.astype(kind) for part in make_inputs(TWO, 5, 4))
        once = native.directions(x, word_x, TWO, weights, False, native.pack(weights, False))
        assert np.array_equal(once, native.directions(x, word_x, TWO, weights, False))


@pytest.mark.parametrize("whole_words", [False, True])
def test_a_stack_in_8_bits_is_close_to_one_in_floats(level: str, whole_words: bool) -> None:
    H = 20
    coupled = True
    chars = make_weights(6, 0, H, coupled)
    plain = NumpyLSTM(*(without_words(*each[:3], coupled=coupled) for each in chars), coupled)
    lattice = NumpyLatticeLSTM(
        *make_weights(2 * H, 4 + 2 * H * whole_words, H, coupled, seed=1), coupled
    )
    x, word_x = make_inputs(TWO, 6, 4)
    stack = NumpyStack([plain, lattice], whole_words)
    fast = packed(stack, fast=True)
    exact = packed(stack, fast=False)
    assert bool(getattr(fast, "fast", ())) == int8.available(plain[:2])
    assert not getattr(exact, "fast", ())
    assert np.array_equal(exact(x, word_x, TWO), stack(x, word_x, TWO))
    assert np.abs(fast(x, word_x, TWO) - stack(x, word_x, TWO)).max() < 2 * most_wrong() + 0.05


def test_matrices_with_too_many_rows_have_no_8_bits(level: str) -> None:
    most = library.function("small_most", np.dtype(np.float32))()
    large = [
        each._replace(char_input=np.zeros((most + 1, 3), dtype=np.float32))
        for each in make_weights(3, 2, 1, True)
    ]
    assert not int8.available(large)
    assert int8.available(make_weights(3, 2, 1, True)) == (most > 0)


def test_an_empty_batch(level: str) -> None:
    layer = int8.int8_layer(make_weights(5, 4, 8, True), True)
    none = np.empty((0, 4), dtype=np.float32)
    for lengths in ([], [0, 0]):
        x = np.empty((len(lengths), 0, 5), dtype=np.float32)
        assert int8.run_layers([layer], x, none, Lattice.from_words(lengths, [])).shape == (
            len(lengths),
            0,
            16,
        )
