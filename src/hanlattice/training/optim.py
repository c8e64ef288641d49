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

# Weight decay spares tables of vectors, wherever in a model they are, and transitions.
NOT_DECAYED = (CharEmbedding, WordEmbedding, nn.Embedding, CRF)


def make_optimizer(
    model: nn.Module,
    config: TrainConfig,
    transformer: TransformerConfig | None = None,
    rates: RatesConfig | None = None,
) -> torch.optim.Optimizer:
    """Make AdamW or SGD, with groups of weights that have rates of their own.

    Weight decay is for the matrices of the encoder and the output, not for vectors or the CRF.

    Args:
        model: the model. Weights whose rate is 0 are frozen.
        config: the settings of the training.
        transformer: the rates of a transformer, whose layers have groups of their own.
        rates: the factors of [rates], by which some parts learn faster or slower.
    """
    modules = [module for module in model.modules() if isinstance(module, NOT_DECAYED)]
    spared = {id(weight) for module in modules for weight in module.parameters()}
    depths = {
        id(weight): depth
        for module in model.modules()
        if isinstance(module, TransformerStates)
        for weight, depth in module.depths()
    }
    # A group for each depth in a transformer, factor, and whether weights decay. A resumed run
    # needs the same order, so the two groups of most weights come first.
    groups: dict[tuple[int, float, bool], dict[str, Any]] = {}
    for key in ((-1, 1.0, True), (-1, 1.0, False)):
        groups[key] = {"peak": config.lr, "warmup": config.warmup, "params": []}
    for name, parameter in model.named_parameters():
        factor: float = getattr(rates, group_of(name)) if rates else 1.0
        parameter.requires_grad_(parameter.requires_grad and factor > 0)
        if not parameter.requires_grad:
            continue
        depth = depths.get(id(parameter), -1)
        key = depth, factor, parameter.ndim == 2 and id(parameter) not in spared
        if key not in groups:
            peak = config.lr
            warmup = config.warmup
            if depth >= 0:
                assert transformer is not None
                peak = transformer.lr * transformer.layer_decay**depth
                warmup = transformer.warmup
            groups[key] = {"peak": factor * peak, "warmup": warmup, "params": []}
        groups[key]["params"].append(parameter)
    for (*_, decays), group in groups.items():
        group["weight_decay"] = config.weight_decay if decays else 0.0
    if config.optimizer == "sgd":
        return torch.optim.SGD([*groups.values()], lr=config.lr, momentum=config.momentum)
    return torch.optim.AdamW([*groups.values()], lr=config.lr, fused=True)


def group_of(name: str) -> str:
    """Return which setting of [rates] is for a tagger's weight of this name."""
    part = name.partition(".")[0]
    if part in ("chars", "extra_embeddings", "words"):
        return "embeddings"
    return "output" if part in ("output", "crf") else "encoder"


def learning_rates(
    config: TrainConfig, optimizer: torch.optim.Optimizer, step: int, steps_per_epoch: int
) -> list[float]:
    """Return the rate of each group in a step, which counts from 0."""
    return [
        learning_rate(config, step, steps_per_epoch, group["peak"], group["warmup"])
        for group in optimizer.param_groups
    ]


def learning_rate(
    config: TrainConfig, step: int, steps_per_epoch: int, lr: float, warmup: float
) -> float:
    """Return the rate of a step, from 0: first it rises to `lr`, then it follows the schedule."""
    total = steps_per_epoch * config.epochs
    if config.schedule == "linear" or step < int(warmup * total):
        return warmup_linear(lr, warmup, step, total)
    if config.schedule == "inverse":
        return lr / (1 + config.decay * (step // steps_per_epoch))
    return lr


def warmup_linear(lr: float, warmup: float, step: int, total: int) -> float:
    """Return the rate of a step, from 0: it rises to `lr` and then falls to 0, both linearly."""
    rising = int(warmup * total)
    if step < rising:
        return lr * (step + 1) / rising
    return lr * (total - step) / max(1, total - rising)


class Average:
    """An exponential moving average of the trained weights.

    Args:
        model: the model, with its frozen weights frozen already.
        memory: the share of the average that stays at each step; 0 keeps no average.
    """

    def __init__(self, model: nn.Module, memory: float) -> None:
        self.weights: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self.memory = memory
        self.mean: list[Tensor] = [w.detach().clone() for w in self.weights] if memory else []

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after a step, from 0, into the average."""
        if self.memory:
            # Early on the memory is as short as the run, so that the first weights are forgotten.
            memory = min(self.memory, (1 + step) / (10 + step))
            torch._foreach_lerp_(self.mean, self.weights, 1 - memory)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged weights inside the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        # Contents are swapped, not tensors: cuDNN wants an LSTM's weights to stay in one block.
        for weight, mean in zip(self.weights, self.mean, strict=False):
            before = weight.clone()
            weight.copy_(mean)
            mean.copy_(before)
