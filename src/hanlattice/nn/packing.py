"""Running an nn.LSTM over flat rows without padding."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from hanlattice.ops.packing import Packed


def run_lstm(lstm: nn.LSTM, rows: Tensor, packed: Packed) -> Tensor:
    """rows [N, D] → [B, T, 2H] for a bidirectional LSTM, zero after a sequence's end. Empty sequences are allowed."""
    width = lstm.hidden_size * (2 if lstm.bidirectional else 1)
    if not len(packed.sizes):  # nn.LSTM takes no empty batch
        return rows.new_zeros(*packed.shape, width)
    out, _ = run_packed(lstm, rows.index_select(0, packed.source), packed.sizes)
    padded = out.new_zeros(packed.shape[0] * packed.shape[1], width).index_copy(0, packed.target, out)
    return padded.view(*packed.shape, width)


def run_packed(lstm: nn.LSTM, data: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Packed rows [N, D] → (packed states [N, 2H], last states [directions, S, H] of the sequences, longest first)."""
    out, (last, _) = lstm(PackedSequence(data, sizes))
    return out.data, last
