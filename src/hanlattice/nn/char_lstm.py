"""The plain character BiLSTM: the lattice model's baseline."""

from __future__ import annotations

from torch import Tensor, nn

from hanlattice.nn.packing import run_lstm
from hanlattice.ops.packing import characters
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
        longest = int(lattice.lengths.max(initial=0))
        if len(lattice.lengths) != x.shape[0] or longest > x.shape[1]:
            sentences = f"{len(lattice.lengths)} sentences, the longest of {longest}"
            raise ValueError(f"x is {tuple(x.shape)}, but the lattice has {sentences}")
        return run_lstm(self.lstm, x.flatten(0, 1), characters(lattice, x.shape[1], x.device))
