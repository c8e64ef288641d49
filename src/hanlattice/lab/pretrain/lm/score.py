"""What a language model says of text: bits of each character or word and perplexity; and text that
it makes up itself.

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
    """Over `symbols` characters, or words, and line ends."""

    symbols: int
    bits: float  # of one of them, on average
    perplexity: float
    # Of a model of words: its characters and line ends, the figures of one of those, unknown words
    # spelt, and how many
    # words are unknown.
    characters: int | None = None
    bits_a_character: float | None = None
    perplexity_of_a_character: float | None = None
    unknown: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def score(model: CharLanguageModel, lines: Lines) -> TextScore:
    """The mean surprise of all lines, which are mirrored already if the model reads backwards."""
    total = sum(
        float(bits[real].sum(dtype=np.float64)) for _, bits, real in _batches_of(model, lines)
    )
    return mean_score(total, *figures(lines))


def figures(lines: Lines) -> tuple[Any, ...]:
    """What `mean_score` takes beside the bits; it can be added up."""
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
    """The score of lines that have so many bits in all; of words with characters, and bits that
    spell unknown ones.
    """
    if characters is None:
        return TextScore(symbols, *_mean(bits, symbols))
    return TextScore(
        symbols, *_mean(bits, symbols), characters, *_mean(bits + spelling, characters), unknown
    )


def _mean(bits: float, count: int) -> tuple[float, float]:
    mean = bits / max(1, count)
    return mean, 2.0**mean if mean < 1000 else math.inf


def surprise(model: CharLanguageModel, lines: Lines) -> list[Bits]:
    """[length + 1] for each line: the bits of each symbol and of the break at the end, in the order
    of reading.
    """
    found: list[Bits] = [np.zeros(0, dtype=np.float32)] * len(lines)
    for places, bits, real in _batches_of(model, lines):
        for at, row, inside in zip(places, bits, real, strict=True):
            found[at] = row[inside]
    return found


def text_cutter(
    model: LanguageModel, device: str = "cpu"
) -> Callable[[Sequence[str]], Sequence[Sequence[str]]]:
    """What gives the symbols of texts: the texts themselves, which are their characters, or lists
    of words.
    """
    if model.cutter is None:
        return lambda texts: texts
    units = word_units(model.cutter, device)
    return lambda texts: list(units(texts))


def text_surprise(
    model: LanguageModel, direction: str, texts: Sequence[Sequence[str]]
) -> list[Bits]:
    """`surprise` of texts as `text_cutter` gives them, the bits of each in the order of the text;
    the break is last.
    """
    return line_surprise(model, direction, text_lines(model, texts))


def line_surprise(model: LanguageModel, direction: str, lines: Lines) -> list[Bits]:
    if direction == "forward":
        return surprise(model.directions[direction], lines)
    found = surprise(model.directions[direction], lines.mirrored())
    return [np.append(bits[:-1][::-1], bits[-1:]) for bits in found]


@torch.no_grad()
def _batches_of(
    model: CharLanguageModel, lines: Lines
) -> Iterator[tuple[Sequence[int], Bits, npt.NDArray[np.bool_]]]:
    """The places of some lines, their bits [B, T], and which of them are no padding."""
    most, bound = BOUNDS[model.embedding.device.type]
    for places in decoding_batches((lines.lengths + 1).tolist(), most, bound):
        yield (
            places,
            *_batch_bits(model, lines.take(np.array(places)), max(1, bound // len(places))),
        )


def _batch_bits(
    model: CharLanguageModel, lines: Lines, piece: int
) -> tuple[Bits, npt.NDArray[np.bool_]]:
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
    """`temperature` 0 always takes the likeliest symbol; `top` keeps so many of the likeliest, 0
    all of them.
    """

    length: int = 100  # characters or words that are made at most
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
            raise InputError(
                f"--seed must be 0 or more, and at most {(1 << 63) - 1}, not {self.seed}"
            )


@torch.no_grad()
def sample(
    model: LanguageModel,
    prompt: str,
    sampling: Sampling,
    count: int = 1,
    direction: str = "forward",
) -> list[str]:
    """`count` texts that begin with the prompt or, if the direction is backward, end with it."""
    if count < 1:
        raise InputError(f"-n must be 1 or more, not {count}")
    module = model.directions[direction]
    forward = direction == "forward"
    symbols = fold_digits(prompt) if model.cutter is None else text_cutter(model)([prompt])[0]
    given = model.vocab.ids(symbols if forward else symbols[::-1])
    ids = torch.tensor([BREAK_ID, *given], device=module.embedding.device).expand(
        count, -1
    )  # [count, 1 + prompt]
    generator = torch.Generator().manual_seed(sampling.seed)
    state = None
    made = list[Tensor]()
    ended = torch.zeros(count, dtype=torch.bool)
    while len(made) < sampling.length and not ended.all():
        hidden, state = module(ids, state)
        chosen = choose(module.logits(hidden[:, -1]).cpu(), sampling, generator)  # [count]
        ended |= chosen == BREAK_ID
        made.append(torch.where(ended, BREAK_ID, chosen))
        ids = made[-1][:, None].to(ids)
    rows = torch.stack(made, dim=1).tolist()  # [count, length]
    texts = [[model.vocab.symbols[at] for at in row if at != BREAK_ID] for row in rows]
    join = "".join if model.cutter is None else spaced
    return [join([prompt, *text] if forward else [*text[::-1], prompt]) for text in texts]


def spaced(words: Iterable[str]) -> str:
    """A text of words, with a blank between two that are Western: a model of words reads no white
    space.
    """
    text = ""
    for word in words:
        western = all(
            character.isascii() and character.isalnum() for character in (text[-1:], word[:1])
        )
        text += f" {word}" if western else word
    return text


def choose(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """[B, V] → [B]: a symbol for each row. The one that stands for unknown ones is never taken."""
    logits = logits.to(
        torch.float64, copy=True
    )  # whose numbers any temperature leaves finite, or -inf
    logits[:, 0] = -math.inf
    if sampling.temperature == 0:
        return logits.argmax(dim=1)
    if 0 < sampling.top < logits.shape[1]:
        least = logits.topk(sampling.top, dim=1).values[:, -1:]
        logits[logits < least] = -math.inf
    likeliest = logits.max(dim=1, keepdim=True).values
    weights = ((logits - likeliest) / sampling.temperature).exp()  # 0 to 1
    return torch.multinomial(weights.float(), 1, generator=generator)[:, 0]
