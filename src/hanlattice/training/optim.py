"""The optimiser, the learning rate of each step, and the running average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hanlattice.config import TrainConfig
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding

NOT_DECAYED = (CharEmbedding, WordEmbedding, CRF)  # tables of vectors, wherever in a model they are, and transitions


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW or SGD. Weight decay is for the matrices of the encoder and the output, not for vectors or the CRF."""
    spared = {id(p) for module in model.modules() if isinstance(module, NOT_DECAYED) for p in module.parameters()}
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim == 2 and id(p) not in spared]
    chosen = {id(p) for p in matrices}
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": [p for p in trained if id(p) not in chosen], "weight_decay": 0.0},
    ]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum)
    return torch.optim.AdamW(groups, lr=config.lr, fused=True)


def learning_rate(config: TrainConfig, step: int, steps_per_epoch: int) -> float:
    """The rate of one step (from 0): warm-up first, then the schedule."""
    total = steps_per_epoch * config.epochs
    if config.schedule == "linear" or step < int(config.warmup * total):
        return warmup_linear(config.lr, config.warmup, step, total)
    if config.schedule == "inverse":
        return config.lr / (1 + config.decay * (step // steps_per_epoch))
    return config.lr


def warmup_linear(lr: float, warmup: float, step: int, total: int) -> float:
    """The rate of one step (from 0) of so many: up to `lr` and then down to 0, both linearly."""
    rising = int(warmup * total)
    if step < rising:
        return lr * (step + 1) / rising
    return lr * (total - step) / max(1, total - rising)


class Average:
    """An exponential average of the trained weights; early on its memory is as short as the run."""

    def __init__(self, model: nn.Module, memory: float) -> None:
        self.weights: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self.memory = memory
        self.mean: list[Tensor] = [w.detach().clone() for w in self.weights] if memory else []

    @torch.no_grad()
    def update(self, step: int) -> None:
        if self.memory:
            memory = min(self.memory, (1 + step) / (10 + step))
            torch._foreach_lerp_(self.mean, self.weights, 1 - memory)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        """Contents change places, and no tensor does: cuDNN wants the weights of an LSTM to stay in one piece."""
        for weight, mean in zip(self.weights, self.mean, strict=False):
            before = weight.clone()
            weight.copy_(mean)
            mean.copy_(before)
