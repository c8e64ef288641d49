"""The language model's module, and its states beside the character embedding, against one character
at a time.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from hanlattice.nn.language_model import CharLanguageModel, LanguageModelStates

SYMBOLS = 9
START = 1


def make(layers: int = 1, hidden: int = 5, seed: int = 0) -> CharLanguageModel:
    torch.manual_seed(seed)
    return CharLanguageModel(SYMBOLS, 3, hidden, layers, dropout=0.4).eval()


def one_by_one(model: CharLanguageModel, ids: list[int]) -> Tensor:
    """[T, H]: the states after each symbol of a text that begins with START, each computed from a
    carried state.
    """
    _, state = model(torch.tensor([[START]]))
    states = []
    for at in ids:
        hidden, state = model(torch.tensor([[at]]), state)
        states.append(hidden[0, 0])
    return torch.stack(states) if states else torch.empty(0, model.hidden)


@pytest.mark.parametrize("layers", [1, 2])
def test_state_carried_over_is_as_good_as_one_long_text(layers: int) -> None:
    model = make(layers)
    ids = torch.randint(SYMBOLS, (2, 7))
    whole, end = model(ids)
    left, state = model(ids[:, :3])
    right, after = model(ids[:, 3:], state)
    torch.testing.assert_close(torch.cat([left, right], 1), whole)
    torch.testing.assert_close(after, end)


def test_the_softmax_is_over_the_embeddings() -> None:
    model = make()
    hidden = torch.randn(4, 5)
    expected = model.project(hidden) @ model.embedding.T + model.bias
    torch.testing.assert_close(model.logits(hidden), expected)
    assert not [name for name, weight in model.named_parameters() if weight.shape == (SYMBOLS, 5)]


def test_the_embedding_learns_from_both_its_ends() -> None:
    model = make()
    ids = torch.tensor([[1, 2, 3]])
    hidden, _ = model(ids)
    F.cross_entropy(model.logits(hidden)[0], torch.tensor([2, 3, 4])).backward()
    assert model.embedding.grad is not None
    assert (
        model.embedding.grad.abs().sum(1) > 0
    ).all()  # as targets all of them, since all are in the softmax


@given(texts=st.lists(st.lists(st.integers(0, SYMBOLS - 1), max_size=6), min_size=1, max_size=4))
def test_states_of_a_batch_are_those_of_each_text_alone(texts: list[list[int]]) -> None:
    ahead = make(seed=1)
    back = make(seed=2, layers=2, hidden=4)
    states = LanguageModelStates(ahead, back, dim=2).eval()
    T = max(map(len, texts))
    ids = torch.tensor([text + [0] * (T - len(text)) for text in texts], dtype=torch.int64).reshape(
        len(texts), T
    )
    found = states.states(ids, torch.tensor([len(text) for text in texts]))
    assert found.shape == (len(texts), T, 9)
    assert found.dtype == torch.float16
    for row, text in zip(found, texts, strict=True):
        expected = torch.cat([one_by_one(ahead, text), one_by_one(back, text[::-1]).flip(0)], dim=1)
        torch.testing.assert_close(row[: len(text)].float(), expected, rtol=1e-3, atol=1e-3)


def test_the_language_model_is_frozen_and_not_among_the_weights() -> None:
    states = LanguageModelStates(make(seed=1), make(seed=2), dim=2, dropout=0.5)
    assert sorted(dict(states.named_parameters())) == ["project.bias", "project.weight"]
    assert sorted(states.state_dict()) == ["project.bias", "project.weight"]
    states.train()
    ids = torch.tensor([[2, 3, 4]])
    lengths = torch.tensor([3])
    found = states.states(ids, lengths)
    assert torch.equal(found, states.states(ids, lengths))  # no dropout in it
    assert not found.requires_grad
    assert states(found).requires_grad


def test_the_language_model_moves_with_the_module() -> None:
    ahead = make(seed=1)
    back = make(seed=2)
    LanguageModelStates(ahead, back, dim=2).to(torch.float64)
    assert {weight.dtype for model in (ahead, back) for weight in model.parameters()} == {
        torch.float64
    }


@pytest.mark.parametrize("layers", [1, 2])
def test_rounded_factors_give_what_a_rounded_lstm_gives(layers: int) -> None:
    model = make(layers)
    ids = torch.randint(SYMBOLS, (2, 7))
    found, state = model(ids[:, :4], None, torch.bfloat16)
    found_after, _ = model(ids[:, 4:], state, torch.bfloat16)
    rounded = make(layers).to(torch.bfloat16)
    expected, state = rounded(ids[:, :4])
    torch.testing.assert_close(found, expected.float())
    torch.testing.assert_close(found_after, rounded(ids[:, 4:], state)[0].float())
    found.sum().backward()
    exact = make(layers)
    exact(ids[:, :4])[0].sum().backward()
    for name, weight in exact.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(
                dict(model.named_parameters())[name].grad,
                weight.grad,
                rtol=0.05,
                atol=0.05,
                msg=name,
            )


@pytest.mark.parametrize(("hidden", "dim"), [(100, 20), (20, 90)])
def test_what_comes_out_has_the_norm_that_was_asked_for(hidden: int, dim: int) -> None:
    torch.manual_seed(0)
    states = LanguageModelStates(make(hidden=hidden), make(hidden=hidden), dim, norm=7.0).eval()
    found = states(torch.randn(50, 3, 2 * hidden).half()).norm(dim=2)
    assert found.mean().item() == pytest.approx(7.0, rel=0.05)
