"""Segments, random inputs and a step-by-step BiLSTM, for the tests of word models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from hanlattice.text.lattice import Segments

# Words of one character, a word as long as its sentence, one sentence alone, and empty sentences at
# every place of a batch
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
    """Return segments with these lengths in each sentence; their ids count up."""
    ends = [np.cumsum(row) for row in words]
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *ends]).astype(np.int64)
    sizes = np.array([size for row in words for size in row], dtype=np.int64)
    lengths, counts = ([f(row) for row in words] for f in (sum, len))
    return Segments(lengths, counts, flat - sizes, flat, np.arange(len(flat)))  # type: ignore[arg-type]


def segmentations(
    max_sentences: int = 4, max_words: int = 5, max_length: int = 4
) -> st.SearchStrategy[Segments]:
    """Draw segments of a few sentences."""
    row = st.lists(st.integers(1, max_length), max_size=max_words)
    return st.lists(row, min_size=1, max_size=max_sentences).map(segments_of)


def words_of(segments: Segments) -> Iterator[tuple[int, int, int]]:
    """Yield sentence, start and end of each word."""
    w = 0
    for b, count in enumerate(segments.counts.tolist()):
        for _ in range(count):
            yield b, int(segments.start[w]), int(segments.end[w])
            w += 1


def inputs(segments: Segments, D: int, seed: int = 0, extra: int = 0) -> Tensor:
    """Return random inputs [B, T, D] in float64, with NaN after the end of each sentence.

    T is the length of the longest sentence, and `extra` columns.
    """
    generator = torch.Generator().manual_seed(seed)
    T = int(segments.lengths.max(initial=0)) + extra
    x = torch.randn(len(segments.lengths), T, D, generator=generator, dtype=torch.float64)
    for b, length in enumerate(segments.lengths.tolist()):
        x[b, length:] = torch.nan
    return x


def alone(segments: Segments, b: int) -> tuple[Segments, slice]:
    """Return one sentence as a batch, and the places of its words in the whole batch."""
    first = int(segments.counts[:b].sum())
    words = slice(first, first + int(segments.counts[b]))
    parts = (segments.start[words], segments.end[words], segments.word[words])
    return Segments(segments.lengths[b : b + 1], segments.counts[b : b + 1], *parts), words


def lstm_states(lstm: nn.LSTM, rows: Tensor, layer: int = 0) -> tuple[Tensor, Tensor]:
    """Compute the states [N, H] of both directions of a layer from rows [N, D], step by step."""
    forward = _direction(lstm, rows, f"l{layer}")
    return forward, _direction(lstm, rows.flip(0), f"l{layer}_reverse").flip(0)


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
    """Return the gradients of a random mixture of the outputs; zero for weights without one."""
    if not out.requires_grad:
        return [torch.zeros_like(weight) for weight in weights]
    mixture = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=out.dtype)
    grads = torch.autograd.grad(out, list(weights), mixture, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, grads, strict=True)]


def assert_alike(actual: Tensor, expected: Tensor, weights: Sequence[Tensor]) -> None:
    """Assert that two outputs are equal, and that the gradients of the weights are too."""
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)
    for mine, theirs in zip(gradients(actual, weights), gradients(expected, weights), strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)
