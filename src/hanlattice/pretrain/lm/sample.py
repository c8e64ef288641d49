"""Text that a language model makes up, character by character, until a paragraph ends."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hanlattice.errors import InputError
from hanlattice.models.language_model import LanguageModel
from hanlattice.pretrain.lm.text import BREAK_ID
from hanlattice.text.normal import code_points
from hanlattice.text.vocab import seen_as


@dataclass(frozen=True)
class Sampling:
    """`temperature` 0 always takes the likeliest symbol; `top` keeps so many of the likeliest, 0 all of them."""

    length: int = 100  # characters that are made at most
    temperature: float = 0.8
    top: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InputError(f"--length must be 1 or more, not {self.length}")
        if not 0 <= self.temperature < math.inf:
            raise InputError(f"--temperature must be 0 or more, not {self.temperature}")
        if self.top < 0:
            raise InputError(f"--top must be 0 or more, not {self.top}")
        if not 0 <= self.seed < 1 << 63:
            raise InputError(f"--seed must be 0 or more, and at most {(1 << 63) - 1}, not {self.seed}")


@torch.no_grad()
def sample(
    model: LanguageModel, prompt: str, sampling: Sampling, count: int = 1, direction: str = "forward"
) -> list[str]:
    """`count` texts that begin with the prompt or, if the direction is backward, end with it."""
    if count < 1:
        raise InputError(f"-n must be 1 or more, not {count}")
    module, forward = model.directions[direction], direction == "forward"
    codes = code_points(prompt if forward else prompt[::-1])
    given = torch.from_numpy(seen_as(model.vocab)(codes)).to(module.embedding.device)
    ids = torch.cat([given.new_full((1,), BREAK_ID), given]).expand(count, -1)  # [count, 1 + prompt]
    generator = torch.Generator().manual_seed(sampling.seed)
    state, made = None, list[Tensor]()
    ended = torch.zeros(count, dtype=torch.bool)
    while len(made) < sampling.length and not ended.all():
        hidden, state = module(ids, state)
        chosen = choose(module.logits(hidden[:, -1]).cpu(), sampling, generator)  # [count]
        ended |= chosen == BREAK_ID
        made.append(torch.where(ended, BREAK_ID, chosen))
        ids = made[-1][:, None].to(ids)
    rows = torch.stack(made, dim=1).tolist()  # [count, length]
    texts = ["".join(model.vocab.symbols[at] for at in row if at != BREAK_ID) for row in rows]
    return [prompt + text if forward else text[::-1] + prompt for text in texts]


def choose(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """[B, V] → [B]: a symbol for each row. The one that stands for unknown characters is never taken."""
    logits = logits.to(torch.float64, copy=True)  # whose numbers any temperature leaves finite, or -inf
    logits[:, 0] = -math.inf
    if sampling.temperature == 0:
        return logits.argmax(dim=1)
    if 0 < sampling.top < logits.shape[1]:
        least = logits.topk(sampling.top, dim=1).values[:, -1:]
        logits[logits < least] = -math.inf
    likeliest = logits.max(dim=1, keepdim=True).values
    weights = ((logits - likeliest) / sampling.temperature).exp()  # 0 to 1
    return torch.multinomial(weights.float(), 1, generator=generator)[:, 0]
