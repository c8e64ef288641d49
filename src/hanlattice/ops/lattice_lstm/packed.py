"""The weights of all directions in the few matrices that the fused op multiplies by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.ops.lattice_lstm.weights import LatticeLSTMWeights

WHOLE = 64  # recurrent matrices are padded to whole multiples of it, so that no tile reads past them


class Packed(NamedTuple):
    """The weights of all directions as the products want them; gates in the order of kernels.py."""

    inputs: Tensor  # [D, N·(G + 1)·H]
    bias: Tensor  # [N·(G + 1)·H]
    word_inputs: Tensor  # [E, N·3·H]
    word_bias: Tensor  # [N·3·H]
    recurrent: Tensor  # [HP, N·(G + 4), HP], padded with 0


def pack(weights: Sequence[LatticeLSTMWeights], coupled: bool, precision: str) -> Packed:
    """The nine weights of each direction, joined."""
    H = weights[0].hidden
    inputs, biases, recurrent = [], [], []
    for w in weights:
        f, rest = _apart(w.char_hidden, H, coupled)
        recurrent += [*rest, w.word_hidden, w.link_hidden, *f]
        f, rest = _apart(w.char_input, H, coupled)
        inputs += [*rest, w.link_input, *f]
        f, rest = _apart(w.char_bias, H, coupled)
        biases += [*rest, w.link_bias, *f]
    side = torch.cat(recurrent, dim=1).view(H, -1, H)
    more = -H % WHOLE
    side = F.pad(side, (0, more, 0, 0, 0, more)) if more else side
    return Packed(
        inputs=torch.cat(inputs, dim=1),
        bias=torch.cat(biases),
        word_inputs=torch.cat([w.word_input for w in weights], dim=1),
        word_bias=torch.cat([w.word_bias for w in weights]),
        recurrent=side.to(torch.bfloat16) if precision == "bf16" else side,
    )


def _apart(matrix: Tensor, H: int, coupled: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The columns of f, if there are any, and of the other gates."""
    return ([], [matrix]) if coupled else ([matrix[..., H : 2 * H]], [matrix[..., :H], matrix[..., 2 * H :]])
