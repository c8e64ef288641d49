"""What a language model says of text: bits of each symbol, perplexity, and samples.

Every line is read from nothing, beginning with a break; each of its symbols is predicted, and the
break after it. So a line of n symbols counts n + 1 times, as in an n-gram model that predicts the
end of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from hanlattice.checkpoint.language_model import LanguageModel
from hanlattice.errors import InputError
from hanlattice.features.buckets import decoding_batches
from hanlattice.lab.pretrain.lm.text import BREAK_ID, Lines, text_lines, word_units
from hanlattice.nn.language_model import CharLanguageModel, State
from hanlattice.text.normalize import fold_digits

Bits = npt.NDArray[np.float32]
# Lines, and symbols with padding, that are read at a time; and numbers in a softmax, 64 Mi: a
# quarter of a GiB.
BOUNDS = {"cpu": (64, 4096), "cuda": (1024, 65536)}
SOFTMAX = 1 << 26


@dataclass(frozen=True)
class TextScore:
    """Mean bits and perplexity over `symbols` characters, or words, and line ends.

    The other fields belong to a model of words: its characters and line ends, the figures of one of
    them, where unknown words are spelt, and the number of unknown words.
    """

    symbols: int
    bits: float
    perplexity: float
    characters: int | None = None
    bits_a_character: float | None = None
    perplexity_of_a_character: float | None = None
    unknown: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def score(model: CharLanguageModel, lines: Lines) -> TextScore:
    """Score all lines, which are mirrored already if the model reads backwards."""
    batches = _batches_of(model, lines)
    total = sum(float(bits[real].sum(dtype=np.float64)) for _, bits, real in batches)
    return mean_score(total, *figures(lines))


def figures(lines: Lines) -> tuple[Any, ...]:
    """Return the arguments of `mean_score` beside the bits; they can be added up."""
    if lines.spelling is None:
        return (lines.symbols,)
    return lines.symbols, lines.characters + len(lines), lines.unknown, float(lines.spelling.sum())


def mean_score(
    bits: float,
    symbols: int,
    characters: int | None = None,
    unknown: int = 0,
    spelling: float = 0.0,
) -> TextScore:
    """Return the score of lines with `bits` in all; `spelling` bits spell unknown words."""

    def mean(total: float, count: int) -> tuple[float, float]:
        average = total / max(1, count)
        return average, 2.0**average if average < 1000 else math.inf

    if characters is None:
        return TextScore(symbols, *mean(bits, symbols))
    of_characters = mean(bits + spelling, characters)
    return TextScore(symbols, *mean(bits, symbols), characters, *of_characters, unknown)


def surprise(model: CharLanguageModel, lines: Lines) -> list[Bits]:
    """Return [length + 1] for each line: the bits of its symbols, as read, and of its break."""
    rows: list[Bits] = [np.zeros(0, dtype=np.float32)] * len(lines)
    for places, bits, real in _batches_of(model, lines):
        for place, row, inside in zip(places, bits, real, strict=True):
            rows[place] = row[inside]
    return rows


def text_cutter(
    model: LanguageModel, device: str = "cpu"
) -> Callable[[Sequence[str]], Sequence[Sequence[str]]]:
    """Return the function from texts to their symbols: the texts themselves, or lists of words."""
    if model.cutter is None:
        return lambda texts: texts
    units = word_units(model.cutter, device)
    return lambda texts: list(units(texts))


def text_surprise(
    model: LanguageModel, direction: str, texts: Sequence[Sequence[str]]
) -> list[Bits]:
    """Return `surprise` of texts from `text_cutter`, in text order; the break is last."""
    return line_surprise(model, direction, text_lines(model, texts))


def line_surprise(model: LanguageModel, direction: str, lines: Lines) -> list[Bits]:
    if direction == "forward":
        return surprise(model.directions[direction], lines)
    rows = surprise(model.directions[direction], lines.mirrored())
    return [np.append(bits[:-1][::-1], bits[-1:]) for bits in rows]


@torch.no_grad()
def _batches_of(
    model: CharLanguageModel, lines: Lines
) -> Iterator[tuple[Sequence[int], Bits, npt.NDArray[np.bool_]]]:
    """Yield the places of some lines, their bits [B, T], and which of them are no padding."""
    most, bound = BOUNDS[model.embedding.device.type]
    for places in decoding_batches((lines.lengths + 1).tolist(), most, bound):
        piece = max(1, bound // len(places))
        yield places, *_batch_bits(model, lines.take(np.array(places)), piece)


def _batch_bits(
    model: CharLanguageModel, lines: Lines, piece: int
) -> tuple[Bits, npt.NDArray[np.bool_]]:
    """Return [B, T] bits, and which are no padding; read `piece` symbols at a time."""
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
    """Return −log₂ of the probability of each target, [B, T]."""
    rows = max(1, SOFTMAX // len(model.embedding))
    parts = zip(
        torch.split(hidden.flatten(0, 1), rows),
        torch.split(targets.flatten().long(), rows),
        strict=True,
    )
    losses = [
        F.cross_entropy(model.logits(some), wanted, reduction="none") for some, wanted in parts
    ]
    return torch.cat(losses).view(targets.shape) / math.log(2)


@dataclass(frozen=True)
class Sampling:
    """How symbols are drawn, at most `length` of them.

    `temperature` 0 takes the likeliest symbol; `top` keeps so many of the likeliest (0: all).
    """

    length: int = 100
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
            most = (1 << 63) - 1
            raise InputError(f"--seed must be 0 or more, and at most {most}, not {self.seed}")


@torch.no_grad()
def sample(
    model: LanguageModel,
    prompt: str,
    sampling: Sampling,
    count: int = 1,
    direction: str = "forward",
) -> list[str]:
    """Return `count` texts that begin with the prompt or, if backward, end with it."""
    if count < 1:
        raise InputError(f"-n must be 1 or more, not {count}")
    module = model.directions[direction]
    forward = direction == "forward"
    symbols = fold_digits(prompt) if model.cutter is None else text_cutter(model)([prompt])[0]
    given = model.vocab.ids(symbols if forward else symbols[::-1])
    # [count, 1 + prompt]
    ids = torch.tensor([BREAK_ID, *given], device=module.embedding.device).expand(count, -1)
    generator = torch.Generator().manual_seed(sampling.seed)
    state = None
    drawn = list[Tensor]()
    ended = torch.zeros(count, dtype=torch.bool)
    while len(drawn) < sampling.length and not ended.all():
        hidden, state = module(ids, state)
        chosen = choose(module.logits(hidden[:, -1]).cpu(), sampling, generator)  # [count]
        ended |= chosen == BREAK_ID
        drawn.append(torch.where(ended, BREAK_ID, chosen))
        ids = drawn[-1][:, None].to(ids)
    rows = torch.stack(drawn, dim=1).tolist()  # [count, length]
    texts = [[model.vocab.symbols[at] for at in row if at != BREAK_ID] for row in rows]
    join = "".join if model.cutter is None else spaced
    return [join([prompt, *text] if forward else [*text[::-1], prompt]) for text in texts]


def spaced(words: Iterable[str]) -> str:
    """Join words, with a blank between two Western ones: a model of words reads no white space."""
    text = ""
    for word in words:
        western = all(end.isascii() and end.isalnum() for end in (text[-1:], word[:1]))
        text += f" {word}" if western else word
    return text


def choose(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """Draw a symbol for each row, [B, V] → [B]; never the symbol for unknown ones."""
    # Any temperature leaves numbers in float64 finite, or -inf.
    logits = logits.to(torch.float64, copy=True)
    logits[:, 0] = -math.inf
    if sampling.temperature == 0:
        return logits.argmax(dim=1)
    if 0 < sampling.top < logits.shape[1]:
        least = logits.topk(sampling.top, dim=1).values[:, -1:]
        logits[logits < least] = -math.inf
    likeliest = logits.max(dim=1, keepdim=True).values
    weights = ((logits - likeliest) / sampling.temperature).exp()  # 0 to 1
    return torch.multinomial(weights.float(), 1, generator=generator)[:, 0]
