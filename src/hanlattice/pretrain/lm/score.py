"""What a language model thinks of text: the surprise of each character, in bits, and the perplexity of all of them.

Every line is read from nothing, beginning with a break; each of its characters is predicted, and the break after it.
So a line of n characters counts n + 1 times, as in an n-gram model that predicts the end of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.batch.buckets import decoding_batches
from hanlattice.models.language_model import LanguageModel
from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.pretrain.lm.text import BREAK_ID, Lines, make_lines
from hanlattice.text.normal import code_points
from hanlattice.text.vocab import seen_as

Bits = npt.NDArray[np.float32]
# Lines, and symbols with padding, that are read at a time; and numbers in a softmax, 64 Mi: a quarter of a GiB.
BOUNDS = {"cpu": (64, 4096), "cuda": (1024, 65536)}
SOFTMAX = 1 << 26


@dataclass(frozen=True)
class Score:
    """Over `symbols` characters and line ends."""

    symbols: int
    bits: float  # of one of them, on average
    perplexity: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def score(model: CharLanguageModel, lines: Lines) -> Score:
    """The mean surprise of all lines, which are mirrored already if the model reads backwards."""
    total = sum(float(bits.sum(dtype=np.float64)) for bits in _batches_of(model, lines, None))
    return mean_score(total, lines.symbols)


def mean_score(bits: float, symbols: int) -> Score:
    mean = bits / max(1, symbols)
    return Score(symbols, mean, 2.0**mean if mean < 1000 else math.inf)


def surprise(model: CharLanguageModel, lines: Lines) -> list[Bits]:
    """[length + 1] for each line: the bits of each character and of the break at the end, in the order of reading."""
    found: list[Bits] = [np.zeros(0, dtype=np.float32)] * len(lines)
    for _ in _batches_of(model, lines, found):
        pass
    return found


def text_surprise(model: LanguageModel, direction: str, texts: Sequence[str]) -> list[Bits]:
    """`surprise` of texts as given, the bits of each in the order of the text; the break comes last."""
    lines = text_lines(model, texts)
    if direction == "forward":
        return surprise(model.directions[direction], lines)
    found = surprise(model.directions[direction], lines.mirrored())
    return [np.append(bits[:-1][::-1], bits[-1:]) for bits in found]


def text_lines(model: LanguageModel, texts: Sequence[str]) -> Lines:
    """Texts of one line each, as the model's ids."""
    codes = make_lines(code_points("".join(f"{text}\n" for text in texts)))
    return Lines(seen_as(model.vocab)(codes.ids), codes.starts, codes.lengths)


@torch.no_grad()
def _batches_of(model: CharLanguageModel, lines: Lines, keep: list[Bits] | None) -> Iterator[Bits]:
    """The bits of one batch after another; if `keep` is given, those of line i are put there at i."""
    most, bound = BOUNDS[model.embedding.device.type]
    for batch in decoding_batches((lines.lengths + 1).tolist(), most, bound):
        some = lines.take(np.array(batch))
        bits, real = _batch_bits(model, some, max(1, bound // len(batch)))
        if keep is not None:
            for at, row, length in zip(batch, bits, some.lengths.tolist(), strict=True):
                keep[at] = row[: length + 1].copy()
        yield bits[real]


def _batch_bits(model: CharLanguageModel, lines: Lines, piece: int) -> tuple[Bits, npt.NDArray[np.bool_]]:
    """([B, T] bits, which of them are no padding). The lines are read `piece` symbols at a time."""
    sizes = lines.lengths + 1
    T = int(sizes.max())
    real = np.arange(T) < sizes[:, None]  # [B, T]
    places = np.where(real, lines.starts[:, None] + np.arange(T), 0)
    targets = torch.from_numpy(np.where(real, lines.ids[places], 0)).to(model.embedding.device)
    inputs = F.pad(targets[:, :-1], (1, 0), value=BREAK_ID)
    state: State | None = None
    pieces = []
    for low in range(0, T, piece):
        hidden, state = model(inputs[:, low : low + piece], state)
        pieces.append(_bits(model, hidden, targets[:, low : low + piece]))
    return torch.cat(pieces, dim=1).cpu().numpy(), real


def _bits(model: CharLanguageModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """[B, T]: −log₂ of the probability of each target."""
    rows = max(1, SOFTMAX // len(model.embedding))
    parts = zip(torch.split(hidden.flatten(0, 1), rows), torch.split(targets.flatten().long(), rows), strict=True)
    losses = [F.cross_entropy(model.logits(some), wanted, reduction="none") for some, wanted in parts]
    return torch.cat(losses).view(targets.shape) / math.log(2)
