"""Tables of vectors: what is trained, what is kept, and that half precision loses nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.config import make_config
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.training.optim import make_optimizer

ROUND = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).half().float()
FINE = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)) + 1e-4


@given(trained=st.integers(0, 6), ids=st.lists(st.integers(0, 5)), is_round=st.booleans())
def test_rows_are_the_vectors_whatever_is_trained(trained: int, ids: list[int], is_round: bool) -> None:
    table = ROUND if is_round else FINE
    words = WordEmbedding.from_vectors(table, trained)
    assert len(words) == 6
    assert words.dim == 3
    rows = words.rows(torch.tensor(ids, dtype=torch.int64))
    assert rows.dtype == torch.float32
    assert torch.equal(rows, table[ids])


@pytest.mark.parametrize(("table", "dtype"), [(ROUND, torch.float16), (FINE, torch.float32)])
def test_half_precision_only_where_it_loses_nothing(table: torch.Tensor, dtype: torch.dtype) -> None:
    assert WordEmbedding.from_vectors(table, 2).fixed.dtype == dtype


def test_values_that_half_precision_cannot_hold_stay():
    table = torch.tensor([[1e6, 1.0], [6e-8, 65504.0], [1e-12, 0.0]])
    assert torch.equal(WordEmbedding.from_vectors(table).rows(torch.arange(3)), table)


@pytest.mark.parametrize(
    "settings", [{"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "sgd", "momentum": 0.9}]
)
@pytest.mark.parametrize("trained", [0, 4])
def test_words_beyond_the_trained_ones_never_change(settings: dict[str, object], trained: int) -> None:
    words = WordEmbedding.from_vectors(FINE, trained)
    optimizer = make_optimizer(words, make_config({"train": {"lr": 0.1, **settings}}).train)
    for ids in ([0, 1, 5], [2, 5, 5], [3, 4, 0]):
        loss = words(torch.tensor(ids)).square().sum()
        if loss.requires_grad:
            loss.backward()
        optimizer.step()
    after = words.rows(torch.arange(6)).detach()
    assert torch.equal(after[trained:], FINE[trained:])
    assert all(not torch.equal(after[at], FINE[at]) for at in range(trained))


def test_only_the_rows_that_were_looked_up_get_a_gradient():
    words = WordEmbedding.from_vectors(FINE, 4)
    words(torch.tensor([1, 5])).sum().backward()
    assert words.trained.grad is not None
    assert words.trained.grad.any(1).tolist() == [False, True, False, False]


@pytest.mark.parametrize("table", [ROUND, FINE])
@pytest.mark.parametrize("trained", [0, 3, 6])
def test_append_adds_rows_and_leaves_the_others(table: torch.Tensor, trained: int) -> None:
    words, new = WordEmbedding.from_vectors(table, trained), torch.tensor([[1e-9, 2.0, 3.0], [4.0, 5.0, 6.0]])
    words.append(new)
    assert len(words) == 8
    assert torch.equal(words.rows(torch.arange(8)), torch.cat([table, new]))


@pytest.mark.parametrize("trained", [0, 3, 6])
def test_mean_is_over_all_rows(trained: int) -> None:
    torch.testing.assert_close(WordEmbedding.from_vectors(ROUND, trained).mean(), ROUND.mean(0))


def test_dropout_only_in_training():
    words, chars = WordEmbedding.from_vectors(FINE, 2, dropout=0.5), CharEmbedding(FINE, dropout=0.5)
    for table in (words, chars):
        assert (table.train()(torch.arange(6).repeat(20)) == 0).any()
        assert torch.equal(table.eval()(torch.arange(6)), FINE)


@pytest.mark.parametrize("fine_tune", [True, False])
def test_characters_are_trained_if_asked(fine_tune: bool) -> None:
    table = FINE.clone()
    chars = CharEmbedding(table, fine_tune)
    assert chars(torch.arange(3)).requires_grad == fine_tune
    with torch.no_grad():
        chars.vectors.zero_()
    assert torch.equal(table, FINE)  # it has its own copy
