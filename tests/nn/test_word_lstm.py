"""The word BiLSTM against a loop over sentences, with and without features of characters."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hanlattice.nn.baselines import FEATURES, WordLSTM
from hanlattice.ops.packing import prepare
from hanlattice.text.lattice import Segments
from tests.helpers.gpu import run_without_waiting
from tests.helpers.segmented import (
    ODD,
    alone,
    assert_alike,
    gradients,
    inputs,
    lstm_states,
    segmentations,
    segments_of,
)

D = 3
E = 5
H = 2
WIDTH = 4
KINDS = pytest.mark.parametrize("kind", ["none", *FEATURES])
SHAPES = pytest.mark.parametrize("words", ODD.values(), ids=ODD.keys())


def make(kind: str, layers: int = 1, seed: int = 0, **settings: float) -> WordLSTM:
    torch.manual_seed(seed)
    features = None if kind == "none" else FEATURES[kind](D, WIDTH)
    module = WordLSTM(E, H, features, layers=layers, **settings)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.7)
    return module.double()


def words_x(segments: Segments, seed: int = 0) -> Tensor:
    return torch.randn(
        len(segments), E, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def loop(
    module: WordLSTM, x: Tensor, word_x: Tensor, segments: Segments, layers: int = 1
) -> Tensor:
    """[B, U, 2H], sentence by sentence."""
    out = x.new_zeros(len(segments.counts), int(segments.counts.max(initial=0)), 2 * H)
    for b, count in enumerate(segments.counts.tolist()):
        single, mine = alone(segments, b)
        rows = word_x[mine]
        if module.features is not None:
            rows = torch.cat(
                [rows, module.features(x[b : b + 1, : segments.lengths[b]], single)], dim=1
            )
        for layer in range(layers if count else 0):
            rows = torch.cat(lstm_states(module.lstm, rows, layer), dim=1)
        if count:
            out[b, :count] = rows
    return out


def check(module: WordLSTM, segments: Segments, seed: int, layers: int = 1) -> None:
    x = inputs(segments, D, seed).requires_grad_()
    word_x = words_x(segments, seed).requires_grad_()
    weights = [x, word_x, *module.parameters()]
    found = module(x, word_x, segments)
    expected = loop(module, x, word_x, segments, layers)
    assert found.shape == expected.shape
    assert found.shape[2] == module.width
    assert_alike(found, expected, weights)


@KINDS
@SHAPES
def test_it_is_the_loop(kind: str, words: list[list[int]]) -> None:
    check(make(kind), segments_of(words), 0)


@KINDS
@settings(max_examples=15)
@given(segments=segmentations(), seed=st.integers(0, 99))
def test_it_is_the_loop_for_any_words(kind: str, segments: Segments, seed: int) -> None:
    check(make(kind, seed=seed), segments, seed)


@SHAPES
@pytest.mark.parametrize("layers", [2, 3])
def test_more_layers(words: list[list[int]], layers: int) -> None:
    check(make("cnn", layers), segments_of(words), 1, layers)


@KINDS
@settings(max_examples=15)
@given(segments=segmentations(), seed=st.integers(0, 99))
def test_alone_or_in_a_batch(kind: str, segments: Segments, seed: int) -> None:
    module = make(kind)
    x = inputs(segments, D, seed)
    word_x = words_x(segments, seed)
    together = module(x, word_x, segments)
    for b, (length, count) in enumerate(
        zip(segments.lengths.tolist(), segments.counts.tolist(), strict=True)
    ):
        single, mine = alone(segments, b)
        by_itself = module(x[b : b + 1, :length], word_x[mine], single)
        torch.testing.assert_close(by_itself[0], together[b, :count], rtol=1e-9, atol=1e-9)
        assert not together[b, count:].any()


def test_gradcheck() -> None:
    segments = segments_of([[2, 1], [], [3]])
    module = make("lstm")
    x = inputs(segments, D).nan_to_num(0).requires_grad_()
    word_x = words_x(segments).requires_grad_()
    assert torch.autograd.gradcheck(lambda *given: module(*given, segments), (x, word_x))


def test_without_features_no_characters_are_needed() -> None:
    segments = segments_of([[2, 1], [4]])
    module = make("none")
    x = inputs(segments, D)
    word_x = words_x(segments)
    assert torch.equal(module(None, word_x, segments), module(x, word_x, segments))
    with pytest.raises(ValueError, match="x must not be None"):
        make("lstm")(None, word_x, segments)


@pytest.mark.parametrize("shape", [(2, E), (4, E), (3, E + 1), (3,)])
def test_words_of_another_batch_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"word_x must be \[3, 5\] for these segments, not \["):
        make("none")(None, torch.zeros(shape, dtype=torch.float64), segments_of([[1, 5], [], [2]]))


def test_dropout_is_on_the_features_and_between_layers_and_only_in_training() -> None:
    segments = segments_of([[2, 1], [4, 1, 1]])
    x = inputs(segments, D)
    word_x = words_x(segments)
    all_dropped = make("cnn", dropout=1.0)
    plain = make("cnn")
    other = inputs(segments, D, seed=1)
    assert torch.equal(all_dropped(x, word_x, segments), all_dropped(other, word_x, segments))
    assert not torch.equal(all_dropped(x, word_x, segments), all_dropped(x, word_x + 1, segments))
    assert torch.equal(all_dropped.eval()(x, word_x, segments), plain(x, word_x, segments))
    layered = make("none", layers=2, between=0.5)
    assert not torch.equal(layered(x, word_x, segments), layered(x, word_x, segments))
    layered.eval()
    assert torch.equal(layered(x, word_x, segments), layered(x, word_x, segments))
    WordLSTM(E, H, between=0.5)  # one layer: no place between, and no warning


@KINDS
def test_saved_and_loaded(kind: str) -> None:
    segments = segments_of(ODD["mixed"])
    module = make(kind)
    again = make(kind, seed=1)
    x = inputs(segments, D)
    word_x = words_x(segments)
    assert not torch.equal(module(x, word_x, segments), again(x, word_x, segments))
    again.load_state_dict(module.state_dict())
    assert torch.equal(module(x, word_x, segments), again(x, word_x, segments))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@KINDS
def test_a_gpu_gives_the_same_and_is_not_waited_for(kind: str) -> None:
    words = ODD["empty inside"]
    segments = segments_of(words)
    module = make(kind)
    x = inputs(segments, D)
    word_x = words_x(segments)
    expected = gradients(module(x, word_x, segments), list(module.parameters()))
    module = module.cuda()
    here = x.cuda()
    there = word_x.cuda()
    mixture = torch.randn(
        4, 4, 2 * H, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).cuda()
    found: list[Tensor] = []

    def step() -> None:
        fresh = segments_of(words)
        prepare(fresh, "cuda")
        found[:] = torch.autograd.grad(
            module(here, there, fresh), list(module.parameters()), mixture
        )

    run_without_waiting(step)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-7, atol=1e-7)
