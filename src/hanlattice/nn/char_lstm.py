"""The plain character BiLSTM: the lattice model's baseline."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hanlattice.text.lattice import Lattice


class CharLSTM(nn.Module):
    """x [B, T, D] → [B, T, 2H]. Takes words and lattice like its sibling, and uses only the lattice's lengths."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def forward(self, x: Tensor, word_x: Tensor | None, lattice: Lattice) -> Tensor:
        at = lattice.lengths.nonzero()[0]  # nn.LSTM takes no empty sentences
        out = x.new_zeros(*x.shape[:2], self.width)
        if len(at):
            rows = torch.from_numpy(at).to(x.device)
            lengths = lattice.lengths[at].tolist()
            packed = pack_padded_sequence(x[rows], lengths, batch_first=True, enforce_sorted=False)
            padded, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])
            out = out.index_copy(0, rows, padded)
        return out
