"""What both CRF siblings are given: the scores of a chain, what is forbidden in it, and spans to ask about."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

# The score of a forbidden step. Finite, so that no gradient is ever ∞ − ∞; so low that exp() of it is an exact 0 in
# float32 and float64 beside anything legal; and so far from the largest float32 that the worst path of a sentence of a
# hundred thousand characters stays finite.
FORBIDDEN = -1e6


class CRFScores(NamedTuple):
    """What a tagging earns besides its emissions."""

    start: Tensor  # [K]: the first tag
    transitions: Tensor  # [K, K]: from, to
    end: Tensor  # [K]: the last tag


class CRFInputs(NamedTuple):
    """What compiled code reads: dense, of one dtype, the lengths checked or safe."""

    emissions: Tensor  # [B, T, K]
    lengths: Tensor  # [B]
    scores: CRFScores


class TaggedSpans(NamedTuple):
    """S spans of a batch: `[start, end)` of a sentence carries `tags`, and no `blocked_next` tag comes straight after.

    BIO needs the block: `B-X I-X` is only a whole span when `I-X` does not follow. At the end of a sentence no tag
    follows, so nothing is blocked.
    """

    sentence: Tensor  # [S]
    start: Tensor  # [S]
    end: Tensor  # [S]
    tags: Tensor  # [S, L]: what stands beyond end − start does not matter
    blocked_next: Tensor  # [S, K], bool


def forbid(scores: CRFScores, allowed_start: Tensor, allowed_between: Tensor, allowed_end: Tensor) -> CRFScores:
    """The scores with every step that is not allowed set to FORBIDDEN; what is forbidden gets no gradient."""
    return CRFScores(
        scores.start.masked_fill(~allowed_start, FORBIDDEN),
        scores.transitions.masked_fill(~allowed_between, FORBIDDEN),
        scores.end.masked_fill(~allowed_end, FORBIDDEN),
    )


def differentiable(function: type[Function], given: CRFInputs, tags: Tensor | None) -> Tensor:
    """The [B] values of a function of (whether a gradient is wanted, tags, lengths, emissions, *scores)."""
    inputs = (given.emissions, *given.scores)
    gradient = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    values: Tensor = function.apply(gradient, tags, given.lengths, *inputs)  # type: ignore[no-untyped-call]
    return values


def check(emissions: Tensor, lengths: Tensor, scores: CRFScores) -> None:
    """Shapes that do not fit are a ValueError: compiled code would read past the end of them."""
    if emissions.ndim != 3 or tuple(lengths.shape) != (emissions.shape[0],):
        raise ValueError(
            f"emissions must be [B, T, K] and lengths [B], not {tuple(emissions.shape)} and {tuple(lengths.shape)}"
        )
    if len(lengths) and not emissions.shape[1]:
        raise ValueError(f"a sentence has one character or more, and emissions are {tuple(emissions.shape)}")
    K = emissions.shape[2]
    for name, part, shape in zip(scores._fields, scores, ((K,), (K, K), (K,)), strict=True):
        if tuple(part.shape) != shape:
            raise ValueError(f"{name} must be {shape} for {K} tags, not {tuple(part.shape)}")


def check_tags(emissions: Tensor, tags: Tensor) -> None:
    if tags.shape != emissions.shape[:2]:
        raise ValueError(f"tags must be {tuple(emissions.shape[:2])} as the emissions are, not {tuple(tags.shape)}")
