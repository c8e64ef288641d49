"""A character language model in one direction: embeddings → LSTM → softmax over the embeddings."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hanlattice.nn.dropout import drop

State = tuple[Tensor, Tensor]  # (h, c), each [layers, B, H]


class CharLanguageModel(nn.Module):
    """ids [B, T] → hidden states [B, T, H] of the top layer, after each character.

    The softmax is tied: its weights are the embeddings, so a hidden state wider than they are is
    projected first.
    """

    def __init__(
        self, symbols: int, embedding: int, hidden: int, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.layers = layers
        self.embedding = nn.Parameter(torch.empty(symbols, embedding).normal_(std=embedding**-0.5))
        between = dropout if layers > 1 else 0.0  # nn.LSTM warns of dropout that has no place
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True, dropout=between)
        self.project = nn.Linear(hidden, embedding)
        self.bias = nn.Parameter(torch.zeros(symbols))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, ids: Tensor, state: State | None = None, factors: torch.dtype | None = None
    ) -> tuple[Tensor, State]:
        """Return hidden states, and the state from which the next characters go on.

        Without `state` the text begins here. With `factors`, the LSTM works in that precision;
        weights, hidden states and state keep their own.
        """
        x = self.dropout(F.embedding(ids, self.embedding))
        if factors is None:
            hidden, after = self.lstm(x, state)
            return hidden, after
        return self._rounded(x, state, factors)

    def _rounded(
        self, x: Tensor, state: State | None, factors: torch.dtype
    ) -> tuple[Tensor, State]:
        """Run the LSTM with rounded weights."""
        # Autocast would do it, but on a GPU only in float16, where gradients vanish.
        lstm = self.lstm
        dtype = x.dtype
        if state is None:
            zeros = x.new_zeros(self.layers, len(x), self.hidden)
            state = (zeros, zeros)
        weights = [weight.to(factors) for weight in lstm.parameters()]  # in the order of torch.lstm
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="RNN module weights are not part of single contiguous chunk"
            )
            hidden, h, c = torch._VF.lstm(
                x.to(factors), [part.to(factors) for part in state], weights,
                True, self.layers, lstm.dropout, self.training, False, True,
            )  # fmt: skip
        return hidden.to(dtype), (h.to(dtype), c.to(dtype))

    def logits(self, hidden: Tensor) -> Tensor:
        """[…, H] → […, V]: how probable each symbol is next, before the softmax."""
        return F.linear(self.project(self.dropout(hidden)), self.embedding, self.bias)


class LanguageModelStates(nn.Module):
    """The states of a frozen language model at each character, both directions, projected to `dim`.

    Each state is brought to mean 0 and variance 1, and the projection begins orthogonal and so long
    that what comes out has the length `norm`: beside vectors of characters, scale decides how much
    is heard.

    The language model is no part of this module's weights: it is not trained and not saved with
    them, but it moves with them to a device. The states are rounded to half precision, as they are
    when they were kept on disk.
    """

    def __init__(
        self,
        ahead: CharLanguageModel,
        back: CharLanguageModel,
        dim: int,
        norm: float = 1.0,
        dropout: float = 0.0,
        start: int = 1,
    ) -> None:
        super().__init__()
        self._frozen = (ahead, back)  # a tuple hides them from nn.Module
        self.start = start  # the symbol before a text's first character
        self.project = nn.Linear(ahead.hidden + back.hidden, dim)
        nn.init.orthogonal_(self.project.weight, gain=norm / min(dim, self.width) ** 0.5)
        nn.init.zeros_(self.project.bias)
        self.dropout = dropout

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LanguageModelStates:
        for model in self._frozen:
            model._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    @property
    def width(self) -> int:
        """Numbers in a state."""
        return self.project.in_features

    def forward(self, states: Tensor) -> Tensor:
        """[B, T, width], in half precision → [B, T, dim]."""
        even = F.layer_norm(states.to(self.project.weight.dtype), (self.width,))
        projected: Tensor = self.project(drop(even, self.dropout) if self.training else even)
        return projected

    @torch.no_grad()
    def states(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return [B, T, width], half precision: the states at these symbols, anything beyond."""
        ahead, back = self._frozen
        mirror = _mirror(lengths, ids.shape[1])
        forward = _after_start(ahead, ids, self.start)
        backward = _after_start(back, ids.gather(1, mirror), self.start)
        places = mirror[..., None].expand(-1, -1, backward.shape[2])
        return torch.cat([forward, backward.gather(1, places)], dim=2)


def _after_start(model: CharLanguageModel, ids: Tensor, start: int) -> Tensor:
    """The states at the symbols of a text that begins with `start`, in half precision."""
    first = ids.new_full((len(ids), 1), start)
    with torch.autocast(ids.device.type, torch.float16, enabled=ids.is_cuda):
        hidden: Tensor = model(torch.cat([first, ids], dim=1))[0]
    return hidden[:, 1:].half()


def _mirror(lengths: Tensor, T: int) -> Tensor:
    """Return [B, T]: the mirrored place of each character; beyond a length, its own place."""
    at = torch.arange(T, device=lengths.device)
    back = lengths[:, None] - 1 - at
    return torch.where(back >= 0, back, at)
