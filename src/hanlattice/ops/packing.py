"""Sequences without padding: index arrays of NumPy or, with a device, tensors on it.

A PackedSequence has the first elements of all sequences, then all second ones, and so on, the
longest sequence first. So one long word among thousands of short ones costs its own steps and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from hanlattice.text.lattice import Ints, Lattice, Segments, cells

Places = TypeVar("Places", Lattice, Segments)
# The pools of the words over a character, and their number.
BEGINS = 0
GOES_ON = 1
ENDS = 2
POOLS = 3
Values = Any  # an array of numpy, or a tensor
P = ParamSpec("P")
Made = TypeVar("Made")


class Order(NamedTuple):
    """Where the N elements of S sequences, sequence by sequence, stand when they are packed."""

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

    sizes: Values  # [longest], on the CPU
    source: Values  # [N], in packed order: the row that each element comes from
    target: Values  # [N]: the cell where its answer goes
    shape: tuple[int, int]  # of the padded table


class CharsByWord(NamedTuple):
    """The characters of each word as a sequence of its own."""

    sizes: Values  # [longest word], on the CPU
    source: Values  # [N], in packed order: the cell of [B, T] that each character comes from
    rank: Values  # [W]: where each word stands


class CharsWithBoundaries(NamedTuple):
    """The characters of each sentence, with a boundary before, between and after its words."""

    sizes: Values  # [longest], on the CPU
    source: Values  # [N]: the cell of [B, T] that each character comes from
    place: Values  # [N]: where it stands when packed; the places in between are boundaries
    before: Values  # [W]: the place of the boundary before each word
    after: Values  # [W]


class Joined(NamedTuple):
    """All characters in a row, word after word."""

    source: Values  # [N]: the cell of [B, T] that each character comes from
    word: Values  # [N]: its word


class WordsByChar(NamedTuple):
    """The words over each character, in three pools: begins at it, goes on over it, ends at it."""

    word: Values  # [N]: each word as often as it has characters, cell by cell of [B, T]
    row: Values  # [N]: 3 word + pool
    edges: Values  # [BT + 1]: where each cell begins, and the end of the last


class Ends(NamedTuple):
    """Where the words of a lattice begin and end."""

    first: Values  # [W]: the cell of [B, T] of the first character
    last: Values  # [W]


def _once(make: Callable[Concatenate[Places, P], Made]) -> Callable[Concatenate[Places, P], Made]:
    """Keep the result of `make` in the cache of its first argument, a lattice or segments."""

    @wraps(make)
    def cached(places: Places, /, *rest: P.args, **named: P.kwargs) -> Made:
        key = (make.__name__, *rest, *named.values())
        if key not in places.cache:
            places.cache[key] = make(places, *rest, **named)
        result: Made = places.cache[key]
        return result

    return cached


@_once
def characters(lattice: Lattice, T: int, device: Any = None) -> Packed:
    """Pack the characters of x [B, T, D]; answers go where the characters stood."""
    order = packed_order(lattice.lengths)
    row, column = cells(lattice.lengths)
    (source,) = _move([(row * T + column)[inverse(order.place)]], device)
    return Packed(_tensor(order.sizes, device), source, source, (len(lattice.lengths), T))


@_once
def words(segments: Segments, device: Any = None) -> Packed:
    """Pack words [W, E] by sentence; answers go to [B, U], U being the most words of a sentence."""
    order = packed_order(segments.counts)
    row, column = cells(segments.counts)
    U = int(segments.counts.max(initial=0))
    nth = inverse(order.place)
    source, target = _move([nth, (row * U + column)[nth]], device)
    return Packed(_tensor(order.sizes, device), source, target, (len(segments.counts), U))


@_once
def spelled(segments: Segments, device: Any = None) -> CharsByWord:
    order = packed_order(segments.end - segments.start)
    source, rank = _move([_cells_of_characters(segments)[inverse(order.place)], order.rank], device)
    return CharsByWord(_tensor(order.sizes, device), source, rank)


@_once
def bounded(segments: Segments, device: Any = None) -> CharsWithBoundaries:
    """Pack the characters and boundaries of each sentence."""
    # Character t of word u comes after t characters and u + 1 boundaries.
    lengths = np.where(segments.counts > 0, segments.lengths + segments.counts + 1, 0)
    order = packed_order(lengths)
    first = np.cumsum(lengths) - lengths
    u = np.arange(len(segments)) - segments.first[segments.sentence]
    before = first[segments.sentence] + segments.start + u  # [W]
    word, column = cells(segments.end - segments.start)
    chars = order.place[before[word] + 1 + column]
    after = before + 1 + segments.end - segments.start
    arrays = [_cells_of_characters(segments), chars, order.place[before], order.place[after]]
    return CharsWithBoundaries(_tensor(order.sizes, device), *_move(arrays, device))


@_once
def joined(segments: Segments, device: Any = None) -> Joined:
    word, _ = cells(segments.end - segments.start)
    return Joined(*_move([_cells_of_characters(segments), word], device))


@_once
def covered(lattice: Lattice, T: int, device: Any = None) -> WordsByChar:
    long = lattice.end - lattice.start
    word, nth = cells(long)
    cell = (lattice.sentence * T + lattice.start)[word] + nth
    pool = np.where(nth == 0, BEGINS, np.where(nth == long[word] - 1, ENDS, GOES_ON))
    order = np.argsort(cell, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(lattice.lengths) * T))])
    return WordsByChar(*_move([word[order], (POOLS * word + pool)[order], edges], device))


@_once
def ends(lattice: Lattice, T: int, device: Any = None) -> Ends:
    first = lattice.sentence * T
    return Ends(*_move([first + lattice.start, first + lattice.end - 1], device))


def prepare(segments: Segments, device: Any) -> None:
    """Start to copy the index arrays of segments to a GPU, ahead of the calls that need them."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        # The cache is asked for the device of a tensor, which always has a number.
        index = torch.cuda.current_device() if device.index is None else device.index
        device = torch.device("cuda", index)
        for make in (words, spelled, bounded, joined):
            make(segments, device)


def _cells_of_characters(segments: Segments) -> Ints:
    """Return [N]: where each character, word by word, stands in a table [B, T]."""
    # The words cover every character, so their order is that of the characters.
    row, column = cells(segments.lengths)
    return row * int(segments.lengths.max(initial=0)) + column


def _tensor(sizes: Ints, device: Any) -> Values:
    if device is None:
        return sizes
    import torch

    return torch.from_numpy(sizes)


def _move(arrays: Sequence[Ints], device: Any) -> Sequence[Values]:
    """Copy all arrays to a device at once, without waiting; without a device return them."""
    if device is None:
        return arrays
    import torch

    flat = torch.from_numpy(np.concatenate(arrays))
    if device.type == "cuda":
        flat = flat.pin_memory()
    return torch.split(flat.to(device, non_blocking=True), [len(array) for array in arrays])
