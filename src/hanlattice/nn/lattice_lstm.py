"""The bidirectional lattice LSTM as a module: it owns the weights, the op does the work."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional
from hanlattice.ops.lattice_lstm.weights import gate_count
from hanlattice.text.lattice import Lattice


class LatticeLSTM(nn.Module):
    """x [B, T, D], word_x [W, E] → [B, T, 2H].

    As in the original code, recurrent weights start at the identity (one for each gate), input weights are orthogonal,
    biases are zero.
    """

    def __init__(self, dim: int, word_dim: int, hidden: int, coupled: bool = True, backend: str = "auto") -> None:
        super().__init__()
        self.coupled, self.backend, self.hidden = coupled, backend, hidden
        self.forward_weights = nn.ParameterDict(_initial(dim, word_dim, hidden, gate_count(coupled)))
        self.backward_weights = nn.ParameterDict(_initial(dim, word_dim, hidden, gate_count(coupled)))

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def forward(self, x: Tensor, word_x: Tensor, lattice: Lattice) -> Tensor:
        ahead, back = (LatticeLSTMWeights(**dict(w.items())) for w in (self.forward_weights, self.backward_weights))
        return bidirectional(x, word_x, lattice, ahead, back, self.coupled, self.backend)


def _initial(dim: int, word_dim: int, hidden: int, gates: int) -> dict[str, nn.Parameter]:
    weights = LatticeLSTMWeights(
        char_input=nn.init.orthogonal_(torch.empty(dim, gates * hidden)),
        char_hidden=torch.eye(hidden).repeat(1, gates),
        char_bias=torch.zeros(gates * hidden),
        word_input=nn.init.orthogonal_(torch.empty(word_dim, 3 * hidden)),
        word_hidden=torch.eye(hidden).repeat(1, 3),
        word_bias=torch.zeros(3 * hidden),
        link_input=nn.init.orthogonal_(torch.empty(dim, hidden)),
        link_hidden=torch.eye(hidden),
        link_bias=torch.zeros(hidden),
    )
    return {name: nn.Parameter(tensor) for name, tensor in weights._asdict().items()}
