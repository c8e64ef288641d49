"""A batch as tensors: for training, for a GPU, and for a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanlattice.features.batches import Batch
from hanlattice.ops import packing
from hanlattice.ops.lattice_lstm import prepare


def to_device(batch: Batch, device: torch.device | str) -> Batch:
    """Return the batch as tensors on a device.

    To a GPU all ids go in one copy and states in another, without waiting.
    """
    there = torch.device(device)
    named = {
        name: getattr(batch, name)
        for name in ("chars", "lengths", "words", "tags", "symbols", "counts")
    }
    whole = {
        name: _tensor(ids)
        for name, ids in (*named.items(), *batch.extra_ids.items())
        if ids is not None
    }
    if batch.share is not None:
        whole |= {"rows": _tensor(batch.share.rows), "word_rows": _tensor(batch.share.word_rows)}
    floats = {
        name: _tensor(values)
        for name in ("states", "shares")
        if (values := getattr(batch, name)) is not None
    }
    if there.type == "cuda" and whole["chars"].is_cpu:
        tensors: dict[str, Any] = dict(zip(whole, move(list(whole.values()), there), strict=True))
        here = tensors["chars"].device  # which, unlike `there`, always has a number
        if batch.segments is None:
            prepare(batch.lattice, here)
        else:
            packing.prepare(batch.segments, here)
        tensors |= {
            name: tensor.pin_memory().to(there, non_blocking=True)
            for name, tensor in floats.items()
        }
    else:
        tensors = {name: tensor.to(there) for name, tensor in (whole | floats).items()}
    extra_ids = {name: tensors.pop(name) for name in batch.extra_ids}
    share = batch.share and batch.share._replace(
        rows=tensors.pop("rows"), word_rows=tensors.pop("word_rows")
    )
    return replace(batch, share=share, extra_ids=extra_ids, **tensors)


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values


def move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of int64 to a GPU through one piece of pinned memory, which is not used again before
    it was read.
    """
    sizes = [tensor.numel() for tensor in tensors]
    packed = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=True)
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=packed)
    moved = torch.split(packed.to(device, non_blocking=True), sizes)
    return [part.view(tensor.shape) for part, tensor in zip(moved, tensors, strict=True)]
