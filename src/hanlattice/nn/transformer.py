"""A pre-trained transformer as an input: one state a character, in windows where a text is long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hanlattice.nn.dropout import Dropout
from hanlattice.nn.to_device import move
from hanlattice.text.lattice import Ints, cells

_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
PLACES = 4  # a character in its piece: inside, first, last, alone


class Windows(NamedTuple):
    """Window w reads the characters [start, stop) of `sentence`, and gives the states of [first,
    last).
    """

    sentence: Ints
    start: Ints
    stop: Ints
    first: Ints
    last: Ints


def windows(lengths: Ints, size: int, overlap: int) -> Windows:
    """As few windows as texts of these lengths need, evenly spread; neighbours share `overlap`
    characters or more.

    A character's state comes from the window whose edge is furthest from it; the ends of a text are
    no edges.
    """
    if not 0 <= overlap < size:
        limits = f"from 0 to {size - 1}, not {overlap}: windows have {size} characters"
        raise ValueError(f"the overlap must be {limits}")
    beyond = np.maximum(lengths - size, 0)
    counts = 1 + -(-beyond // (size - overlap))
    sentence, nth = cells(counts)
    start = nth * beyond[sentence] // np.maximum(counts[sentence] - 1, 1)
    stop = np.minimum(start + size, lengths[sentence])
    first = np.zeros_like(start)
    last = lengths[sentence].copy()
    inner = np.flatnonzero(nth > 0)
    first[inner] = last[inner - 1] = (stop[inner - 1] + start[inner] + 1) // 2
    return Windows(sentence, start, stop, first, last)


class TransformerStates(nn.Module):
    """pieces [B, T] → [B, T, D]: the state of the piece to which each character belongs.

    Characters of one piece differ by a vector for their place in it, which begins as zero. A
    transformer that is `frozen` is not trained, and a mixture of its layers is learnt:
    softmax(mixture) over all of them, times `scale`.
    """

    def __init__(
        self,
        model: nn.Module,
        special: tuple[int, int, int],
        window: int,
        overlap: int,
        frozen: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """Wrap a model; `special` has the ids of [CLS], [SEP], [PAD]; sizes count characters."""
        super().__init__()
        self.model = model
        self.special = special
        self.window = window
        self.overlap = overlap
        self.frozen = frozen
        # With it, factors are rounded on a GPU.
        self.bf16 = False
        # A mask of each pair of cells; of a mask of cells the library asks whether any is out.
        self.square_mask = False
        settings: Any = model.config
        self.dim: int = settings.hidden_size
        self.layers: int = settings.num_hidden_layers
        self.place = nn.Parameter(torch.zeros(PLACES, self.dim))
        self.dropout = Dropout(dropout)
        if frozen:
            model.requires_grad_(False)
            self.mixture = nn.Parameter(torch.zeros(self.layers + 1))
            self.scale = nn.Parameter(torch.ones(1))

    def train(self, mode: bool = True) -> TransformerStates:
        super().train(mode)
        if self.frozen:
            # No dropout inside.
            self.model.eval()
        return self

    def depths(self) -> Iterator[tuple[nn.Parameter, int]]:
        """Yield the transformer's weights, each with the number of layers above it."""
        for name, parameter in self.model.named_parameters():
            layer = _LAYER.search(name)
            yield parameter, self.layers - 1 - int(layer[1]) if layer else self.layers

    def forward(self, pieces: Tensor, lengths: Tensor, known: Ints) -> Tensor:
        """Return the states; `pieces` are 0 beyond a length, `known` the lengths on the host."""
        T = pieces.shape[1]
        if not T:
            return self.place.new_zeros(len(pieces), 0, self.dim)
        whole = known.max(initial=0) <= self.window
        states = self._read(pieces, lengths) if whole else self._read_windows(pieces, known)
        begins = pieces > 0
        at = torch.arange(T, device=pieces.device)
        first = torch.where(begins, at, 0).cummax(1).values  # where each character's piece begins
        states = states.gather(1, first[..., None].expand(-1, -1, self.dim))
        ends = F.pad(begins[:, 1:], (0, 1)) | (at == lengths[:, None] - 1)
        states = states + F.embedding(begins.long() + 2 * ends.long(), self.place)
        dropped: Tensor = self.dropout(states)
        return dropped

    def _read_windows(self, pieces: Tensor, known: Ints) -> Tensor:
        """[B, T, D], as `_read` gives it, from windows of the longer texts."""
        B, T = pieces.shape
        plan = windows(known, self.window, self.overlap)
        sizes = plan.stop - plan.start
        row, column = cells(sizes)
        L = int(sizes.max())
        # The place of each cell of a window in [B · T], counted from 1; 0 is padding.
        read = np.zeros((len(sizes), L), dtype=np.int64)
        read[row, column] = 1 + plan.sentence[row] * T + plan.start[row] + column
        row, column = cells(plan.last - plan.first)
        given = plan.first[row] + column
        source = row * L + given - plan.start[row]
        target = plan.sentence[row] * T + given
        plans = [torch.from_numpy(array) for array in (read, sizes, source, target)]
        cells_read, lengths, sources, targets = (
            move(plans, pieces.device) if pieces.is_cuda else plans
        )
        states = self._read(F.pad(pieces.flatten(), (1, 0))[cells_read], lengths).flatten(0, 1)
        padded = states.new_zeros(B * T, self.dim)
        padded = padded.index_copy(0, targets, states.index_select(0, sources))
        return padded.view(B, T, self.dim)

    def _read(self, pieces: Tensor, lengths: Tensor) -> Tensor:
        """Return [R, L, D]: states at the first characters of pieces [R, L], else anything.

        A cell where no piece begins is masked and has no position of its own, so that pieces are
        read as if they stood side by side.
        """
        cls, sep, pad = self.special
        ids = F.pad(torch.where(pieces > 0, pieces - 1, pad), (1, 1), value=pad)
        mask = F.pad((pieces > 0).long(), (1, 1))
        ids[:, 0], mask[:, 0] = cls, 1
        end = lengths[:, None] + 1
        ids = ids.scatter(1, end, sep)
        mask = mask.scatter(1, end, 1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        if self.square_mask:
            mask = (mask > 0)[:, None, None, :].expand(-1, -1, ids.shape[1], -1)
        rounds = self.bf16 and pieces.is_cuda
        rounded = torch.autocast(pieces.device.type, torch.bfloat16, enabled=rounds)
        with rounded, torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            inputs = {
                "attention_mask": mask,
                "position_ids": positions,
                "token_type_ids": torch.zeros_like(ids),
            }
            output = self.model(ids, **inputs, output_hidden_states=self.frozen)
        if self.frozen:
            shares = self.mixture.softmax(0) * self.scale
            layers = zip(shares.unbind(), output.hidden_states, strict=True)
            parts = [share * layer for share, layer in layers]
            states: Tensor = sum(parts[1:], parts[0])
        else:
            states = output.last_hidden_state.to(self.place.dtype)
        return states[:, 1:-1]
