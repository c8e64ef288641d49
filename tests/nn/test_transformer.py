"""A transformer's states: those of the library run by hand, whatever the batch; windows against all
of them.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hanlattice.checkpoint.transformer import read_transformer
from hanlattice.config import TransformerConfig
from hanlattice.nn.transformer import TransformerStates, windows
from hanlattice.text.normalize import code_points
from tests.helpers.made import write_transformer


@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    sizes=st.integers(1, 20).flatmap(
        lambda size: st.tuples(st.just(size), st.integers(0, size - 1))
    ),
)
def test_each_character_is_given_by_the_window_with_the_furthest_edge(
    lengths: list[int], sizes: tuple[int, int]
) -> None:
    size, overlap = sizes
    found = windows(np.array(lengths), size, overlap)
    for at, length in enumerate(lengths):
        rows = np.flatnonzero(found.sentence == at)
        bounds = [(int(found.start[row]), int(found.stop[row])) for row in rows]
        fewest = 1 if length <= size else 1 + -(-(length - size) // (size - overlap))
        assert len(rows) == fewest
        assert all(stop - start == min(size, length) for start, stop in bounds)
        assert all(a[1] - b[0] >= overlap for a, b in pairwise(bounds))

        def distance(place: int, bound: tuple[int, int], length: int = length) -> float:
            left = place - bound[0] if bound[0] else float("inf")
            return min(left, bound[1] - 1 - place if bound[1] < length else float("inf"))

        given = [(row, place) for row in rows for place in range(found.first[row], found.last[row])]
        assert [place for _, place in given] == list(range(length))
        for row, place in given:
            mine = (int(found.start[row]), int(found.stop[row]))
            assert mine[0] <= place < mine[1]
            assert distance(place, mine) == max(distance(place, bound) for bound in bounds)


def test_an_overlap_as_wide_as_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="the overlap must be from 0 to 3, not 4"):
        windows(np.array([9]), 4, 4)


TEXTS = [
    "王小明去了iphone33工作。",
    "ab",
    "abc33去33331",
    "南湖开会" * 20,
    "天气很好" * 7 + "abc" * 8,
]


class Read:
    """A transformer's folder, read; and the states of texts."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.transformer = read_transformer(folder)
        self.module: TransformerStates = self.transformer.states(
            TransformerConfig(**settings)
        ).eval()

    def pieces(self, text: str) -> list[int]:
        found: list[int] = self.transformer.pieces(
            code_points(text), np.array([len(text)])
        ).tolist()
        return found

    def states(self, *texts: str, width: int = 0) -> Tensor:
        rows = [self.pieces(text) for text in texts]
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        T = max(width, int(lengths.max(initial=0)))
        ids = torch.tensor([row + [0] * (T - len(row)) for row in rows], dtype=torch.int64).view(
            len(texts), T
        )
        with torch.no_grad():
            found: Tensor = self.module(ids, torch.from_numpy(lengths), lengths)
        return found

    def by_hand(self, numbers: list[int]) -> Tensor:
        """[T, D]: the library's own states of the pieces, without any padding or mask, each for all
        its characters.
        """
        cls, sep, _ = self.module.special
        ids = torch.tensor([[cls, *(number - 1 for number in numbers if number), sep]])
        with torch.no_grad():
            states: Tensor = self.module.model(ids).last_hidden_state[0, 1:-1]
        return states[(torch.tensor(numbers) > 0).cumsum(0) - 1]


@pytest.mark.parametrize("kind", ["bert", "electra", "ernie"])
def test_states_are_the_librarys_of_the_piece_that_covers_a_character(
    tmp_path: Path, kind: str
) -> None:
    read = Read(write_transformer(tmp_path, kind), overlap=4)
    found = read.states(*TEXTS[:3])
    for row, text in zip(found, TEXTS, strict=False):
        torch.testing.assert_close(
            row[: len(text)], read.by_hand(read.pieces(text)), rtol=1e-4, atol=1e-5
        )
    assert read.states("").shape == (1, 0, 12)
    read.module.square_mask = False
    torch.testing.assert_close(read.states(*TEXTS[:3]), found)
    # as a process's share of a batch with a longer text, beyond the positions that it has
    torch.testing.assert_close(read.states(*TEXTS[:3], width=83)[:, : found.shape[1]], found)


def test_a_long_text_is_read_in_windows_and_a_short_one_as_if_there_were_none(
    transformer_folder: Path,
) -> None:
    read = Read(transformer_folder, window=16, overlap=6)
    wide = Read(transformer_folder, overlap=6)
    for text in TEXTS[:2]:
        assert torch.equal(read.states(text), wide.states(text))  # bit by bit
    found = read.states(*TEXTS)
    plan = windows(np.array([len(text) for text in TEXTS]), 16, 6)
    for sentence, start, stop, first, last in zip(*plan, strict=True):
        pieces = read.pieces(TEXTS[sentence])
        expected = read.by_hand(pieces[start:stop])[first - start : last - start]
        whole = np.array(
            [any(pieces[first : at + 1]) for at in range(first, last)]
        )  # begun in this part
        mine = found[sentence, first:last]
        torch.testing.assert_close(mine[whole], expected[whole], rtol=1e-4, atol=1e-5)
        for at in np.flatnonzero(
            ~whole
        ):  # the state of a piece that began before: that of its first character
            assert torch.equal(mine[at], found[sentence, first - 1])


def test_characters_of_one_piece_differ_by_their_places(transformer_folder: Path) -> None:
    read = Read(transformer_folder, overlap=4)
    text = "33iphone王"  # alone: nothing; pieces of 2 and of 6 characters, and of one
    before = read.states(text)[0]
    with torch.no_grad():
        read.module.place += torch.arange(4.0)[:, None] + 1
    added = (read.states(text)[0] - before).mean(1).round().int().tolist()
    numbers = read.pieces(text)
    begins = [number > 0 for number in numbers]
    ends = [*begins[1:], True]
    assert added == [1 + begin + 2 * end for begin, end in zip(begins, ends, strict=True)]
    assert {1, 2, 3, 4} == set(added)


def test_a_frozen_one_learns_a_mixture_of_its_layers_and_nothing_else(
    transformer_folder: Path,
) -> None:
    read = Read(transformer_folder, frozen=True, overlap=4)
    text = "王小明去了南湖"
    module = read.module.train()
    assert not module.model.training
    assert {name for name, p in module.named_parameters() if p.requires_grad} == {
        "place",
        "mixture",
        "scale",
    }
    with torch.no_grad():
        module.mixture.copy_(torch.tensor([0.1, -1.0, 2.0]))
        module.scale.fill_(3.0)
    ids = torch.tensor([read.pieces(text)])
    found = module.eval()(ids, torch.tensor([len(text)]), np.array([len(text)]))
    shares = torch.tensor([0.1, -1.0, 2.0]).exp() / torch.tensor([0.1, -1.0, 2.0]).exp().sum()
    cls, sep, _ = module.special
    with torch.no_grad():
        whole = torch.tensor([[cls, *(ids[0] - 1).tolist(), sep]])
        layers = module.model(whole, output_hidden_states=True).hidden_states
    expected = 3 * sum(share * layer[0, 1:-1] for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(found[0], expected, rtol=1e-4, atol=1e-5)
    found.square().sum().backward()
    assert module.mixture.grad is not None
    assert module.mixture.grad.abs().min() > 0
    assert all(weight.grad is None for weight in module.model.parameters())


def test_depths_count_the_layers_above(transformer_folder: Path) -> None:
    module = Read(transformer_folder, overlap=4).module
    names = {id(p): name for name, p in module.model.named_parameters()}
    for parameter, depth in module.depths():
        name = names[id(parameter)]
        assert depth == (2 if name.startswith("embeddings") else 1 if ".layer.0." in name else 0), (
            name
        )
