"""Both encoders: one signature, and a sentence's answer does not depend on its neighbours or on padding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice import Lattice
from hanlattice.nn.baselines import CharLSTM
from hanlattice.nn.lattice_lstm import LatticeLSTM
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, reference
from tests.gpu import run_without_waiting
from tests.segmented import gradients, lstm_states
from tests.strategies import lattices

D, E, H = 3, 4, 5
Encoder = CharLSTM | LatticeLSTM


def make(kind: str) -> Encoder:
    torch.manual_seed(0)
    encoder = CharLSTM(D, H) if kind == "char" else LatticeLSTM(D, E, H, coupled=kind == "coupled")
    with torch.no_grad():
        for weight in encoder.parameters():  # away from the identity, so that each weight matters
            weight += 0.3 * torch.randn_like(weight)
    return encoder.double()


def inputs(lattice: Lattice, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(lattice.lengths), int(lattice.lengths.max()), D, generator=generator, dtype=torch.float64)
    return x, torch.randn(len(lattice), E, generator=generator, dtype=torch.float64)


KINDS = pytest.mark.parametrize("kind", ["char", "coupled", "uncoupled"])


@KINDS
@given(lattice=lattices(), seed=st.integers(0, 99))
def test_alone_or_in_a_batch(kind: str, lattice: Lattice, seed: int) -> None:
    encoder, (x, word_x) = make(kind), inputs(lattice, seed)
    together = encoder(x, word_x, lattice)
    assert together.shape == (*x.shape[:2], encoder.width)
    for b, length in enumerate(lattice.lengths.tolist()):
        mine = lattice.sentence == b
        words = [
            (0, s, e, w) for s, e, w in zip(lattice.start[mine], lattice.end[mine], lattice.word[mine], strict=True)
        ]
        alone = encoder(x[b : b + 1, :length], word_x[torch.from_numpy(mine)], Lattice.from_words([length], words))
        torch.testing.assert_close(together[b, :length], alone[0], rtol=1e-9, atol=1e-9)


@KINDS
def test_padding_gets_no_gradient(kind: str) -> None:
    lattice = Lattice.from_words([4, 2], [(0, 0, 3, 1), (1, 0, 2, 1)])
    encoder, (x, word_x) = make(kind), inputs(lattice, 0)
    x.requires_grad_()
    out = encoder(x, word_x, lattice)
    (out[0].sum() + out[1, :2].sum()).backward()
    assert x.grad is not None
    assert x.grad[1, :2].any(1).all()
    assert not x.grad[1, 2:].any()


@pytest.mark.parametrize("coupled", [True, False])
def test_the_module_is_the_reference_in_both_directions(coupled: bool) -> None:
    lattice = Lattice.from_words([6, 3], [(0, 0, 3, 1), (0, 2, 6, 2), (0, 4, 6, 0), (1, 1, 3, 4)])
    encoder, (x, word_x) = make("coupled" if coupled else "uncoupled"), inputs(lattice, 1)
    assert isinstance(encoder, LatticeLSTM)
    ahead = reference.lattice_lstm(x, word_x, lattice, LatticeLSTMWeights(**encoder.forward_weights), coupled=coupled)
    back = LatticeLSTMWeights(**encoder.backward_weights)
    out = encoder(x, word_x, lattice)
    torch.testing.assert_close(out[0, :, :H], ahead[0], rtol=1e-9, atol=1e-9)
    alone = Lattice.from_words([6], [(0, 0, 3, 1), (0, 2, 6, 2), (0, 4, 6, 0)])
    mirrored = reference.lattice_lstm(x[:1].flip(1), word_x[:3], alone.reversed(), back, coupled=coupled)
    torch.testing.assert_close(out[0, :, H:], mirrored[0].flip(0), rtol=1e-9, atol=1e-9)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 2), st.integers(0, 99))
def test_the_character_encoder_is_a_loop_over_sentences(lengths: list[int], extra: int, seed: int) -> None:
    """With its gradients; what stands beyond a sentence is NaN, and does not matter."""
    encoder, generator = make("char"), torch.Generator().manual_seed(seed)
    assert isinstance(encoder, CharLSTM)
    x = torch.randn(len(lengths), max(lengths) + extra, D, generator=generator, dtype=torch.float64)
    for b, length in enumerate(lengths):
        x[b, length:] = torch.nan
    x.requires_grad_()
    expected = x.new_zeros(*x.shape[:2], 2 * H)
    for b, length in enumerate(lengths):
        if length:
            expected[b, :length] = torch.cat(lstm_states(encoder.lstm, x[b, :length]), dim=1)
    found = encoder(x, None, Lattice.from_words(lengths, []))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weights = [x, *encoder.parameters()]
    for mine, theirs in zip(gradients(found, weights), gradients(expected, weights), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 4, D), (3, 4, D), (2, 3, D)])
def test_x_of_another_batch_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="but the lattice has 2 sentences, the longest of 4"):
        make("char")(torch.zeros(shape, dtype=torch.float64), None, Lattice.from_words([4, 2], []))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_gpu_gives_the_same_and_is_not_waited_for() -> None:
    lengths, encoder = [4, 0, 6, 1], make("char")
    x, word_x = inputs(Lattice.from_words(lengths, []), 3)
    expected = gradients(encoder(x, word_x, Lattice.from_words(lengths, [])), list(encoder.parameters()))
    encoder, there = encoder.cuda(), x.cuda()
    mixture = torch.randn(4, 6, 2 * H, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cuda()
    found: list[torch.Tensor] = []

    def step() -> None:
        out = encoder(there, None, Lattice.from_words(lengths, []))
        found[:] = torch.autograd.grad(out, list(encoder.parameters()), mixture)

    run_without_waiting(step)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-7, atol=1e-7)


def test_words_reach_the_output_of_the_lattice_only():
    lattice = Lattice.from_words([4], [(0, 1, 3, 0)])
    for kind, matters in (("char", False), ("coupled", True)):
        encoder, (x, word_x) = make(kind), inputs(lattice, 2)
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
