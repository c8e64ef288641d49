"""Character bigrams: each character together with the next one, as the character embedding sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hanlattice.text.arrays import Ints
from hanlattice.text.normal import Codes, CodeTable, code_points, fold_digits
from hanlattice.text.vocab import Vocab

END = "-null-"  # what the last character of a text pairs with, as in the lattice LSTM's first code
_END = (1 << 21) - 1  # its number: above every code point
_WHITE = _END - 1  # and that of all white space


def bigrams(text: str) -> list[str]:
    """Those of a text. Before white space, and at the end, the next one is END; white space itself has none."""
    return [a + b for run in fold_digits(text).split() for a, b in zip(run, [*run[1:], END], strict=True)]


def is_bigram(symbol: str) -> bool:
    """Whether it is two characters, or one and END."""
    return len(symbol) == 2 or (len(symbol) == 1 + len(END) and symbol.endswith(END))


class BigramTable:
    """From the code points of texts to the ids of their characters' bigrams, for many texts at once."""

    def __init__(self, vocab: Vocab) -> None:
        keys = _keys(vocab.symbols)
        self._ids = np.argsort(keys)
        self._keys = keys[self._ids]
        self._seen = CodeTable(_seen)

    def __call__(self, codes: Codes, lengths: Ints) -> Ints:
        """[N]: the ids of texts of these lengths, one after the other; 0 for white space and for unknown bigrams."""
        seen = self._seen(codes).astype(np.int64)
        following = np.append(seen[1:], _END)
        following[np.cumsum(lengths[lengths > 0]) - 1] = _END
        following[following == _WHITE] = _END
        wanted = seen << 21 | following
        at = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        return np.where(self._keys[at] == wanted, self._ids[at], 0)


def _seen(character: str) -> int:
    plain = fold_digits(character)
    return _WHITE if plain.isspace() else ord(plain)


def _keys(symbols: Sequence[str]) -> Ints:
    """One number for the two characters of each bigram; −1 for a symbol that is none, which no text can have."""
    lengths = np.fromiter(map(len, symbols), dtype=np.int64, count=len(symbols))
    codes, first = code_points("".join(symbols)).astype(np.int64), np.cumsum(lengths) - lengths
    keys = np.full(len(symbols), -1)
    two, last = np.flatnonzero(lengths == 2), np.flatnonzero(lengths == 1 + len(END))
    last = last[(codes[first[last][:, None] + np.arange(1, 1 + len(END))] == code_points(END)).all(1)]
    keys[two] = codes[first[two]] << 21 | codes[first[two] + 1]
    keys[last] = codes[first[last]] << 21 | _END
    return keys
