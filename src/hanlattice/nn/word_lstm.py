"""The word BiLSTM: one state a word of a segmented sentence, from its vector and, if wanted, from its characters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hanlattice.nn.char_features import CharCNN, SentenceCharLSTM, WordCharLSTM
from hanlattice.nn.packing import run_lstm
from hanlattice.ops.packing import words
from hanlattice.text.segments import Segments

Features = WordCharLSTM | SentenceCharLSTM | CharCNN


class WordLSTM(nn.Module):
    """x [B, T, D], word_x [W, E] → [B, U, 2H], U the most words of a sentence; zero after a sentence's last word.

    `features` makes of x what stands beside a word's vector, after dropout; without it x is not used and may be None.
    `between` is the dropout between layers.
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
        self.hidden, self.word_dim = hidden, word_dim
        self.features, self.dropout = features, nn.Dropout(dropout)
        width = word_dim + (features.width if features is not None else 0)
        between = between if layers > 1 else 0.0  # nn.LSTM warns of dropout that has no place
        self.lstm = nn.LSTM(width, hidden, layers, dropout=between, bidirectional=True)

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def forward(self, x: Tensor | None, word_x: Tensor, segments: Segments) -> Tensor:
        if tuple(word_x.shape) != (len(segments), self.word_dim):
            expected = [len(segments), self.word_dim]
            raise ValueError(f"word_x must be {expected} for these segments, not {list(word_x.shape)}")
        rows = word_x
        if self.features is not None:
            if x is None:
                raise ValueError("this encoder looks at the characters of words: x must not be None")
            rows = torch.cat([word_x, self.dropout(self.features(x, segments))], dim=1)
        return run_lstm(self.lstm, rows, words(segments, rows.device))
