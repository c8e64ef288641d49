"""Dropout whose draws do not depend on gaps in memory, so that processes can draw those of a batch
that they share.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function_unary


class Dropout(nn.Dropout):
    """That of torch, on contiguous memory: on CUDA torch draws other numbers where a tensor has
    gaps, as the fused kernels' output has.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.contiguous() if self.training else x)


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout. On a CPU a byte of chance is enough for an element: one number of the generator
    serves eight, which is quicker than torch's own by far. `p` is then taken to the nearest 1/256.
    """
    if has_torch_function_unary(x):
        return handle_torch_function(drop, (x,), x, p=p)
    limit = min(255, round(p * 256))
    if x.is_cuda or not limit:
        return F.dropout(x.contiguous(), p)
    chance = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(
        -(1 << 63), None
    )  # all 64 bits
    kept = chance.view(torch.uint8)[: x.numel()].view(x.shape) >= limit
    return x * (kept.to(x.dtype) * (256 / (256 - limit)))
