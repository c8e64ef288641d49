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
    device = torch.device(device)
    names = ("chars", "lengths", "words", "tags", "symbols", "counts")
    ids = {name: getattr(batch, name) for name in names} | dict(batch.extra_ids)
    whole = {name: _tensor(values) for name, values in ids.items() if values is not None}
    if batch.share is not None:
        whole |= {"rows": _tensor(batch.share.rows), "word_rows": _tensor(batch.share.word_rows)}
    states = {"states": batch.states, "shares": batch.shares}
    floats = {name: _tensor(values) for name, values in states.items() if values is not None}
    if device.type == "cuda" and whole["chars"].is_cpu:
        tensors: dict[str, Any] = dict(zip(whole, move(list(whole.values()), device), strict=True))
        # Unlike `device`, that of a tensor always has a number.
        numbered = tensors["chars"].device
        if batch.segments is None:
            prepare(batch.lattice, numbered)
        else:
            packing.prepare(batch.segments, numbered)
        for name, tensor in floats.items():
            tensors[name] = tensor.pin_memory().to(device, non_blocking=True)
    else:
        tensors = {name: tensor.to(device) for name, tensor in (whole | floats).items()}
    extra_ids = {name: tensors.pop(name) for name in batch.extra_ids}
    share = batch.share and batch.share._replace(
        rows=tensors.pop("rows"), word_rows=tensors.pop("word_rows")
    )
    return replace(batch, share=share, extra_ids=extra_ids, **tensors)


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else values


def move(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copy tensors of int64 to a GPU at once, through pinned memory that torch keeps until then."""
    sizes = [tensor.numel() for tensor in tensors]
    packed = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=True)
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=packed)
    moved = torch.split(packed.to(device, non_blocking=True), sizes)
    return [part.view(tensor.shape) for part, tensor in zip(moved, tensors, strict=True)]
