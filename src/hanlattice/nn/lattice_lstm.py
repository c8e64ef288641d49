"""The bidirectional lattice LSTM as a module: it owns the weights, the op does the work; without
words; in a stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hanlattice.nn.baselines import CharLSTM
from hanlattice.nn.dropout import Dropout
from hanlattice.ops.lattice_lstm import LatticeLSTMWeights, bidirectional, prepare, trace
from hanlattice.ops.lattice_lstm.weights import gate_count, weight_shapes
from hanlattice.ops.packing import ends
from hanlattice.text.lattice import Lattice


class LatticeLSTM(nn.Module):
    """x [B, T, D], word_x [W, E] → [B, T, 2H].

    As in the original code, recurrent weights start at the identity (one for each gate), input
    weights are orthogonal, biases are zero. Where all of them are to be loaded, `fresh` is off, and
    they are left at zero.
    """

    def __init__(
        self,
        dim: int,
        word_dim: int,
        hidden: int,
        coupled: bool = True,
        backend: str = "auto",
        fresh: bool = True,
    ) -> None:
        super().__init__()
        self.coupled = coupled
        self.backend = backend
        self.hidden = hidden
        self.forward_weights = nn.ParameterDict(
            _initial(dim, word_dim, hidden, gate_count(coupled), fresh)
        )
        self.backward_weights = nn.ParameterDict(
            _initial(dim, word_dim, hidden, gate_count(coupled), fresh)
        )

    @property
    def width(self) -> int:
        return 2 * self.hidden

    @property
    def weights(self) -> tuple[LatticeLSTMWeights, LatticeLSTMWeights]:
        """Of the forward and of the backward direction, as the op takes them."""
        ahead, back = (
            LatticeLSTMWeights(**dict(w.items()))
            for w in (self.forward_weights, self.backward_weights)
        )
        return ahead, back

    def forward(self, x: Tensor, word_x: Tensor, lattice: Lattice) -> Tensor:
        h: Tensor = bidirectional(x, word_x, lattice, *self.weights, self.coupled, self.backend)
        return h

    def traced(self, x: Tensor, word_x: Tensor, lattice: Lattice) -> list[trace.Both]:
        """Both directions with the shares that made up their cells: a list of one layer."""
        weights = (LatticeLSTMWeights(*map(_array, each)) for each in self.weights)
        return [trace.bidirectional(_array(x), _array(word_x), lattice, weights, self.coupled)]


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().cpu().numpy()


def _initial(
    dim: int, word_dim: int, hidden: int, gates: int, fresh: bool
) -> dict[str, nn.Parameter]:
    orthogonal = nn.init.orthogonal_ if fresh else Tensor.zero_

    def same(times: int) -> Tensor:
        return torch.eye(hidden).repeat(1, times) if fresh else torch.zeros(hidden, times * hidden)

    weights = LatticeLSTMWeights(
        char_input=orthogonal(torch.empty(dim, gates * hidden)),
        char_hidden=same(gates),
        char_bias=torch.zeros(gates * hidden),
        word_input=orthogonal(torch.empty(word_dim, 3 * hidden)),
        word_hidden=same(3),
        word_bias=torch.zeros(3 * hidden),
        link_input=orthogonal(torch.empty(dim, hidden)),
        link_hidden=same(1),
        link_bias=torch.zeros(hidden),
    )
    return {name: nn.Parameter(tensor) for name, tensor in weights._asdict().items()}


class CoupledLSTM(nn.Module):
    """x [B, T, D] → [B, T, 2H]: the lattice LSTM without words, which is a character LSTM with f =
    1 − i.

    It has the weights of characters alone, which start as those of the lattice do, and ignores
    words like `CharLSTM`.
    """

    def __init__(self, dim: int, hidden: int, backend: str = "auto", fresh: bool = True) -> None:
        super().__init__()
        self.backend = backend
        self.hidden = hidden
        self.forward_weights, self.backward_weights = (
            nn.ParameterDict(
                {
                    n: w
                    for n, w in _initial(dim, 0, hidden, 3, fresh).items()
                    if n.startswith("char_")
                }
            )
            for _ in range(2)
        )

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def forward(self, x: Tensor, word_x: Tensor | None, lattice: Lattice) -> Tensor:
        unused = [
            x.new_zeros(shape) for shape in weight_shapes(x.shape[2], 0, self.hidden, True)[3:]
        ]
        ahead, back = (
            LatticeLSTMWeights(w["char_input"], w["char_hidden"], w["char_bias"], *unused)
            for w in (self.forward_weights, self.backward_weights)
        )
        h: Tensor = bidirectional(
            x, x.new_zeros(0, 0), lattice.without_words(), ahead, back, True, self.backend
        )
        return h


Layer = CharLSTM | CoupledLSTM | LatticeLSTM


class Stack(nn.Module):
    """The first layer reads x, the others what the one below gives, after dropout; all see the same
    words.

    With `whole_words`, a word's input to a layer above the first also has the states of the layer
    below that have just read all of the word: the forward one at its last character, the backward
    one at its first. The stack has the signature of its layers, so that one layer alone and several
    in a stack are used alike.
    """

    def __init__(
        self, layers: Sequence[Layer], dropout: float = 0.0, whole_words: bool = False
    ) -> None:
        super().__init__()
        if not layers:
            raise ValueError("a stack needs one layer or more")
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)
        self.whole_words = whole_words
        self.width = layers[-1].width

    def forward(self, x: Tensor, word_x: Tensor | None, lattice: Lattice) -> Tensor:
        seen = word_x
        for n, layer in enumerate(self.layers):
            if n:
                x = self.dropout(x)
                seen = word_x if word_x is None else self._above(x, word_x, lattice)
            x = layer(x, seen, lattice)
        return x

    def prepare(self, lattice: Lattice, T: int, device: torch.device) -> None:
        """Make what a GPU needs to know of a lattice, and start its copy, ahead of `forward`."""
        if self.whole_words:
            ends(lattice, T, device)
        if isinstance(self.layers[0], CoupledLSTM):
            prepare(lattice.without_words(), device)

    def _above(self, x: Tensor, word_x: Tensor, lattice: Lattice) -> Tensor:
        """The words as a layer above the first sees them."""
        if not self.whole_words:
            return word_x
        at = ends(lattice, x.shape[1], x.device)
        ahead, back = x.flatten(0, 1).chunk(2, dim=1)
        return torch.cat([word_x, F.embedding(at.last, ahead), F.embedding(at.first, back)], dim=1)

    def traced(self, x: Tensor, word_x: Tensor, lattice: Lattice) -> list[trace.Both]:
        """What each lattice layer mixed its cells of, from the lowest up; without dropout."""
        found: list[trace.Both] = []
        for n, layer in enumerate(self.layers):
            seen = self._above(x, word_x, lattice) if n else word_x
            if isinstance(layer, LatticeLSTM):
                found += layer.traced(x, seen, lattice)
                x = torch.from_numpy(np.concatenate([each.h for each in found[-1]], axis=2)).to(x)
            else:
                x = layer(x, seen, lattice)
        return found
