"""What a backend found beside what is right, and how far the two are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCES = {"float64": 1e-9, "fp32": 1e-5, "tf32": 5e-3, "bf16": 2e-2}


class Compared(NamedTuple):
    """Values by name, from the same inputs."""

    case: str
    backend: str
    precision: str  # one of TOLERANCES
    found: Mapping[str, Tensor]
    right: Mapping[str, Tensor]

    def worst(self) -> tuple[str, float]:
        """The name with the largest difference, and that difference; NaN counts as ∞."""
        differences = {name: relative_difference(self.found[name], value) for name, value in self.right.items()}
        name = max(differences, key=differences.__getitem__)
        return name, differences[name]


def relative_difference(found: Tensor, right: Tensor) -> float:
    """The norm of the difference over the norm of what is right."""
    found, right = (tensor.detach().to(right.device, torch.float64) for tensor in (found, right))
    difference = float((found - right).norm() / right.norm().clamp(min=torch.finfo(torch.float64).tiny))
    return math.inf if math.isnan(difference) else difference
