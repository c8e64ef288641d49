"""What characters say about words: each way against a loop over words, with gradients; padding
never matters.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hanlattice.nn.baselines import (
    FEATURES,
    CharCNN,
    Features,
    SentenceCharLSTM,
    WordCharLSTM,
    word_max,
)
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
    words_of,
)

D = 3
WIDTH = 4
KINDS = pytest.mark.parametrize("kind", FEATURES)
SHAPES = pytest.mark.parametrize("words", ODD.values(), ids=ODD.keys())


def make(kind: str, seed: int = 0) -> Features:
    torch.manual_seed(seed)
    module = FEATURES[kind](D, WIDTH)
    for weight in module.parameters():
        nn.init.normal_(weight)
    return module.double()


def loop(module: Features, x: Tensor, segments: Segments) -> Tensor:
    """[W, width], word by word, as it would be explained."""
    if isinstance(module, SentenceCharLSTM):
        rows = [
            row
            for b in range(len(segments.counts))
            for row in with_boundaries(module, x, segments, b)
        ]
    elif isinstance(module, WordCharLSTM):
        rows = [last_states(module, x[b, s:e]) for b, s, e in words_of(segments)]
    else:
        rows = [convolved(module, x[b, s:e]) for b, s, e in words_of(segments)]
    return torch.stack(rows) if rows else x.new_zeros(0, WIDTH)


def last_states(module: WordCharLSTM, chars: Tensor) -> Tensor:
    ahead, back = lstm_states(module.lstm, chars)
    return torch.cat([ahead[-1], back[0]])


def with_boundaries(
    module: SentenceCharLSTM, x: Tensor, segments: Segments, b: int
) -> list[Tensor]:
    line = [module.boundary]
    before = []
    after = []
    for sentence, s, e in words_of(segments):
        if sentence == b:
            before.append(len(line) - 1)
            line += [*x[b, s:e], module.boundary]
            after.append(len(line) - 1)
    ahead, back = lstm_states(module.lstm, torch.stack(line))
    return [torch.cat([ahead[j], back[i]]) for i, j in zip(before, after, strict=True)]


def convolved(module: CharCNN, chars: Tensor) -> Tensor:
    nothing = chars.new_zeros(1, D)
    around = torch.cat([nothing, chars, nothing])
    return (
        torch.stack([module.filter(around[t : t + 3].flatten()) for t in range(len(chars))])
        .max(0)
        .values
    )


def check(module: Features, x: Tensor, segments: Segments) -> None:
    """The module gives what the loop gives, and so does every gradient."""
    x.requires_grad_()
    weights = [x, *module.parameters()]
    found = module(x, segments)
    expected = loop(module, x, segments)
    assert found.shape == (len(segments), module.width)
    assert_alike(found, expected, weights)


@KINDS
@SHAPES
def test_it_is_the_loop(kind: str, words: list[list[int]]) -> None:
    segments = segments_of(words)
    check(make(kind), inputs(segments, D), segments)


@KINDS
@settings(max_examples=15)
@given(segments=segmentations(), seed=st.integers(0, 99), extra=st.integers(0, 2))
def test_it_is_the_loop_for_any_words(kind: str, segments: Segments, seed: int, extra: int) -> None:
    check(make(kind, seed), inputs(segments, D, seed, extra), segments)


@KINDS
@settings(max_examples=15)
@given(segments=segmentations(), seed=st.integers(0, 99))
def test_alone_or_in_a_batch(kind: str, segments: Segments, seed: int) -> None:
    module = make(kind)
    x = inputs(segments, D, seed)
    together = module(x, segments)
    for b, length in enumerate(segments.lengths.tolist()):
        single, mine = alone(segments, b)
        torch.testing.assert_close(
            module(x[b : b + 1, :length], single), together[mine], rtol=1e-9, atol=1e-9
        )


@KINDS
def test_gradcheck(kind: str) -> None:
    segments = segments_of([[2, 1], [], [3]])
    module = make(kind)
    x = inputs(segments, D).nan_to_num(0).requires_grad_()
    names = [name for name, _ in module.named_parameters()]

    def call(x: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(
            module, dict(zip(names, weights, strict=True)), (x, segments)
        )

    assert torch.autograd.gradcheck(call, (x, *module.parameters()))


def test_what_each_way_can_see() -> None:
    """The LSTM and the CNN see a word alone; the LSTM over the sentence sees its neighbours, and
    where words end.
    """
    segments = segments_of([[2, 2]])
    other = segments_of([[2, 1, 1]])
    for kind in FEATURES:
        module = make(kind)
        x = inputs(segments, D)
        changed = x.clone()
        changed[0, 2] += 1
        sees_others = kind == "sentence-lstm"
        assert torch.equal(module(x, segments)[0], module(changed, segments)[0]) != sees_others
        assert torch.equal(module(x, segments)[0], module(x, other)[0]) != sees_others
        assert not torch.equal(module(x, segments)[1], module(changed, segments)[1])


@KINDS
def test_without_gradients_it_gives_the_same(kind: str) -> None:
    segments = segments_of(ODD["mixed"])
    module = make(kind)
    x = inputs(segments, D)
    expected = module(x, segments)
    with torch.no_grad():
        torch.testing.assert_close(module(x, segments), expected, rtol=1e-12, atol=1e-12)


@KINDS
def test_saved_and_loaded(kind: str) -> None:
    segments = segments_of(ODD["mixed"])
    module = make(kind)
    again = make(kind, seed=1)
    x = inputs(segments, D)
    assert not torch.equal(module(x, segments), again(x, segments))
    again.load_state_dict(module.state_dict())
    assert torch.equal(module(x, segments), again(x, segments))


@pytest.mark.parametrize("kind", ["lstm", "sentence-lstm"])
def test_an_odd_width_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="width must be even, one half for each direction, not 5"):
        FEATURES[kind](D, 5)
    assert FEATURES["cnn"](D, 5).width == 5


@KINDS
@pytest.mark.parametrize("shape", [(2, 6, D), (1, 6, D), (3, 5, D), (3, 6, D + 1), (3, 6)])
def test_x_of_another_batch_is_refused(kind: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"x must be \[3, 6, 3\] for these segments, not \["):
        make(kind)(torch.zeros(shape, dtype=torch.float64), segments_of([[1, 5], [], [2]]))


def test_the_boundary_is_learned() -> None:
    module = SentenceCharLSTM(D, WIDTH)
    segments = segments_of([[1]])
    module(torch.zeros(1, 1, D), segments).sum().backward()
    assert "boundary" in module.state_dict()
    assert module.boundary.grad is not None
    assert module.boundary.grad.all()


def test_equal_rows_share_the_gradient_of_the_maximum() -> None:
    rows = torch.tensor(
        [[1.0, 5.0], [1.0, 2.0], [0.0, 5.0], [-3.0, -3.0], [1.0, 5.0]], dtype=torch.float64
    )
    rows.requires_grad_()
    word = torch.tensor([0, 0, 0, 1, 0])
    out = word_max(rows, word, 2)
    torch.testing.assert_close(out, torch.tensor([[1.0, 5.0], [-3.0, -3.0]], dtype=torch.float64))
    (found,) = torch.autograd.grad(
        out, rows, torch.tensor([[3.0, 6.0], [1.0, 7.0]], dtype=torch.float64)
    )
    assert found.tolist() == [[1.0, 2.0], [1.0, 0.0], [0.0, 2.0], [1.0, 7.0], [1.0, 2.0]]


@given(segmentations(), st.integers(0, 99))
def test_the_maximum_of_each_word_and_whole_gradients(segments: Segments, seed: int) -> None:
    """Few different values, so that ties are many: however a gradient is shared, all of it arrives,
    at the best.
    """
    generator = torch.Generator().manual_seed(seed)
    word = torch.repeat_interleave(
        torch.arange(len(segments)), torch.from_numpy(segments.end - segments.start)
    )
    rows = torch.randint(-1, 2, (len(word), 2), generator=generator).double().requires_grad_()
    out = word_max(rows, word, len(segments))
    out.sum().backward()
    assert rows.grad is not None
    for w in range(len(segments)):
        mine = rows[word == w].detach()
        torch.testing.assert_close(out[w], mine.max(0).values)
        torch.testing.assert_close(rows.grad[word == w].sum(0), torch.ones(2, dtype=torch.float64))
        assert not rows.grad[word == w][mine != mine.max(0).values].any()


@KINDS
def test_a_long_word_costs_no_padding(kind: str) -> None:
    """A thousand short words beside one long word: padded to the longest they would be 500,500
    rows, not 2,500.
    """
    segments = segments_of([[500], *([[2] * 50] * 20)])
    module = make(kind)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            parts = out if isinstance(out, (tuple, list)) else [out]
            largest = max([largest, *(part.numel() for part in parts if isinstance(part, Tensor))])
            return out

    x = inputs(segments, D)
    with torch.no_grad(), Watch():
        module(x, segments)
    assert 2_500 * D <= largest < 500_500


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("prepared", [True, False])
@KINDS
def test_a_gpu_gives_the_same_and_is_not_waited_for(kind: str, prepared: bool) -> None:
    words = ODD["empty inside"]
    module = make(kind)
    x = inputs(segments_of(words), D)
    expected = gradients(module(x, segments_of(words)), list(module.parameters()))
    module = module.cuda()
    there = x.cuda()
    mixture = torch.randn(
        len(segments_of(words)),
        WIDTH,
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    ).cuda()
    found: list[Tensor] = []

    def step() -> None:
        segments = segments_of(words)
        if prepared:
            prepare(segments, "cuda")
        found[:] = torch.autograd.grad(module(there, segments), list(module.parameters()), mixture)

    run_without_waiting(step)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-7, atol=1e-7)
