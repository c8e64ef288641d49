"""The parts of one step of training: the state that a chunk begins with, its gradients, the optimiser."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.pretrain.lm.recipe import Recipe
from hanlattice.pretrain.lm.score import SOFTMAX

# At tagging time a text is read from nothing; in training that happens once an epoch. So that it is nothing new, a
# stream forgets what it carries with this probability, at the beginning of a chunk.
FORGET = 0.02


def forgetful(carried: State) -> State:
    """The state that a chunk begins with: now and then a stream's is nothing."""
    h, c = carried
    kept = (torch.rand(1, h.shape[1], 1, device=h.device) >= FORGET).to(h.dtype)
    return h * kept, c * kept


def add_gradients(model: CharLanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Add the gradients of the mean loss to the weights', and give the sum of the losses, in nats.

    The softmax is wide, so it is done and undone for some rows at a time: memory does not grow with the batch. On a GPU
    its products are in bfloat16 and its losses in float32.
    """
    place, total = hidden.device.type, hidden.new_zeros((), dtype=torch.float64)
    rows = max(1, SOFTMAX // len(model.embedding))
    parts = [part.detach().requires_grad_() for part in torch.split(hidden.flatten(0, 1), rows)]  # [rows, H] each
    for part, wanted in zip(parts, torch.split(targets.flatten().long(), rows), strict=True):
        with torch.autocast(place, torch.bfloat16, enabled=place == "cuda"):
            logits = model.logits(part)  # [rows, V]
        loss = F.cross_entropy(logits.float(), wanted, reduction="sum")
        (loss / targets.numel()).backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    gradients = [part.grad for part in parts if part.grad is not None]
    hidden.backward(torch.cat(gradients).view_as(hidden))  # type: ignore[no-untyped-call]
    return total


def make_optimizer(model: CharLanguageModel, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW; weight decay is for the matrices."""
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.ndim == 2], "weight_decay": recipe.weight_decay},
        {"params": [weight for weight in weights if weight.ndim != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.lr, fused=True)
