"""Encoders of characters: one signature, and a sentence's answer does not depend on its neighbours
or on padding.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Lattice
from hanlattice.nn.baselines import CharLSTM, CharRNN
from hanlattice.nn.lattice_lstm import CoupledLSTM, LatticeLSTM, Layer
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, reference
from hanlattice.ops.lattice_lstm.weights import weight_shapes
from tests.helpers.gpu import run_without_waiting
from tests.helpers.segmented import gradients, lstm_states
from tests.helpers.strategies import lattices

D = 3
E = 4
H = 5
PLAIN = {"char": CharLSTM, "rnn": CharRNN, "coupled char": CoupledLSTM}  # which have no words


def make(kind: str) -> Layer:
    torch.manual_seed(0)
    encoder = (
        PLAIN[kind](D, H) if kind in PLAIN else LatticeLSTM(D, E, H, coupled=kind == "coupled")
    )
    with torch.no_grad():
        for weight in encoder.parameters():  # away from the identity, so that each weight matters
            weight += 0.3 * torch.randn_like(weight)
    return encoder.double()


def inputs(lattice: Lattice, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(
        len(lattice.lengths),
        int(lattice.lengths.max()),
        D,
        generator=generator,
        dtype=torch.float64,
    )
    return x, torch.randn(len(lattice), E, generator=generator, dtype=torch.float64)


KINDS = pytest.mark.parametrize("kind", [*PLAIN, "coupled", "uncoupled"])


@KINDS
@given(lattice=lattices(), seed=st.integers(0, 99))
def test_alone_or_in_a_batch(kind: str, lattice: Lattice, seed: int) -> None:
    encoder = make(kind)
    x, word_x = inputs(lattice, seed)
    together = encoder(x, word_x, lattice)
    assert together.shape == (*x.shape[:2], encoder.width)
    for b, length in enumerate(lattice.lengths.tolist()):
        mine = lattice.sentence == b
        words = [
            (0, s, e, w)
            for s, e, w in zip(
                lattice.start[mine], lattice.end[mine], lattice.word[mine], strict=True
            )
        ]
        alone = encoder(
            x[b : b + 1, :length],
            word_x[torch.from_numpy(mine)],
            Lattice.from_words([length], words),
        )
        torch.testing.assert_close(together[b, :length], alone[0], rtol=1e-9, atol=1e-9)


@KINDS
def test_padding_gets_no_gradient(kind: str) -> None:
    lattice = Lattice.from_words([4, 2], [(0, 0, 3, 1), (1, 0, 2, 1)])
    encoder = make(kind)
    x, word_x = inputs(lattice, 0)
    x.requires_grad_()
    out = encoder(x, word_x, lattice)
    (out[0].sum() + out[1, :2].sum()).backward()
    assert x.grad is not None
    assert x.grad[1, :2].any(1).all()
    assert not x.grad[1, 2:].any()


@pytest.mark.parametrize("coupled", [True, False])
def test_the_module_is_the_reference_in_both_directions(coupled: bool) -> None:
    lattice = Lattice.from_words([6, 3], [(0, 0, 3, 1), (0, 2, 6, 2), (0, 4, 6, 0), (1, 1, 3, 4)])
    encoder = make("coupled" if coupled else "uncoupled")
    x, word_x = inputs(lattice, 1)
    assert isinstance(encoder, LatticeLSTM)
    ahead = reference.lattice_lstm(
        x, word_x, lattice, LatticeLSTMWeights(**encoder.forward_weights), coupled=coupled
    )
    back = LatticeLSTMWeights(**encoder.backward_weights)
    out = encoder(x, word_x, lattice)
    torch.testing.assert_close(out[0, :, :H], ahead[0], rtol=1e-9, atol=1e-9)
    alone = Lattice.from_words([6], [(0, 0, 3, 1), (0, 2, 6, 2), (0, 4, 6, 0)])
    mirrored = reference.lattice_lstm(
        x[:1].flip(1), word_x[:3], alone.reversed(), back, coupled=coupled
    )
    torch.testing.assert_close(out[0, :, H:], mirrored[0].flip(0), rtol=1e-9, atol=1e-9)


@given(lattices(), st.integers(0, 99))
def test_the_coupled_character_lstm_is_the_lattice_lstm_without_words(
    lattice: Lattice, seed: int
) -> None:
    """With its gradients, by name; whatever the weights of words are, and though its lattice has
    words.
    """
    encoder = make("coupled char")
    x, word_x = inputs(lattice, seed)
    assert isinstance(encoder, CoupledLSTM)
    assert sum(weight.numel() for weight in encoder.parameters()) == 2 * (
        D * 3 * H + H * 3 * H + 3 * H
    )
    others = [torch.randn(shape, dtype=torch.float64) for shape in weight_shapes(D, E, H, True)[3:]]
    rest = dict(zip(LatticeLSTMWeights._fields[3:], others, strict=True))
    sides = (encoder.forward_weights, encoder.backward_weights)
    ahead, back = (LatticeLSTMWeights(**dict(side.items()), **rest) for side in sides)
    alone = Lattice.from_words(lattice.lengths.tolist(), [])
    expected = bidirectional(x, word_x[:0], alone, ahead, back, True, "reference")
    found = encoder(x, word_x, lattice)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weights = dict(encoder.named_parameters())
    mine, theirs = (gradients(out, list(weights.values())) for out in (found, expected))
    for name, one, other in zip(weights, mine, theirs, strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-9, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_its_cell_keeps_what_it_does_not_take_in() -> None:
    """A step written out: c = (1 − i) c + i g."""
    encoder = make("coupled char")
    x = torch.randn(1, 4, D, dtype=torch.float64)
    weights = encoder.forward_weights
    h = torch.zeros(H, dtype=torch.float64)
    c = torch.zeros(H, dtype=torch.float64)
    for j in range(4):
        i, o, g = (
            x[0, j] @ weights["char_input"] + h @ weights["char_hidden"] + weights["char_bias"]
        ).chunk(3)
        c = (1 - i.sigmoid()) * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    torch.testing.assert_close(encoder(x, None, Lattice.from_words([4], []))[0, 3, :H], h)


def rnn_states(rnn: torch.nn.RNN, x: torch.Tensor) -> torch.Tensor:
    """[T, D] → [T, 2H], step by step."""
    sides = []
    for suffix, rows in (("", x), ("_reverse", x.flip(0))):
        inner, outer, *biases = (
            getattr(rnn, f"{name}_l0{suffix}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        states = []
        h = x.new_zeros(H)
        for row in rows:
            h = torch.tanh(inner @ row + outer @ h + sum(biases))
            states.append(h)
        sides.append(torch.stack(states))
    return torch.cat([sides[0], sides[1].flip(0)], dim=1)


@pytest.mark.parametrize("kind", ["char", "rnn"])
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    extra=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_the_character_encoder_is_a_loop_over_sentences(
    kind: str, lengths: list[int], extra: int, seed: int
) -> None:
    """With its gradients; what stands beyond a sentence is NaN, and does not matter."""
    encoder = make(kind)
    generator = torch.Generator().manual_seed(seed)
    assert isinstance(encoder, CharLSTM)
    x = torch.randn(len(lengths), max(lengths) + extra, D, generator=generator, dtype=torch.float64)
    for b, length in enumerate(lengths):
        x[b, length:] = torch.nan
    x.requires_grad_()
    expected = x.new_zeros(*x.shape[:2], 2 * H)
    for b, length in enumerate(lengths):
        if length:
            is_lstm = kind == "char"
            row = x[b, :length]
            expected[b, :length] = (
                torch.cat(lstm_states(encoder.lstm, row), 1)
                if is_lstm
                else rnn_states(encoder.lstm, row)
            )
    found = encoder(x, None, Lattice.from_words(lengths, []))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weights = [x, *encoder.parameters()]
    for mine, theirs in zip(gradients(found, weights), gradients(expected, weights), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("shape", [(1, 4, D), (3, 4, D), (2, 3, D)])
def test_x_of_another_batch_is_refused(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(ValueError, match="but the lattice has 2 sentences, the longest of 4"):
        make(kind)(torch.zeros(shape, dtype=torch.float64), None, Lattice.from_words([4, 2], []))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("kind", ["char", "rnn"])
def test_a_gpu_gives_the_same_and_is_not_waited_for(kind: str) -> None:
    lengths = [4, 0, 6, 1]
    encoder = make(kind)
    x, word_x = inputs(Lattice.from_words(lengths, []), 3)
    expected = gradients(
        encoder(x, word_x, Lattice.from_words(lengths, [])), list(encoder.parameters())
    )
    encoder = encoder.cuda()
    there = x.cuda()
    mixture = torch.randn(
        4, 6, 2 * H, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).cuda()
    found: list[torch.Tensor] = []

    def step() -> None:
        out = encoder(there, None, Lattice.from_words(lengths, []))
        found[:] = torch.autograd.grad(out, list(encoder.parameters()), mixture)

    run_without_waiting(step)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-7, atol=1e-7)


def test_words_reach_the_output_of_the_lattice_only():
    lattice = Lattice.from_words([4], [(0, 1, 3, 0)])
    for kind, matters in (*((kind, False) for kind in PLAIN), ("coupled", True)):
        encoder = make(kind)
        x, word_x = inputs(lattice, 2)
        assert torch.equal(encoder(x, word_x, lattice), encoder(x, word_x + 1, lattice)) != matters


def test_it_starts_like_the_original():
    encoder = LatticeLSTM(D, E, H)
    weights = encoder.forward_weights
    assert torch.equal(weights["char_hidden"], torch.eye(H).repeat(1, 3))
    assert torch.equal(weights["word_hidden"], torch.eye(H).repeat(1, 3))
    assert torch.equal(weights["link_hidden"], torch.eye(H))
    for name in ("char_input", "word_input", "link_input"):
        rows = weights[name]
        torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows)))
    assert not any(weights[name].any() for name in ("char_bias", "word_bias", "link_bias"))
    plain = CoupledLSTM(D, H).backward_weights
    assert torch.equal(plain["char_hidden"], weights["char_hidden"])
    torch.testing.assert_close(plain["char_input"] @ plain["char_input"].T, torch.eye(D))
    assert not CoupledLSTM(D, H, fresh=False).forward_weights["char_input"].any()
