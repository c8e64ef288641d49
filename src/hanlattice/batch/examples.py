"""From sentences to tensors: Indexer makes Examples of a corpus once; batches are taken from them without a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanlattice.ops.lattice_lstm import prepare
from hanlattice.text.lattice import Ints, Lattice
from hanlattice.text.lexicon import Lexicon, Matches
from hanlattice.text.normal import CodeTable, code_points, fold_code_points
from hanlattice.text.sentence import Sentence
from hanlattice.text.tag_ids import TagIds
from hanlattice.text.vocab import Vocab, seen_as

PART = 1 << 19  # characters that are matched at a time: bounds what matching needs beside its result


@dataclass(frozen=True, eq=False)
class Examples:
    """Many sentences as numbers, one after the other in flat arrays, so that a batch is taken without a loop."""

    lengths: Ints  # [S]
    chars: Ints  # [N]
    matches: Matches
    tags: Ints | None  # [N]; None where a sentence has none
    symbols: Ints | None = None  # [N]: the characters as the language model numbers them, if there is one
    states: npt.NDArray[np.float16] | None = None  # [N, S]: what the language model makes of them, if that is kept

    def __post_init__(self) -> None:
        counts, *words = self.matches
        if len(self.chars) != self.lengths.sum() or not (self.tags is None or len(self.tags) == len(self.chars)):
            raise ValueError("lengths, chars and tags do not belong to the same sentences")
        if any(other is not None and len(other) != len(self.chars) for other in (self.symbols, self.states)):
            raise ValueError("chars, symbols and states do not belong to the same sentences")
        Lattice(self.lengths, np.repeat(np.arange(len(counts)), counts), *words)  # its checks

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def first(self) -> Ints:
        """[S]: where each sentence's characters begin."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def first_match(self) -> Ints:
        """[S]: where each sentence's matches begin."""
        return np.cumsum(self.matches.counts) - self.matches.counts

    def batch(self, places: Sequence[int] | Ints) -> Batch:
        """One batch of the sentences at these places, in this order."""
        at = np.asarray(places, dtype=np.int64)
        lengths, B, T = self.lengths[at], len(at), int(self.lengths[at].max(initial=0))
        row, column = _cells(lengths)
        here, there = self.first[at][row] + column, row * T + column
        sentence, nth = _cells(self.matches.counts[at])
        found = self.first_match[at][sentence] + nth
        lattice = Lattice.trusted(lengths, sentence, *(array[found] for array in self.matches[1:]))
        return Batch(
            chars=_padded(self.chars[here], there, B, T),
            lengths=torch.from_numpy(self.lengths[at]),
            lattice=lattice,
            words=torch.from_numpy(self.matches.word[found]),
            tags=None if self.tags is None else _padded(self.tags[here], there, B, T),
            symbols=None if self.symbols is None else _padded(self.symbols[here], there, B, T),
            states=None if self.states is None else _padded_rows(self.states, here, there, B, T),
        )


@dataclass(frozen=True)
class Indexer:
    """What turns text into numbers: the vocabulary, the lexicon and the language model's symbols (if the model uses
    them), and the tags."""

    vocab: Vocab
    lexicon: Lexicon | None
    tags: tuple[str, ...]
    scheme: str
    symbols: Vocab | None = None

    def examples(self, sentences: Sequence[Sentence]) -> Examples:
        """A corpus as numbers, with the gold tags if every sentence has spans."""
        plain = self.read([sentence.text for sentence in sentences])
        spans = [sentence.spans for sentence in sentences if sentence.spans is not None]
        if len(spans) < len(sentences):
            return plain
        return replace(plain, tags=self.tag_ids.tags(spans, plain.lengths))

    def read(self, texts: Sequence[str]) -> Examples:
        """Texts as numbers, without tags."""
        lengths, chars, symbols, matches = zip(*map(self._part, _parts(texts, PART)), strict=True)
        joined = (_concatenate(arrays) for arrays in zip(*matches, strict=True))
        plain = Examples(_concatenate(lengths), _concatenate(chars), Matches(*joined), tags=None)
        return plain if self.symbols is None else replace(plain, symbols=_concatenate(symbols))

    def _part(self, texts: Sequence[str]) -> tuple[Ints, Ints, Ints, Matches]:
        """(lengths, character ids, the language model's symbols, matches)."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        codes, ends = code_points("\n".join(texts)), np.cumsum(lengths + 1)[:-1] - 1
        plain = np.delete(codes, ends)  # without the line ends in between
        chars, symbols = (table(plain).astype(np.int64) for table in (self._char_ids, self._symbol_ids))
        if self.lexicon is None:
            nothing = np.empty(0, dtype=np.int64)
            return lengths, chars, symbols, Matches(np.zeros_like(lengths), nothing, nothing, nothing)
        return lengths, chars, symbols, self.lexicon.match_joined(fold_code_points(codes), lengths)

    @cached_property
    def _char_ids(self) -> CodeTable:
        return seen_as(self.vocab)

    @cached_property
    def _symbol_ids(self) -> CodeTable:
        return self._char_ids if self.symbols is None else seen_as(self.symbols)

    @cached_property
    def tag_ids(self) -> TagIds:
        """What turns spans into tags, as numbers, and back."""
        return TagIds(self.tags, self.scheme)


@dataclass(frozen=True)
class Batch:
    """Sentences side by side, padded with 0."""

    chars: Tensor  # [B, T]
    lengths: Tensor  # [B]
    lattice: Lattice
    words: Tensor  # [W]: the lattice's word ids
    tags: Tensor | None  # [B, T]
    symbols: Tensor | None = None  # [B, T]: for the language model
    states: Tensor | None = None  # [B, T, S], in half precision: the language model's, where they are known already

    def __post_init__(self) -> None:
        B, T = self.chars.shape
        if len(self.lengths) != B or len(self.lattice.lengths) != B or len(self.words) != len(self.lattice):
            raise ValueError("chars, lengths, lattice and words do not belong to the same batch")
        if self.tags is not None and tuple(self.tags.shape) != (B, T):
            raise ValueError(f"tags must be {(B, T)}, not {tuple(self.tags.shape)}")
        for name, other in (("symbols", self.symbols), ("states", self.states)):
            if other is not None and tuple(other.shape[:2]) != (B, T):
                raise ValueError(f"{name} must begin with {(B, T)}, not {tuple(other.shape)}")

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device. To a GPU all numbers go in one copy, and states in another; nobody waits for them."""
        there = torch.device(device)
        named = {name: getattr(self, name) for name in ("chars", "lengths", "words", "tags", "symbols")}
        whole = {name: tensor for name, tensor in named.items() if tensor is not None}
        states = self.states
        if there.type == "cuda" and self.chars.is_cpu:
            moved = dict(zip(whole, _move(list(whole.values()), there), strict=True))
            prepare(self.lattice, moved["chars"].device)  # which, unlike `there`, always has a number
            states = None if states is None else states.pin_memory().to(there, non_blocking=True)
        else:
            moved = {name: tensor.to(there) for name, tensor in whole.items()}
            states = None if states is None else states.to(there)
        return Batch(
            lattice=self.lattice,
            chars=moved["chars"],
            lengths=moved["lengths"],
            words=moved["words"],
            tags=moved.get("tags"),
            symbols=moved.get("symbols"),
            states=states,
        )


def _move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of int64 to a GPU through one piece of pinned memory, which is not used again before it was read."""
    sizes = [tensor.numel() for tensor in tensors]
    packed = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=True)
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=packed)
    moved = torch.split(packed.to(device, non_blocking=True), sizes)
    return [part.view(tensor.shape) for part, tensor in zip(moved, tensors, strict=True)]


def _cells(lengths: Ints) -> tuple[Ints, Ints]:
    """(row, column) of everything in rows of these lengths, row by row."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    return row, np.arange(len(row)) - (np.cumsum(lengths) - lengths)[row]


def _padded(values: Ints, places: Ints, B: int, T: int) -> Tensor:
    table = np.zeros(B * T, dtype=np.int64)
    table[places] = values
    return torch.from_numpy(table.reshape(B, T))


def _padded_rows(rows: npt.NDArray[np.float16], here: Ints, there: Ints, B: int, T: int) -> Tensor:
    table = np.zeros((B * T, rows.shape[1]), dtype=rows.dtype)
    table[there] = rows[here]
    return torch.from_numpy(table.reshape(B, T, -1))


def _parts(texts: Sequence[str], characters: int) -> Iterator[Sequence[str]]:
    """The texts in lists of about so many characters; at least one list."""
    if sum(map(len, texts)) <= characters:
        yield texts
        return
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // characters)) + 1
    for low, high in pairwise([0, *cuts.tolist(), len(texts)]):
        yield texts[low:high]


def _concatenate(arrays: Sequence[Ints]) -> Ints:
    whole = arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *arrays])
    return whole.astype(np.int64, copy=False)
