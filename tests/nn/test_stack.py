"""Encoders on top of each other: one after the other by hand, with dropout in between and nowhere
else.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from hanlattice import Lattice
from hanlattice.nn.baselines import CharLSTM
from hanlattice.nn.lattice_lstm import LatticeLSTM, Layer, Stack
from tests.helpers.strategies import lattices

D = 3
E = 4
H = 2
KINDS = pytest.mark.parametrize("kind", ["char", "lattice"])
MAKE: dict[str, Callable[[int], Layer]] = {
    "char": lambda dim: CharLSTM(dim, H),
    "lattice": lambda dim: LatticeLSTM(dim, E, H),
}


def make(kind: str, layers: int = 3, dropout: float = 0.0, seed: int = 0) -> Stack:
    torch.manual_seed(seed)
    stack = Stack([MAKE[kind](2 * H if n else D) for n in range(layers)], dropout)
    for weight in stack.parameters():
        nn.init.normal_(weight, std=0.7)
    return stack.double()


def inputs(lattice: Lattice, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(
        len(lattice.lengths),
        int(lattice.lengths.max()),
        D,
        generator=generator,
        dtype=torch.float64,
    )
    return x, torch.randn(len(lattice), E, generator=generator, dtype=torch.float64)


@KINDS
@given(lattice=lattices(), seed=st.integers(0, 99))
def test_layer_by_layer(kind: str, lattice: Lattice, seed: int) -> None:
    stack = make(kind)
    x, word_x = inputs(lattice, seed)
    first, second, third = stack.layers
    expected = third(second(first(x, word_x, lattice), word_x, lattice), word_x, lattice)
    assert torch.equal(stack(x, word_x, lattice), expected)
    assert expected.shape == (*x.shape[:2], stack.width)


@KINDS
def test_one_layer_is_the_layer(kind: str) -> None:
    lattice = Lattice.from_words([4, 2], [(0, 0, 3, 1)])
    stack = make(kind, layers=1, dropout=0.9)
    x, word_x = inputs(lattice, 0)
    assert torch.equal(stack(x, word_x, lattice), stack.layers[0](x, word_x, lattice))


@KINDS
def test_dropout_is_between_layers_and_only_in_training(kind: str) -> None:
    lattice = Lattice.from_words([5, 1], [])
    stack = make(kind, layers=2, dropout=1.0)
    x, word_x = inputs(lattice, 0)
    dropped = stack(x, word_x, lattice)
    assert dropped.any()  # the last layer's own output is left alone
    assert torch.equal(dropped, stack(2 * x, word_x, lattice))  # nothing passes between the layers
    assert torch.equal(stack.eval()(x, word_x, lattice), make(kind, layers=2)(x, word_x, lattice))


@KINDS
def test_every_layer_learns(kind: str) -> None:
    lattice = Lattice.from_words([4, 3], [(0, 0, 3, 1), (1, 1, 3, 0)])
    stack = make(kind)
    x, word_x = inputs(lattice, 0)
    (stack(x, word_x, lattice) ** 2).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in stack.parameters())


@KINDS
def test_saved_and_loaded(kind: str) -> None:
    lattice = Lattice.from_words([4, 3], [(0, 0, 3, 1)])
    stack = make(kind)
    again = make(kind, seed=1)
    x, word_x = inputs(lattice, 0)
    assert not torch.equal(stack(x, word_x, lattice), again(x, word_x, lattice))
    again.load_state_dict(stack.state_dict())
    assert torch.equal(stack(x, word_x, lattice), again(x, word_x, lattice))


@given(lattice=lattices(), seed=st.integers(0, 99), below=st.sampled_from(["char", "lattice"]))
def test_above_the_first_layer_words_see_their_ends(
    lattice: Lattice, seed: int, below: str
) -> None:
    """Against a loop over the words."""
    torch.manual_seed(seed)
    above = LatticeLSTM(2 * H, E + 2 * H, H)
    stack = Stack([MAKE[below](D), above], whole_words=True).double()
    x, word_x = inputs(lattice, seed)
    h = stack.layers[0](x, word_x, lattice)
    rows = [
        torch.cat([word_x[w], h[sentence, end - 1, :H], h[sentence, start, H:]])
        for w, (sentence, start, end) in enumerate(
            zip(lattice.sentence, lattice.start, lattice.end, strict=True)
        )
    ]
    seen = torch.stack(rows) if rows else word_x.new_zeros(0, E + 2 * H)
    torch.testing.assert_close(
        stack(x, word_x, lattice), above(h, seen, lattice), rtol=1e-12, atol=1e-12
    )


def test_gradients_of_whole_words() -> None:
    lattice = Lattice.from_words([4, 3], [(0, 0, 3, 1), (1, 1, 3, 0), (0, 2, 4, 2)])
    torch.manual_seed(0)
    stack = Stack(
        [LatticeLSTM(D, E, H), LatticeLSTM(2 * H, E + 2 * H, H)], whole_words=True
    ).double()
    x, word_x = (each.requires_grad_() for each in inputs(lattice, 1))
    assert torch.autograd.gradcheck(lambda x, word_x: stack(x, word_x, lattice), (x, word_x))


def test_a_stack_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a stack needs one layer or more"):
        Stack([])
