"""Training on several processes, which torchrun starts: each computes a shard of every batch.

Every process has the same weights, the same random numbers and the same order of batches as one
process alone would have. DDP adds up the gradients of the shards, so the result is the same as with
one process, except for the rounding of these sums and the exceptions of `GlobalBatchDropout`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from hanlattice.errors import HanlatticeError, InputError
from hanlattice.features import Batch
from hanlattice.features.batches import BatchShard
from hanlattice.features.buckets import share_out
from hanlattice.nn.dropout import drop
from hanlattice.nn.tagger import TorchTagger
from hanlattice.optional import quiet
from hanlattice.text.lattice import Ints

# Kept for good: if DDP held the last reference to a group, it would wait for the group's threads
# while it holds Python's lock, and they would wait for that lock.
_groups: list[Any] = []

Item = TypeVar("Item")


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of one training: their number, the rank of this one, and its device."""

    device: str
    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        """Whether this process writes the model, the state and the log."""
        return self.rank == 0

    def rows(self, lengths: Ints) -> Ints | None:
        """Return which sentences of a batch this process computes; None is all of them."""
        return None if self.size == 1 else share_out(lengths, self.size)[self.rank]

    def gather(self, mine: Sequence[Item]) -> list[Item]:
        """Return the items of all processes in order, once every process has called this.

        Args:
            mine: the items of this process, which are every `size`-th one, starting with `rank`.
        """
        if self.size == 1:
            return list(mine)
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, list(mine))
        whole: list[Any] = [None] * sum(map(len, parts))
        for rank, part in enumerate(parts):
            whole[rank :: self.size] = part
        return whole

    def parallel(self, tagger: TorchTagger) -> nn.Module:
        """Return the module to call in training: it averages gradients over the processes."""
        if self.size == 1:
            return tagger
        # DDP waits for the gradient of every weight. An empty weight gets none, and neither does
        # the pooler that a transformer may have.
        empty = any(not weight.numel() for weight in tagger.parameters())
        unused = empty or tagger.transformer is not None
        # Newer versions of torch warn of `broadcast_buffers`; older ones know no other name.
        with quiet("torch"):
            return DistributedDataParallel(
                tagger, broadcast_buffers=False, find_unused_parameters=unused
            )

    @contextmanager
    def exchange(self, model: nn.Module, now: bool) -> Iterator[None]:
        """Exchange gradients in the backward pass inside this block, or only add them up here."""
        if now or not isinstance(model, DistributedDataParallel):
            yield
            return
        with model.no_sync():
            yield

    def add_up(self, total: Tensor) -> Tensor:
        """Replace a number by its sum over all processes."""
        if self.size > 1:
            dist.all_reduce(total)
        return total


def shard_loss(model: nn.Module, part: Batch) -> Tensor:
    """Run the forward pass on this process's share of a batch, and return the sum of its losses."""
    if part.share is None:
        losses: Tensor = model(part)
        return losses.sum()
    with GlobalBatchDropout(part.share):
        losses = model(part)
    # A process without a sentence of its own computes one that counts nothing, since DDP needs a
    # backward pass in every process.
    return losses.sum() * float(part.share.counts)


class GlobalBatchDropout(TorchFunctionMode):
    """Draw dropout for the whole batch and take the rows of this process's sentences.

    So each sentence gets the mask that it has in a training on one process. Some dropout is not
    seen here, and each process draws it by itself: between the layers of `nn.LSTM`, which only a
    word model of several layers has, and in a transformer's attention and windows.
    """

    def __init__(self, share: BatchShard) -> None:
        super().__init__()
        self.share = share

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func not in (F.dropout, drop) or not kwargs.get("training", True):
            return func(*args, **kwargs)
        (x,) = args
        share = self.share
        # Two dimensions are vectors of the batch's words, three are states of its sentences.
        size, rows = share.sentences, share.rows
        if x.ndim == 2:
            size, rows = share.words, share.word_rows
        # The windows of a transformer are rows of their own.
        if len(x) != len(rows):
            return func(*args, **kwargs)
        # States of words are fewer than characters; a transformer's own states are two more.
        is_by_word = share.units and x.ndim == 3 and x.shape[1] < share.characters
        width = (share.units, x.shape[2]) if is_by_word else x.shape[1:]
        mask = func(x.new_ones(size, *width), kwargs["p"])
        return x * mask.index_select(0, rows)[:, : x.shape[1]]


@contextmanager
def join(device: str) -> Iterator[ProcessGroup]:
    """Join the group that torchrun's environment variables describe; without them, be alone."""
    variables = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
    size, rank, local = (int(os.environ.get(name, 0)) for name in variables)
    if size <= 1:
        yield ProcessGroup(device)
        return
    if device != "cpu":
        device = _own_gpu(device, local)
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if device == "cpu" else "nccl")
    _groups.append(dist.group.WORLD)
    try:
        yield ProcessGroup(device, rank, size)
    except RuntimeError as error:
        # Gloo has no error class of its own.
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise HanlatticeError(
            "another process of this training has ended, and says why; "
            "the same command with --resume continues"
        ) from error
    finally:
        dist.destroy_process_group()


def _own_gpu(device: str, local: int) -> str:
    """The GPU of the process with this number on its machine."""
    if device != "cuda":
        raise InputError(
            f"with several processes each has its own GPU: set train.device to cuda, not {device}"
        )
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    gpus = torch.cuda.device_count()
    if processes > gpus:
        raise InputError(
            f"{processes} processes on this machine need as many GPUs, and it has {gpus}"
        )
    return f"cuda:{local}"
