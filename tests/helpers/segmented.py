"""What tests of word models share: segments, random inputs, and a BiLSTM written out step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from hanlattice.text.lattice import Segments

# Words of one character, a word as long as its sentence, sentences of nothing at the start, inside
# and at the end,
# one sentence alone, nothing but emptiness.
ODD: dict[str, list[list[int]]] = {
    "mixed": [[1, 3, 2], [4], [1]],
    "empty inside": [[2, 1], [], [1, 1, 1, 1], []],
    "empty first": [[], [5], [2, 2]],
    "alone": [[1, 2]],
    "one character": [[1]],
    "one long word": [[1, 1], [9], [2]],
    "nothing": [[], []],
    "no sentence": [],
}


def segments_of(words: Sequence[Sequence[int]]) -> Segments:
    """Segments from the lengths of each sentence's words; the ids count up."""
    ends = [np.cumsum(row) for row in words]
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *ends]).astype(np.int64)
    sizes = np.array([size for row in words for size in row], dtype=np.int64)
    lengths, counts = ([f(row) for row in words] for f in (sum, len))
    return Segments(lengths, counts, flat - sizes, flat, np.arange(len(flat)))  # type: ignore[arg-type]


def segmentations(
    max_sentences: int = 4, max_words: int = 5, max_length: int = 4
) -> st.SearchStrategy[Segments]:
    row = st.lists(st.integers(1, max_length), max_size=max_words)
    return st.lists(row, min_size=1, max_size=max_sentences).map(segments_of)


def words_of(segments: Segments) -> Iterator[tuple[int, int, int]]:
    """(sentence, start, end) of each word, found by counting."""
    w = 0
    for b, count in enumerate(segments.counts.tolist()):
        for _ in range(count):
            yield b, int(segments.start[w]), int(segments.end[w])
            w += 1


def inputs(segments: Segments, D: int, seed: int = 0, extra: int = 0) -> Tensor:
    """x [B, T, D] in float64; NaN beyond the sentences' ends. `extra` columns stand beyond the
    longest of them.
    """
    generator = torch.Generator().manual_seed(seed)
    T = int(segments.lengths.max(initial=0)) + extra
    x = torch.randn(len(segments.lengths), T, D, generator=generator, dtype=torch.float64)
    for b, length in enumerate(segments.lengths.tolist()):
        x[b, length:] = torch.nan
    return x


def alone(segments: Segments, b: int) -> tuple[Segments, slice]:
    """Sentence b as a batch of its own, and where its words stand in the whole."""
    first = int(segments.counts[:b].sum())
    mine = slice(first, first + int(segments.counts[b]))
    parts = (segments.start[mine], segments.end[mine], segments.word[mine])
    return Segments(segments.lengths[b : b + 1], segments.counts[b : b + 1], *parts), mine


def lstm_states(lstm: nn.LSTM, rows: Tensor, layer: int = 0) -> tuple[Tensor, Tensor]:
    """rows [N, D] → the states [N, H] of both directions of one layer, by the equations of the
    LSTM.
    """
    return _direction(lstm, rows, f"l{layer}"), _direction(
        lstm, rows.flip(0), f"l{layer}_reverse"
    ).flip(0)


def _direction(lstm: nn.LSTM, rows: Tensor, name: str) -> Tensor:
    into, again, b_into, b_again = (
        getattr(lstm, f"{kind}_{name}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h = c = rows.new_zeros(lstm.hidden_size)
    states = []
    for row in rows:
        i, f, g, o = (into @ row + b_into + again @ h + b_again).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states)


def gradients(out: Tensor, weights: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """The gradient of a random mixture of the outputs; zero for what has no part in them."""
    if not out.requires_grad:
        return [torch.zeros_like(weight) for weight in weights]
    mixture = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=out.dtype)
    found = torch.autograd.grad(out, list(weights), mixture, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]


def assert_alike(found: Tensor, expected: Tensor, weights: Sequence[Tensor]) -> None:
    """The same numbers, and the same gradient of each weight, all finite."""
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(gradients(found, weights), gradients(expected, weights), strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)
