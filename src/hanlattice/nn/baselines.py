"""The encoders beside the lattice: character LSTM and RNN, word LSTM, character features, none."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from hanlattice.nn.dropout import Dropout
from hanlattice.ops.packing import Packed, bounded, characters, joined, spelled, words
from hanlattice.text.lattice import Lattice, Segments


def run_lstm(lstm: nn.LSTM | nn.RNN, rows: Tensor, packed: Packed) -> Tensor:
    """Return [B, T, 2H] (H in one direction) from rows [N, D]; sequences may be empty."""
    width = lstm.hidden_size * (2 if lstm.bidirectional else 1)
    # nn.LSTM takes no empty batch.
    if not len(packed.sizes):
        return rows.new_zeros(*packed.shape, width)
    out, _ = run_packed(lstm, rows.index_select(0, packed.source), packed.sizes)
    padded = out.new_zeros(packed.shape[0] * packed.shape[1], width)
    padded = padded.index_copy(0, packed.target, out)
    return padded.view(*packed.shape, width)


def run_packed(lstm: nn.LSTM | nn.RNN, data: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return packed states [N, 2H] and last states [directions, S, H], longest sequence first."""
    out, last = lstm(PackedSequence(data, sizes))
    # An LSTM has cells as well.
    return out.data, last[0] if isinstance(last, tuple) else last


class CharLSTM(nn.Module):
    """x [B, T, D] → [B, T, 2H]. Takes words and lattice like its sibling, and uses only the
    lattice's lengths.
    """

    kind: type[nn.LSTM | nn.RNN] = nn.LSTM

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.lstm = self.kind(dim, hidden, batch_first=True, bidirectional=True)

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def forward(self, x: Tensor, word_x: Tensor | None, lattice: Lattice) -> Tensor:
        longest = int(lattice.lengths.max(initial=0))
        if len(lattice.lengths) != x.shape[0] or longest > x.shape[1]:
            sentences = f"{len(lattice.lengths)} sentences, the longest of {longest}"
            raise ValueError(f"x is {tuple(x.shape)}, but the lattice has {sentences}")
        return run_lstm(self.lstm, x.flatten(0, 1), characters(lattice, x.shape[1], x.device))


class CharRNN(CharLSTM):
    """The same as a plain RNN, h_j = tanh(W x_j + U h_{j−1} + b): what the LSTM set out from."""

    kind = nn.RNN


class NoEncoder(nn.Module):
    """x [B, T, D] as it is: what a transformer says needs no encoder."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.width = dim

    def forward(self, x: Tensor, word_x: Tensor | None, lattice: Lattice) -> Tensor:
        return x


class Features(nn.Module):
    """x [B, T, D], segments → [W, width]: what the characters of each word say."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.dim = dim
        self.width = width


class WordCharLSTM(Features):
    """One bidirectional LSTM inside each word: the last states of both directions."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__(dim, width)
        self.lstm = nn.LSTM(dim, half(width), bidirectional=True)

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        rows = character_rows(x, segments, self.dim)
        if not len(segments):
            return rows.new_zeros(0, self.width)
        plan = spelled(segments, x.device)
        # [2, W, width / 2]
        _, last = run_packed(self.lstm, rows.index_select(0, plan.source), plan.sizes)
        return torch.cat(last.index_select(1, plan.rank).unbind(), dim=1)


class SentenceCharLSTM(Features):
    """One bidirectional LSTM over a sentence's characters, with a learned boundary before, between
    and after its words.

    A word's forward state is read at the boundary after it, its backward state at the boundary
    before it: there each direction has just read the word, and knows what came earlier.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__(dim, width)
        self.boundary = nn.Parameter(torch.empty(dim).normal_(std=dim**-0.5))
        self.lstm = nn.LSTM(dim, half(width), bidirectional=True)

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        rows = character_rows(x, segments, self.dim)
        if not len(segments):
            return rows.new_zeros(0, self.width)
        plan = bounded(segments, x.device)
        chars = rows.index_select(0, plan.source)
        boundaries = self.boundary.to(chars.dtype).expand(int(plan.sizes.sum()), -1)
        out, _ = run_packed(self.lstm, boundaries.index_copy(0, plan.place, chars), plan.sizes)
        # [N + boundaries, width / 2] each.
        ahead, back = out.chunk(2, dim=1)
        halves = [ahead.index_select(0, plan.after), back.index_select(0, plan.before)]
        return torch.cat(halves, dim=1)


class CharCNN(Features):
    """A convolution of width 3 over each word's own characters, zero beyond them, and the maximum
    over the word.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__(dim, width)
        # It reads the character before, this one and the one after.
        self.filter = nn.Linear(3 * dim, width)

    def forward(self, x: Tensor, segments: Segments) -> Tensor:
        plan = joined(segments, x.device)
        chars = character_rows(x, segments, self.dim).index_select(0, plan.source)  # [N, D]
        products = F.linear(chars, self.filter.weight.view(3 * self.width, self.dim))
        left, own, right = products.view(-1, self.width, 3).unbind(2)  # [N, width] each
        # [N - 1, 1]: whether two neighbours share their word.
        inside = (plan.word[1:] == plan.word[:-1])[:, None]
        sums = own + self.filter.bias
        if len(chars):
            sums = sums + F.pad(torch.where(inside, left[:-1], 0), (0, 0, 1, 0))
            sums = sums + F.pad(torch.where(inside, right[1:], 0), (0, 0, 0, 1))
        return word_max(sums, plan.word, len(segments))


FEATURES: dict[str, type[Features]] = {
    "lstm": WordCharLSTM,
    "sentence-lstm": SentenceCharLSTM,
    "cnn": CharCNN,
}


def half(width: int) -> int:
    if width % 2:
        raise ValueError(f"width must be even, one half for each direction, not {width}")
    return width // 2


def character_rows(x: Tensor, segments: Segments, dim: int) -> Tensor:
    """[B · T, D]: the cells that the index arrays of ops.packing speak of, T being the longest
    sentence.
    """
    B = len(segments.lengths)
    T = int(segments.lengths.max(initial=0))
    if x.ndim != 3 or x.shape[0] != B or x.shape[1] < T or x.shape[2] != dim:
        raise ValueError(f"x must be [{B}, {T}, {dim}] for these segments, not {list(x.shape)}")
    return x[:, :T].flatten(0, 1)


def word_max(rows: Tensor, word: Tensor, W: int) -> Tensor:
    """[N, D] and the word of each row → [W, D]: the largest of each word's rows. Equal ones share
    the gradient.

    The gradient goes through a weighted sum, not through scatter_reduce, whose own takes many times
    as long.
    """
    with torch.no_grad():
        best = rows.new_zeros(W, rows.shape[1])
        best.scatter_reduce_(0, word[:, None].expand_as(rows), rows, "amax", include_self=False)
    if not (rows.requires_grad and torch.is_grad_enabled()):
        return best
    with torch.no_grad():
        is_best = (rows == best.index_select(0, word)).to(rows.dtype)
        share = is_best / torch.zeros_like(best).index_add_(0, word, is_best).index_select(0, word)
    return torch.zeros_like(best).index_add(0, word, rows * share)


class WordLSTM(nn.Module):
    """x [B, T, D], word_x [W, E] → [B, U, 2H], U the most words of a sentence; zero after a
    sentence's last word.

    `features` makes of x what stands beside a word's vector, after dropout; without it x is not
    used and may be None. `between` is the dropout between layers.
    """

    def __init__(
        self,
        word_dim: int,
        hidden: int,
        features: Features | None = None,
        dropout: float = 0.0,
        layers: int = 1,
        between: float = 0.0,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.word_dim = word_dim
        self.features = features
        self.dropout = Dropout(dropout)
        width = word_dim + (features.width if features is not None else 0)
        between = between if layers > 1 else 0.0  # nn.LSTM warns of dropout that has no place
        self.lstm = nn.LSTM(width, hidden, layers, dropout=between, bidirectional=True)

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def forward(self, x: Tensor | None, word_x: Tensor, segments: Segments) -> Tensor:
        if tuple(word_x.shape) != (len(segments), self.word_dim):
            expected = [len(segments), self.word_dim]
            raise ValueError(
                f"word_x must be {expected} for these segments, not {list(word_x.shape)}"
            )
        rows = word_x
        if self.features is not None:
            if x is None:
                raise ValueError("this encoder reads the characters of words: x must not be None")
            rows = torch.cat([word_x, self.dropout(self.features(x, segments))], dim=1)
        return run_lstm(self.lstm, rows, words(segments, rows.device))
