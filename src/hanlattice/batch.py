"""From sentences to tensors: Indexer makes an Example of each sentence once; collate makes a Batch of some examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hanlattice.text.lattice import Ints, Lattice
from hanlattice.text.lexicon import Lexicon
from hanlattice.text.sentence import Sentence
from hanlattice.text.tags import labels_of, spans_to_tags
from hanlattice.text.vocab import Vocab


@dataclass(frozen=True, eq=False)
class Example:
    """A sentence as numbers."""

    chars: Ints  # [T]
    matches: Ints  # [W, 3]: start, end, word id
    tags: Ints | None  # [T]

    def __len__(self) -> int:
        return len(self.chars)


@dataclass(frozen=True)
class Indexer:
    """What turns text into numbers: the vocabulary, the lexicon (if the model uses one) and the tags."""

    vocab: Vocab
    lexicon: Lexicon | None
    tags: tuple[str, ...]
    scheme: str

    def example(self, sentence: Sentence) -> Example:
        matches = [] if self.lexicon is None else self.lexicon.match_ids(sentence.folded)
        return Example(
            chars=np.array(self.vocab.ids(sentence.characters), dtype=np.int64),
            matches=np.array(matches, dtype=np.int64).reshape(-1, 3),
            tags=None if sentence.spans is None else self._tag_ids(sentence),
        )

    def _tag_ids(self, sentence: Sentence) -> Ints:
        known = {tag: at for at, tag in enumerate(self.tags)}
        labels = labels_of(self.tags)
        spans = [span for span in sentence.spans or () if span.label in labels]
        return np.array([known[tag] for tag in spans_to_tags(spans, len(sentence), self.scheme)], dtype=np.int64)


@dataclass(frozen=True)
class Batch:
    """Sentences side by side, padded with 0."""

    chars: Tensor  # [B, T]
    lengths: Tensor  # [B]
    lattice: Lattice
    words: Tensor  # [W]: the lattice's word ids
    tags: Tensor | None  # [B, T]

    def __post_init__(self) -> None:
        B, T = self.chars.shape
        if len(self.lengths) != B or len(self.lattice.lengths) != B or len(self.words) != len(self.lattice):
            raise ValueError("chars, lengths, lattice and words do not belong to the same batch")
        if self.tags is not None and tuple(self.tags.shape) != (B, T):
            raise ValueError(f"tags must be {(B, T)}, not {tuple(self.tags.shape)}")

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        moved = {name: getattr(self, name).to(device) for name in ("chars", "lengths", "words")}
        return replace(self, **moved, tags=None if self.tags is None else self.tags.to(device))


def collate(examples: Sequence[Example]) -> Batch:
    """One batch of some examples, at least one of them not empty."""
    lengths = [len(example) for example in examples]
    lattice = Lattice.from_matches(lengths, [example.matches for example in examples])
    tagged = all(example.tags is not None for example in examples)
    return Batch(
        chars=_pad([example.chars for example in examples], max(lengths)),
        lengths=torch.tensor(lengths),
        lattice=lattice,
        words=torch.from_numpy(lattice.word.copy()),
        tags=_pad([example.tags for example in examples if example.tags is not None], max(lengths)) if tagged else None,
    )


def _pad(rows: Sequence[Ints], width: int) -> Tensor:
    table = np.zeros((len(rows), width), dtype=np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(table)
