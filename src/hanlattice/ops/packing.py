"""Sequences as nn.LSTM takes them without padding: where everything stands, as index arrays on a device.

A PackedSequence has the first elements of all sequences, then all second ones, and so on, the longest sequence first.
So one long word among thousands of short ones costs its own steps and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from hanlattice.text.lattice import Ints, Lattice, Segments, cells

Places = TypeVar("Places", Lattice, Segments)
BEGINS, GOES_ON, ENDS, POOLS = 0, 1, 2, 3  # the pools of the words over a character, and how many there are
P = ParamSpec("P")
Made = TypeVar("Made")


class Order(NamedTuple):
    """Where N elements of S sequences, numbered sequence by sequence, stand when they are packed."""

    sizes: Ints  # [longest]: how many sequences have a t-th element
    rank: Ints  # [S]: where each sequence stands, the longest first
    place: Ints  # [N]: where each element stands


def packed_order(lengths: Ints) -> Order:
    """Sequences may be empty: they come last, and have no element."""
    longest = int(lengths.max(initial=0))
    sizes = len(lengths) - np.cumsum(np.bincount(lengths, minlength=longest))[:longest]
    rank = inverse(np.argsort(-lengths, kind="stable"))
    row, column = cells(lengths)
    return Order(sizes, rank, (np.cumsum(sizes) - sizes)[column] + rank[row])


def inverse(order: Ints) -> Ints:
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return back


class Packed(NamedTuple):
    """Rows that are taken from a flat table, packed, and whose answers go to a padded one."""

    sizes: Tensor  # [longest], on the CPU
    source: Tensor  # [N], in packed order: the row that each element comes from
    target: Tensor  # [N]: the cell where its answer goes
    shape: tuple[int, int]  # of the padded table


class Spelled(NamedTuple):
    """The characters of each word as a sequence of its own."""

    sizes: Tensor  # [longest word], on the CPU
    source: Tensor  # [N], in packed order: the cell of [B, T] that each character comes from
    rank: Tensor  # [W]: where each word stands


class Bounded(NamedTuple):
    """The characters of each sentence as a sequence, with a boundary before, between and after its words."""

    sizes: Tensor  # [longest], on the CPU
    source: Tensor  # [N]: the cell of [B, T] that each character comes from
    place: Tensor  # [N]: where it stands when packed; the places in between are boundaries
    before: Tensor  # [W]: the place of the boundary before each word
    after: Tensor  # [W]


class Joined(NamedTuple):
    """All characters in a row, word after word."""

    source: Tensor  # [N]: the cell of [B, T] that each character comes from
    word: Tensor  # [N]: its word


class Covered(NamedTuple):
    """The words over each character, and in which of three pools: begins at it, goes on over it, ends at it."""

    word: Tensor  # [N]: each word as often as it has characters, cell by cell of [B, T]
    row: Tensor  # [N]: 3 word + pool
    edges: Tensor  # [BT + 1]: where each cell begins, and the end of the last


class Ends(NamedTuple):
    """Where the words of a lattice begin and end."""

    first: Tensor  # [W]: the cell of [B, T] of the first character
    last: Tensor  # [W]


def _once(make: Callable[Concatenate[Places, P], Made]) -> Callable[Concatenate[Places, P], Made]:
    """`make`, whose result stays in the cache of the lattice or segments that it is given first."""

    @wraps(make)
    def cached(places: Places, /, *rest: P.args, **named: P.kwargs) -> Made:
        key = (make.__name__, *rest, *named.values())
        if key not in places.cache:
            places.cache[key] = make(places, *rest, **named)
        found: Made = places.cache[key]
        return found

    return cached


@_once
def characters(lattice: Lattice, T: int, device: torch.device) -> Packed:
    """Sentences of x [B, T, D] as sequences of characters; the answers stand where the characters stood."""
    order = packed_order(lattice.lengths)
    row, column = cells(lattice.lengths)
    (source,) = _move([(row * T + column)[inverse(order.place)]], device)
    return Packed(torch.from_numpy(order.sizes), source, source, (len(lattice.lengths), T))


@_once
def words(segments: Segments, device: torch.device) -> Packed:
    """Sentences as sequences of words [W, E]; the answers are [B, U], U being the most words of a sentence."""
    order = packed_order(segments.counts)
    row, column = cells(segments.counts)
    U, nth = int(segments.counts.max(initial=0)), inverse(order.place)
    source, target = _move([nth, (row * U + column)[nth]], device)
    return Packed(torch.from_numpy(order.sizes), source, target, (len(segments.counts), U))


@_once
def spelled(segments: Segments, device: torch.device) -> Spelled:
    order = packed_order(segments.end - segments.start)
    source, rank = _move([_cells_of_characters(segments)[inverse(order.place)], order.rank], device)
    return Spelled(torch.from_numpy(order.sizes), source, rank)


@_once
def bounded(segments: Segments, device: torch.device) -> Bounded:
    """In its sentence, character t of word u stands at t + u + 1: so many characters and boundaries are before it."""
    lengths = np.where(segments.counts > 0, segments.lengths + segments.counts + 1, 0)
    order, first = packed_order(lengths), np.cumsum(lengths) - lengths
    u = np.arange(len(segments)) - segments.first[segments.sentence]
    before = first[segments.sentence] + segments.start + u  # [W]
    word, column = cells(segments.end - segments.start)
    places = [order.place[at] for at in (before[word] + 1 + column, before, before + 1 + segments.end - segments.start)]
    return Bounded(torch.from_numpy(order.sizes), *_move([_cells_of_characters(segments), *places], device))


@_once
def joined(segments: Segments, device: torch.device) -> Joined:
    word, _ = cells(segments.end - segments.start)
    return Joined(*_move([_cells_of_characters(segments), word], device))


@_once
def covered(lattice: Lattice, T: int, device: torch.device) -> Covered:
    long = lattice.end - lattice.start
    word, nth = cells(long)
    cell = (lattice.sentence * T + lattice.start)[word] + nth
    pool = np.where(nth == 0, BEGINS, np.where(nth == long[word] - 1, ENDS, GOES_ON))
    order = np.argsort(cell, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(lattice.lengths) * T))])
    return Covered(*_move([word[order], (POOLS * word + pool)[order], edges], device))


@_once
def ends(lattice: Lattice, T: int, device: torch.device) -> Ends:
    first = lattice.sentence * T
    return Ends(*_move([first + lattice.start, first + lattice.end - 1], device))


def prepare(segments: Segments, device: torch.device | str) -> None:
    """Make what the GPU may need to know about segments and start its copy, so that a later call has it at hand."""
    device = torch.device(device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        for make in (words, spelled, bounded, joined):
            make(segments, device)


def _cells_of_characters(segments: Segments) -> Ints:
    """[N]: where each character, word by word, stands in a table [B, T]; the words cover all, so it is counting."""
    row, column = cells(segments.lengths)
    return row * int(segments.lengths.max(initial=0)) + column


def _move(arrays: Sequence[Ints], device: torch.device) -> Sequence[Tensor]:
    """All arrays travel as one copy, which the host does not wait for."""
    flat = torch.from_numpy(np.concatenate(arrays))
    if device.type == "cuda":
        flat = flat.pin_memory()
    return torch.split(flat.to(device, non_blocking=True), [len(array) for array in arrays])
