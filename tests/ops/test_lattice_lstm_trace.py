"""`trace` gives the reference's states, and exactly the shares with which the reference mixed its
cells.
"""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hanlattice import Lattice
from hanlattice.lab.bench.equality import LSTMCase
from hanlattice.nn.baselines import CharLSTM
from hanlattice.nn.lattice_lstm import LatticeLSTM, Stack
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, reference, trace
from hanlattice.ops.lattice_lstm.batched import mirror_index, take
from tests.helpers.strategies import lattices

D = 3
E = 4
H = 5
COUPLED = pytest.mark.parametrize("coupled", [True, False])


def made(
    lattice: Lattice, seed: int, coupled: bool
) -> tuple[Tensor, Tensor, LatticeLSTMWeights, LatticeLSTMWeights]:
    """x, with NaN where a sentence has ended, word_x, and the weights of two directions."""
    case = LSTMCase.draw(lattice, H, coupled, D=D, E=E, extra=1, scale=1.0, seed=seed)
    return tuple(tensor.detach() for tensor in (case.x, case.word_x)) + tuple(
        LatticeLSTMWeights(*(tensor.detach() for tensor in each)) for each in case.weights
    )


def traced(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool
) -> trace.Traced:
    arrays = LatticeLSTMWeights(*(tensor.numpy() for tensor in weights))
    found = trace.lattice_lstm(x.numpy(), word_x.numpy(), lattice, arrays, coupled)
    return trace.Traced(*map(torch.from_numpy, found))


def watched(
    x: Tensor, word_x: Tensor, lattice: Lattice, weights: LatticeLSTMWeights, coupled: bool
) -> tuple[Tensor, list[Tensor]]:
    """The reference's h, and what it mixed each cell with: a tensor a character, sentence by
    sentence.
    """
    seen: list[Tensor] = []
    real = reference.mix

    def spy(shares: Tensor, parts: list[Tensor]) -> Tensor:
        seen.append(shares)
        return real(shares, parts)

    with mock.patch.object(reference, "mix", spy):
        h = reference.lattice_lstm(x, word_x, lattice, weights, coupled)
    return h, seen


def assert_same_shares(found: trace.Traced, seen: list[Tensor], lattice: Lattice) -> None:
    """The shares that were found against those that the reference used, character by character,
    word by word.
    """
    cells = [(b, t) for b, length in enumerate(lattice.lengths.tolist()) for t in range(length)]
    assert len(cells) == len(seen)
    for (b, t), shares in zip(cells, seen, strict=True):
        here = [
            w for w in range(len(lattice)) if lattice.sentence[w] == b and lattice.end[w] - 1 == t
        ]
        here.sort(
            key=lambda w: (lattice.start[w], w)
        )  # the reference makes them in the order of their starts
        if here:
            expected = shares
            mine = torch.stack([found.own[b, t], *(found.words[w] for w in here)])
            assert (found.before[b, t] == 0).all()
        else:
            expected = shares / shares.sum(0)
            mine = torch.stack([found.own[b, t], found.before[b, t]])
        torch.testing.assert_close(mine, expected, rtol=1e-12, atol=1e-12)


def sums(found: trace.Traced, lattice: Lattice, at: str) -> Tensor:
    """[B, T, H]: all shares at each character."""
    total = found.own + found.before
    for w in range(len(lattice)):
        t = lattice.end[w] - 1 if at == "last" else lattice.start[w]
        total[lattice.sentence[w], t] += found.words[w]
    return total


@COUPLED
@settings(max_examples=30)
@given(lattice=lattices(), seed=st.integers(0, 2**31))
def test_states_and_shares_are_those_of_the_reference(
    lattice: Lattice, seed: int, coupled: bool
) -> None:
    x, word_x, weights, _ = made(lattice, seed, coupled)
    h, seen = watched(x, word_x, lattice, weights, coupled)
    found = traced(x, word_x, lattice, weights, coupled)
    torch.testing.assert_close(found.h, h, rtol=1e-12, atol=1e-12)
    assert_same_shares(found, seen, lattice)


@COUPLED
@settings(max_examples=30)
@given(lattice=lattices(), seed=st.integers(0, 2**31))
def test_both_directions_and_their_shares_sum_to_one(
    lattice: Lattice, seed: int, coupled: bool
) -> None:
    x, word_x, ahead, back = made(lattice, seed, coupled)
    arrays = [LatticeLSTMWeights(*(tensor.numpy() for tensor in each)) for each in (ahead, back)]
    found = trace.bidirectional(x.numpy(), word_x.numpy(), lattice, arrays, coupled)
    both = trace.Both(*(trace.Traced(*map(torch.from_numpy, each)) for each in found))
    expected = bidirectional(x, word_x, lattice, ahead, back, coupled, backend="reference")
    torch.testing.assert_close(
        torch.cat([each.h for each in both], dim=-1), expected, rtol=1e-12, atol=1e-12
    )
    inside = torch.arange(x.shape[1])[None] < torch.from_numpy(lattice.lengths.copy())[:, None]
    ones = inside[:, :, None].double().expand(-1, -1, H)
    torch.testing.assert_close(sums(both.forward, lattice, "last"), ones, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sums(both.backward, lattice, "first"), ones, rtol=1e-12, atol=1e-12)
    flip = mirror_index(lattice, x)
    _, seen = watched(take(x, flip), word_x, lattice.reversed(), back, coupled)
    mirrored = trace.Traced(*(take(each, flip) for each in both.backward[:3]), both.backward.words)
    assert_same_shares(mirrored, seen, lattice.reversed())


@COUPLED
@pytest.mark.parametrize("lengths", [[1], [0], [0, 0], [3, 0, 1], []])
def test_without_words(lengths: list[int], coupled: bool) -> None:
    lattice = Lattice.from_words(lengths, [])
    x = torch.randn(len(lengths), max(lengths, default=0), D, dtype=torch.float64)
    _, word_x, weights, _ = made(Lattice.from_words([1], []), 0, coupled)
    found = traced(x, word_x, lattice, weights, coupled)
    torch.testing.assert_close(
        found.h, reference.lattice_lstm(x, word_x, lattice, weights, coupled)
    )
    assert found.words.shape == (0, H)
    assert float((found.own + found.before).sum()) == pytest.approx(sum(lengths) * H)


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
@COUPLED
def test_modules_trace_what_they_compute(layers: int, coupled: bool, whole_words: bool) -> None:
    torch.manual_seed(0)
    lattice = Lattice.from_words([6, 2], [(0, 0, 3, 0), (1, 0, 2, 0), (0, 1, 3, 1), (0, 2, 6, 2)])
    more = 2 * H if whole_words else 0
    parts = [
        LatticeLSTM(2 * H if n else D, E + more if n else E, H, coupled) for n in range(layers)
    ]
    encoder = parts[0] if layers == 1 else Stack(parts, 0.5, whole_words).eval()
    encoder.double()
    x, word_x, *_ = made(lattice, 1, coupled)
    x = x.nan_to_num()
    found = encoder.traced(x, word_x, lattice)
    assert len(found) == layers
    last = torch.cat([torch.from_numpy(direction.h) for direction in found[-1]], dim=-1)
    torch.testing.assert_close(last, encoder(x, word_x, lattice), rtol=1e-12, atol=1e-12)


def test_of_a_stack_over_characters_only_the_lattice_is_traced() -> None:
    torch.manual_seed(0)
    lattice = Lattice.from_words([6, 2], [(0, 0, 3, 0), (1, 0, 2, 0), (0, 2, 6, 2)])
    x, word_x, *_ = made(lattice, 1, True)
    x = x.nan_to_num()
    stack = (
        Stack([CharLSTM(D, H), LatticeLSTM(2 * H, E + 2 * H, H)], 0.5, whole_words=True)
        .eval()
        .double()
    )
    (found,) = stack.traced(x, word_x, lattice)
    last = torch.cat([torch.from_numpy(direction.h) for direction in found], dim=-1)
    torch.testing.assert_close(last, stack(x, word_x, lattice), rtol=1e-12, atol=1e-12)
    assert found.forward.words.shape == found.backward.words.shape == (len(lattice), H)
