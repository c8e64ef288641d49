"""Training on several processes, as torchrun starts them: each computes a share of every batch, the
first one writes.

Every process has the same weights, the same random numbers and the same order of batches as one
process alone would have. DDP adds up the gradients of the shares, so the result is that of one
process, but for the rounding of these sums and the exceptions of `WholeDropout`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
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
from hanlattice.training.step import tagger_gradients

# Kept for good: were DDP the last to hold a group, it would wait for the group's threads, with
# Python's lock, and they
# for that lock.
_groups: list[Any] = []

Item = TypeVar("Item")
Gradients = Callable[..., Tensor]  # of the parts of a batch


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of one training: this one's number, how many there are, and its device."""

    device: str
    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes the model, the state and the log."""
        return self.rank == 0

    def rows(self, lengths: Ints) -> Ints | None:
        """Which sentences of a batch are this process's; None is all."""
        return None if self.size == 1 else share_out(lengths, self.size)[self.rank]

    def gather(self, mine: Sequence[Item]) -> list[Item]:
        """The items of all processes, of which this one has every `size`-th; each waits for the
        others.
        """
        if self.size == 1:
            return list(mine)
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, list(mine))
        whole: list[Any] = [None] * sum(map(len, parts))
        for rank, part in enumerate(parts):
            whole[rank :: self.size] = part
        return whole

    def gradients(self, tagger: TorchTagger) -> Gradients:
        """What does for a batch, in parts, what `tagger_gradients` does."""
        if self.size == 1:
            return partial(tagger_gradients, tagger)
        empty = any(
            not weight.numel() for weight in tagger.parameters()
        )  # no gradient, and DDP waits for one
        unused = empty or tagger.transformer is not None  # which may have a pooler
        with quiet(
            "torch"
        ):  # newer versions warn of `broadcast_buffers`, and older ones know no other name
            parallel = DistributedDataParallel(
                tagger, broadcast_buffers=False, find_unused_parameters=unused
            )
        return partial(_gradients, parallel, self.size)


def _gradients(parallel: DistributedDataParallel, size: int, *parts: Batch) -> Tensor:
    """DDP takes the mean over processes; the mean over sentences is their sum divided by all
    sentences of the batch.
    """
    shares = [part.share for part in parts if part.share is not None]
    total = torch.zeros((), device=parts[0].chars.device)
    count = sum(share.sentences for share in shares)
    for at, (part, share) in enumerate(zip(parts, shares, strict=True)):
        with (
            parallel.no_sync() if at + 1 < len(parts) else nullcontext()
        ):  # gradients travel with the last part
            with WholeDropout(share):
                losses = parallel(part)
            loss = losses.sum() * float(share.counts)
            (loss * (size / count)).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total


class WholeDropout(TorchFunctionMode):
    """Dropout draws for the whole batch and takes what is of the share: each sentence is masked as
    in one process.

    What `nn.LSTM` drops between its own layers, which only a word model of several layers has, and
    a transformer in its attention and in windows, is not seen here: each process draws that by
    itself.
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
        size, rows = (
            (share.words, share.word_rows) if x.ndim == 2 else (share.sentences, share.rows)
        )
        if len(x) != len(rows):  # the windows of a transformer
            return func(*args, **kwargs)
        of_words = (
            share.units and x.ndim == 3 and x.shape[1] < share.characters
        )  # a transformer has two more
        width = (share.units, x.shape[2]) if of_words else x.shape[1:]
        mask = func(x.new_ones(size, *width), kwargs["p"])
        return x * mask.index_select(0, rows)[:, : x.shape[1]]


@contextmanager
def join(device: str) -> Iterator[ProcessGroup]:
    """The team of this process, by the variables that torchrun sets; without them it is alone."""
    size, rank, local = (
        int(os.environ.get(name, 0)) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK")
    )
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
        if not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        raise HanlatticeError(
            "another process of this training has ended, and says why; the same command with --resume continues"
        ) from error
    finally:
        dist.destroy_process_group()


def _own_gpu(device: str, local: int) -> str:
    """Every process of a machine has a GPU of its own."""
    if device != "cuda":
        raise InputError(
            f"with several processes each has its own GPU: set train.device to cuda, not {device}"
        )
    here = int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    there = torch.cuda.device_count()
    if here > there:
        raise InputError(f"{here} processes on this machine need as many GPUs, and it has {there}")
    return f"cuda:{local}"
