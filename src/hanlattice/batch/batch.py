"""Batch: sentences side by side, as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hanlattice.ops import packing
from hanlattice.ops.lattice_lstm import prepare
from hanlattice.text.lattice import Lattice
from hanlattice.text.segments import Segments


@dataclass(frozen=True)
class Batch:
    """Sentences side by side, padded with 0. Tags are of characters; with `segments`, of words."""

    chars: Tensor  # [B, T]
    lengths: Tensor  # [B]
    lattice: Lattice
    words: Tensor  # [W]: the ids of the lattice's words, or of the segments'
    tags: Tensor | None  # [B, T] or [B, U]
    symbols: Tensor | None = None  # [B, T]: for the language model
    states: Tensor | None = None  # [B, T, S], in half precision: the language model's, where they are known already
    beside: Mapping[str, Tensor] = field(default_factory=dict)  # [B, T] each: further numbers of the characters
    segments: Segments | None = None  # the words that cover the sentences, for a word model
    counts: Tensor | None = None  # [B]: how many these are

    def __post_init__(self) -> None:
        B, T = self.chars.shape
        if (self.segments is None) != (self.counts is None):
            raise ValueError("segments come with counts, and counts with segments")
        sizes = {B, len(self.lengths), len(self.lattice.lengths), len(self.places.lengths), len(self.units)}
        if len(sizes) > 1 or len(self.words) != len(self.places):
            raise ValueError("chars, lengths, words and where they stand do not belong to the same batch")
        units = (B, T if self.segments is None else int(self.segments.counts.max(initial=0)))
        if self.tags is not None and tuple(self.tags.shape) != units:
            raise ValueError(f"tags must be {units}, not {tuple(self.tags.shape)}")
        for name, other in (("symbols", self.symbols), ("states", self.states), *self.beside.items()):
            if other is not None and tuple(other.shape[:2]) != (B, T):
                raise ValueError(f"{name} must begin with {(B, T)}, not {tuple(other.shape)}")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def places(self) -> Lattice | Segments:
        """Where the words stand."""
        return self.lattice if self.segments is None else self.segments

    @property
    def units(self) -> Tensor:
        """[B]: how many tags each sentence has."""
        return self.lengths if self.counts is None else self.counts

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device. To a GPU all numbers go in one copy, and states in another; nobody waits for them."""
        there = torch.device(device)
        named = {name: getattr(self, name) for name in ("chars", "lengths", "words", "tags", "symbols", "counts")}
        whole = {name: tensor for name, tensor in (*named.items(), *self.beside.items()) if tensor is not None}
        states = self.states
        if there.type == "cuda" and self.chars.is_cpu:
            moved = dict(zip(whole, _move(list(whole.values()), there), strict=True))
            here = moved["chars"].device  # which, unlike `there`, always has a number
            if self.segments is None:
                prepare(self.lattice, here)
            else:
                packing.prepare(self.segments, here)
            states = None if states is None else states.pin_memory().to(there, non_blocking=True)
        else:
            moved = {name: tensor.to(there) for name, tensor in whole.items()}
            states = None if states is None else states.to(there)
        return Batch(
            chars=moved["chars"],
            lengths=moved["lengths"],
            lattice=self.lattice,
            words=moved["words"],
            tags=moved.get("tags"),
            symbols=moved.get("symbols"),
            states=states,
            beside={name: moved[name] for name in self.beside},
            segments=self.segments,
            counts=moved.get("counts"),
        )


def _move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of int64 to a GPU through one piece of pinned memory, which is not used again before it was read."""
    sizes = [tensor.numel() for tensor in tensors]
    packed = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=True)
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=packed)
    moved = torch.split(packed.to(device, non_blocking=True), sizes)
    return [part.view(tensor.shape) for part, tensor in zip(moved, tensors, strict=True)]
