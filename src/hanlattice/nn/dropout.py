"""Dropout whose draws do not depend on gaps in memory, so processes can share a batch's draws."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function_unary


class Dropout(nn.Dropout):
    """torch's dropout on contiguous memory.

    On CUDA, torch draws other numbers for a tensor with gaps, such as the fused kernels' output.
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.contiguous() if self.training else x)


def drop(x: Tensor, p: float) -> Tensor:
    """Drop elements with probability `p`, on a CPU rounded to 1/256.

    There one random number serves eight elements, a byte each: much faster than torch's own.
    """
    if has_torch_function_unary(x):
        return handle_torch_function(drop, (x,), x, p=p)
    limit = min(255, round(p * 256))
    if x.is_cuda or not limit:
        return F.dropout(x.contiguous(), p)
    # From −2⁶³ up without an end: all 64 bits are random.
    chance = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(1 << 63), None)
    kept = chance.view(torch.uint8)[: x.numel()].view(x.shape) >= limit
    return x * (kept.to(x.dtype) * (256 / (256 - limit)))
