"""Vocab: symbols and their ids, immutable; and the character bigrams of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from hanlattice.errors import InputError
from hanlattice.files import atomic_write, read_text
from hanlattice.text.lattice import Ints
from hanlattice.text.normalize import Codes, CodeTable, code_points, fold_digits

UNKNOWN = "<unk>"

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {escape: symbol for symbol, escape in _ESCAPES.items()}
_SPECIAL = re.compile("[\\\\\n\r\ufeff\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|.?)")


class Vocab:
    """Symbols in the order in which they came: `vocab["中"]` is an id, `vocab.symbols[id]` back."""

    __slots__ = ("_ids", "symbols")

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols: tuple[str, ...] = tuple(dict.fromkeys(chain((UNKNOWN,), symbols)))
        self._ids = dict(zip(self.symbols, range(len(self.symbols)), strict=True))

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._ids

    def __getitem__(self, symbol: str) -> int:
        return self._ids.get(symbol, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocab) and self.symbols == other.symbols

    def __hash__(self) -> int:
        return hash(self.symbols)

    def ids(self, symbols: Sequence[str]) -> list[int]:
        """Return the id of each symbol; 0 for an unknown one."""
        get = self._ids.get
        return [get(symbol, 0) for symbol in symbols]

    def save(self, path: str | Path) -> None:
        """Write one symbol a line, escaped so that line ends and lone surrogates survive."""

        def escape(match: re.Match[str]) -> str:
            return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"

        with atomic_write(path) as file:
            file.writelines(_SPECIAL.sub(escape, symbol) + "\n" for symbol in self.symbols)

    @classmethod
    def load(cls, path: str | Path) -> Vocab:
        """Read what `save` wrote."""

        def unescape(match: re.Match[str]) -> str:
            return chr(int(match[1], 16)) if match[1] else _UNESCAPES[match[0]]

        symbols = read_text(path, "utf-8").split("\n")
        # The last line ends with a line end.
        if not symbols[-1]:
            del symbols[-1]
        for index, line in enumerate(symbols):
            if "\\" in line:
                try:
                    symbols[index] = _ESCAPED.sub(unescape, line)
                except KeyError as error:
                    problem = f"{error.args[0]} is not one of the escapes \\\\ \\n \\r \\uxxxx"
                    raise InputError(f"not a vocabulary: {problem}", path, index + 1) from None
        vocab = cls(symbols)
        if symbols[:1] != [UNKNOWN] or len(vocab) != len(symbols):
            problem = f"the first line is {UNKNOWN} and no line comes twice"
            raise InputError(f"not a vocabulary: {problem}", path)
        return vocab


def seen_as(vocab: Vocab) -> CodeTable:
    """Return a table from code points of a text to ids: `fold_digits`, then the vocabulary."""
    # A partial, which unlike a lambda can be sent to another process.
    return CodeTable(partial(_seen_id, vocab))


def _seen_id(vocab: Vocab, character: str) -> int:
    return vocab[fold_digits(character)]


# What the last character of a text pairs with, as in the lattice LSTM's first code.
END = "-null-"
# The number of END, above every code point; and the number of all white space.
_END = (1 << 21) - 1
_WHITE = _END - 1


def bigrams(text: str) -> list[str]:
    """Return the character bigrams of a text.

    Before white space, and at the end, the second half is END; white space itself has no bigram.
    """
    return [
        a + b
        for run in fold_digits(text).split()
        for a, b in zip(run, [*run[1:], END], strict=True)
    ]


def is_bigram(symbol: str) -> bool:
    """Return whether the symbol is two characters, or one and END."""
    return len(symbol) == 2 or (len(symbol) == 1 + len(END) and symbol.endswith(END))


class BigramTable:
    """Map code points to the ids of their characters' bigrams, for many texts at once."""

    def __init__(self, vocab: Vocab) -> None:
        keys = _keys(vocab.symbols)
        self._ids = np.argsort(keys)
        self._keys = keys[self._ids]
        self._seen = CodeTable(_seen)

    def __call__(self, codes: Codes, lengths: Ints) -> Ints:
        """Return [N]: the ids in texts of these lengths; 0 for white space and unknown bigrams."""
        seen = self._seen(codes).astype(np.int64)
        following = np.append(seen[1:], _END)
        following[np.cumsum(lengths[lengths > 0]) - 1] = _END
        following[following == _WHITE] = _END
        wanted = seen << 21 | following
        index = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        return np.where(self._keys[index] == wanted, self._ids[index], 0)


def _seen(character: str) -> int:
    plain = fold_digits(character)
    return _WHITE if plain.isspace() else ord(plain)


def _keys(symbols: Sequence[str]) -> Ints:
    """Return one number for the two characters of each bigram; −1 for any other symbol."""
    lengths = np.fromiter(map(len, symbols), dtype=np.int64, count=len(symbols))
    codes = code_points("".join(symbols)).astype(np.int64)
    first = np.cumsum(lengths) - lengths
    keys = np.full(len(symbols), -1)
    two = np.flatnonzero(lengths == 2)
    keys[two] = codes[first[two]] << 21 | codes[first[two] + 1]
    last = np.flatnonzero(lengths == 1 + len(END))
    # [symbols, characters of END]: whether the rest of the symbol is END.
    rest = codes[first[last][:, None] + np.arange(1, 1 + len(END))]
    last = last[(rest == code_points(END)).all(1)]
    keys[last] = codes[first[last]] << 21 | _END
    return keys
