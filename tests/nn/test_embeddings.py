"""Tables of vectors: what is trained, what is kept, and that half precision loses nothing."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanlattice.config import make_config
from hanlattice.nn.embeddings import CharEmbedding, TwoSources, WordEmbedding
from hanlattice.training.optim import make_optimizer

ROUND = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).half().float()
FINE = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)) + 1e-4


@given(trained=st.integers(0, 6), ids=st.lists(st.integers(0, 5)), is_round=st.booleans())
def test_rows_are_the_vectors_whatever_is_trained(
    trained: int, ids: list[int], is_round: bool
) -> None:
    table = ROUND if is_round else FINE
    words = WordEmbedding.from_vectors(table, trained)
    assert len(words) == 6
    assert words.dim == 3
    rows = words.rows(torch.tensor(ids, dtype=torch.int64))
    assert rows.dtype == torch.float32
    assert torch.equal(rows, table[ids])


@pytest.mark.parametrize(("table", "dtype"), [(ROUND, torch.float16), (FINE, torch.float32)])
def test_half_precision_only_where_it_loses_nothing(
    table: torch.Tensor, dtype: torch.dtype
) -> None:
    assert WordEmbedding.from_vectors(table, 2).fixed.dtype == dtype


def test_values_that_half_precision_cannot_hold_stay():
    table = torch.tensor([[1e6, 1.0], [6e-8, 65504.0], [1e-12, 0.0]])
    assert torch.equal(WordEmbedding.from_vectors(table).rows(torch.arange(3)), table)


@pytest.mark.parametrize(
    "settings", [{"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "sgd", "momentum": 0.9}]
)
@pytest.mark.parametrize("trained", [0, 4])
def test_words_beyond_the_trained_ones_never_change(
    settings: dict[str, object], trained: int
) -> None:
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
    words = WordEmbedding.from_vectors(table, trained)
    new = torch.tensor([[1e-9, 2.0, 3.0], [4.0, 5.0, 6.0]])
    words.append(new)
    assert len(words) == 8
    assert torch.equal(words.rows(torch.arange(8)), torch.cat([table, new]))


@given(
    sizes=st.lists(st.integers(0, 5), max_size=8),
    dtypes=st.lists(
        st.sampled_from([torch.half, torch.float, torch.double]), min_size=8, max_size=8
    ),
)
def test_append_many_times_is_one_list(sizes: list[int], dtypes: list[torch.dtype]) -> None:
    """In the widest precision so far, never part of what is saved, and what lies beyond is never
    read.
    """
    words = WordEmbedding.from_vectors(FINE, 2)
    rows = torch.zeros(0, 3)
    saved = words.state_dict().keys()
    for at, (size, dtype) in enumerate(zip(sizes, dtypes, strict=False)):
        new = torch.arange(size * 3).view(size, 3).to(dtype) + at
        words.append(new)
        rows = torch.cat([rows, new]) if len(rows) else new
        words._room[len(rows) :] = torch.nan
        assert (len(words.added), words.added.dtype) == (len(rows), rows.dtype)
        assert torch.equal(words.added, rows)
    expected = torch.cat([FINE, rows.float()])
    for table in (words, copy.deepcopy(words), words.to("cpu")):
        assert len(table) == len(expected)
        assert torch.equal(table.rows(torch.arange(len(table))), expected)
        assert table.state_dict().keys() == saved
    assert words.double().added.dtype == torch.double
    assert torch.equal(words.added, rows.double())


def test_one_more_row_is_no_copy_of_all_of_them():
    words = WordEmbedding.from_vectors(FINE, 2)
    words.append(torch.zeros(1000, 3))
    assert len(words._room) == 1000  # and no room before there is need of it
    places = []
    for _ in range(1000):
        words.append(torch.ones(1, 3))
        places.append(words.added.data_ptr())
    assert sum(left != right for left, right in pairwise(places)) <= 3
    assert len(words._room) <= 1.5 * len(words.added)


def test_rows_may_join_in_any_mode():
    words = WordEmbedding.from_vectors(FINE, 2)
    with torch.inference_mode():
        words.append(torch.ones(2, 3))
        words.append(torch.ones(2, 3))
    words.append(FINE[:1].clone().requires_grad_())
    assert torch.equal(words.added, torch.cat([torch.ones(4, 3), FINE[:1]]))
    assert not words.added.requires_grad
    words(torch.tensor([0, 6, 10])).sum().backward()
    assert words.trained.grad is not None
    with torch.inference_mode():
        words.double()
    words.append(torch.ones(1, 3))
    assert torch.equal(words.added[-1], torch.ones(3, dtype=torch.float64))


@given(
    count=st.integers(0, 9),
    trained=st.integers(0, 9),
    before=st.integers(0, 6),
    added=st.integers(0, 2),
)
def test_the_first_rows(count: int, trained: int, before: int, added: int) -> None:
    words = WordEmbedding.from_vectors(FINE, before, dropout=0.25)
    new = torch.full((added, 3), 1e-9)
    words.append(new)
    first = words.first(count, trained)
    expected = torch.cat([FINE, new])[:count]
    assert len(first) == len(expected)
    assert len(first.trained) == min(trained, len(expected))
    assert (len(first.added), first.dropout.p) == (0, 0.25)
    assert torch.equal(first.rows(torch.arange(len(first))), expected)
    assert not first.trained.requires_grad or first.trained.is_leaf


def test_the_first_rows_stay_as_small_as_they_were():
    assert WordEmbedding.from_vectors(ROUND, 2).first(5, 2).fixed.dtype == torch.float16
    assert WordEmbedding.from_vectors(FINE, 2).first(5, 2).fixed.dtype == torch.float32


def test_dropout_only_in_training():
    words = WordEmbedding.from_vectors(FINE, 2, dropout=0.5)
    chars = CharEmbedding(FINE, dropout=0.5)
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


# ---- two sources


WORDS = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).half().float()
SUBWORDS = torch.randn(5, 2, generator=torch.Generator().manual_seed(2)).half().float()


def side_by_side(words: torch.Tensor, subwords: torch.Tensor, ids: list[int]) -> torch.Tensor:
    """Two plain lookups with zeros beside them."""
    rows = [torch.zeros(0, words.shape[1] + subwords.shape[1])]
    for at in ids:
        if at < len(subwords):
            rows.append(torch.cat([torch.zeros(words.shape[1]), subwords[at]])[None])
        else:
            rows.append(
                torch.cat([words[at - len(subwords)], torch.zeros(subwords.shape[1])])[None]
            )
    return torch.cat(rows)


@given(
    trained=st.tuples(st.integers(0, 4), st.integers(0, 5)),
    there=st.tuples(st.integers(0, 4), st.integers(0, 5)),
    added=st.integers(0, 3),
    data=st.data(),
)
def test_each_source_has_its_own_columns_and_zeros_in_the_others(
    trained: tuple[int, int], there: tuple[int, int], added: int, data: st.DataObject
) -> None:
    """Also with words that come later, and where a source has nothing at all."""
    words = WORDS[: there[0]]
    subwords = SUBWORDS[: there[1]]
    both = TwoSources(
        WordEmbedding.from_vectors(words, min(trained[0], len(words))),
        WordEmbedding.from_vectors(subwords, min(trained[1], len(subwords))),
    )
    assert both.dim == 5
    for extra in range(added):
        both.words.append(torch.full((1, 3), extra + 1e-9))
    words = torch.cat([words, *(torch.full((1, 3), extra + 1e-9) for extra in range(added))])
    count = len(words) + len(subwords)
    ids = data.draw(st.lists(st.integers(0, count - 1), max_size=8)) if count else []
    assert torch.equal(
        both(torch.tensor(ids, dtype=torch.int64)), side_by_side(words, subwords, ids)
    )


def test_a_gradient_reaches_the_rows_that_were_looked_up_in_their_own_source():
    """Not the rows that stand in for the other source's, at the edges of the tables."""
    for ids, words, subwords in (
        ([0, 2, 2], [], [0, 2]),
        ([5, 7], [0, 2], []),
        ([4, 8], [3], [4]),
        ([6, 1], [1], [1]),
    ):
        both = TwoSources(
            WordEmbedding.from_vectors(WORDS, 4), WordEmbedding.from_vectors(SUBWORDS, 5)
        )
        both(torch.tensor(ids)).sum().backward()
        assert both.words.trained.grad is not None
        assert both.subwords.trained.grad is not None
        assert both.words.trained.grad.any(1).nonzero().flatten().tolist() == words
        assert both.subwords.trained.grad.any(1).nonzero().flatten().tolist() == subwords
    assert both.words.trained.grad[1].tolist() == [1.0, 1.0, 1.0]


def test_each_source_has_its_own_dropout():
    both = TwoSources(
        WordEmbedding.from_vectors(WORDS, dropout=0.5),
        WordEmbedding.from_vectors(SUBWORDS, dropout=0.0),
    ).train()
    ids = torch.arange(9).repeat(10)
    dropped = both(ids) != side_by_side(WORDS, SUBWORDS, ids.tolist())
    assert dropped[:, :3].any()
    assert not dropped[:, 3:].any()
    assert torch.equal(both.eval()(ids), side_by_side(WORDS, SUBWORDS, ids.tolist()))
