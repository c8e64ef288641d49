"""The optimiser, the learning rate of each step, and the running average of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hanlattice.config import RatesConfig, TrainConfig, TransformerConfig
from hanlattice.nn.crf import CRF
from hanlattice.nn.embeddings import CharEmbedding, WordEmbedding
from hanlattice.nn.transformer import TransformerStates

# Tables of vectors, wherever in a model they are, and transitions.
NOT_DECAYED = (CharEmbedding, WordEmbedding, nn.Embedding, CRF)


def make_optimizer(
    model: nn.Module,
    config: TrainConfig,
    transformer: TransformerConfig | None = None,
    rates: RatesConfig | None = None,
) -> torch.optim.Optimizer:
    """AdamW or SGD. Weight decay is for the matrices of the encoder and the output, not for vectors
    or the CRF.

    Each layer of a transformer has groups of its own, with rates by the configuration. `rates` are
    multiples for the groups of [rates]; weights whose rate is 0 are frozen here.
    """
    spared = {
        id(p)
        for module in model.modules()
        if isinstance(module, NOT_DECAYED)
        for p in module.parameters()
    }
    inside = {
        id(p): depth
        for m in model.modules()
        if isinstance(m, TransformerStates)
        for p, depth in m.depths()
    }
    groups: dict[tuple[int, float, bool], dict[str, Any]] = {}
    for key in ((-1, 1.0, True), (-1, 1.0, False)):  # first the two of most weights
        groups[key] = {"peak": config.lr, "warmup": config.warmup, "params": []}
    for name, parameter in model.named_parameters():
        rate: float = getattr(rates, group_of(name)) if rates else 1.0
        parameter.requires_grad_(parameter.requires_grad and rate > 0)
        if not parameter.requires_grad:
            continue
        depth = inside.get(id(parameter), -1)
        key = depth, rate, parameter.ndim == 2 and id(parameter) not in spared
        if key not in groups:
            peak = config.lr
            warmup = config.warmup
            if depth >= 0:
                assert transformer is not None
                peak = transformer.lr * transformer.layer_decay**depth
                warmup = transformer.warmup
            groups[key] = {"peak": rate * peak, "warmup": warmup, "params": []}
        groups[key]["params"].append(parameter)
    for (*_, decays), group in groups.items():
        group["weight_decay"] = config.weight_decay if decays else 0.0
    return _optimizer([*groups.values()], config)


def group_of(name: str) -> str:
    """The group of a tagger's weight, by its name: the settings of [rates] are these."""
    parts = {
        "chars": "embeddings",
        "extra_embeddings": "embeddings",
        "words": "embeddings",
        "output": "output",
        "crf": "output",
    }
    return parts.get(name.partition(".")[0], "encoder")


def _optimizer(groups: list[dict[str, Any]], config: TrainConfig) -> torch.optim.Optimizer:
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum)
    return torch.optim.AdamW(groups, lr=config.lr, fused=True)


def learning_rates(
    config: TrainConfig, optimizer: torch.optim.Optimizer, step: int, steps_per_epoch: int
) -> list[float]:
    """The rate of each group in one step (from 0)."""
    groups = optimizer.param_groups
    return [
        learning_rate(config, step, steps_per_epoch, group["peak"], group["warmup"])
        for group in groups
    ]


def learning_rate(
    config: TrainConfig, step: int, steps_per_epoch: int, lr: float, warmup: float
) -> float:
    """The rate of one step (from 0): warm-up first, up to `lr`, then the schedule."""
    total = steps_per_epoch * config.epochs
    if config.schedule == "linear" or step < int(warmup * total):
        return warmup_linear(lr, warmup, step, total)
    if config.schedule == "inverse":
        return lr / (1 + config.decay * (step // steps_per_epoch))
    return lr


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
        """Contents change places, and no tensor does: cuDNN wants the weights of an LSTM to stay in
        one piece.
        """
        for weight, mean in zip(self.weights, self.mean, strict=False):
            before = weight.clone()
            weight.copy_(mean)
            mean.copy_(before)
