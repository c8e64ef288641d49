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
    """`vocab["中"]` is an id, `vocab.symbols[id]` the symbol. Symbols keep the order in which they
    came.
    """

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
        get = self._ids.get
        return [get(symbol, 0) for symbol in symbols]

    def save(self, path: str | Path) -> None:
        """One symbol a line, escaped so that line ends and lone surrogates survive."""
        with atomic_write(path) as file:
            file.writelines(_escape(symbol) + "\n" for symbol in self.symbols)

    @classmethod
    def load(cls, path: str | Path) -> Vocab:
        symbols = read_text(path, "utf-8").split("\n")
        if not symbols[-1]:  # the last line ends with a line end
            del symbols[-1]
        for at, line in enumerate(symbols):
            if "\\" in line:
                symbols[at] = _unescaped(line, path, at + 1)
        vocab = cls(symbols)
        if symbols[:1] != [UNKNOWN] or len(vocab) != len(symbols):
            raise InputError(
                f"not a vocabulary: the first line is {UNKNOWN} and no line comes twice", path
            )
        return vocab


def seen_as(vocab: Vocab) -> CodeTable:
    """From the code points of a text as given to ids: widths and script folded, every digit a 0."""
    return CodeTable(partial(_seen_id, vocab))  # which, unlike a lambda, goes to another process


def _seen_id(vocab: Vocab, character: str) -> int:
    return vocab[fold_digits(character)]


def _escape(symbol: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", symbol)


def _unescaped(line: str, path: str | Path, number: int) -> str:
    try:
        return _ESCAPED.sub(
            lambda match: chr(int(match[1], 16)) if match[1] else _UNESCAPES[match[0]], line
        )
    except KeyError as error:
        problem = (
            f"not a vocabulary: {error.args[0]} is not one of the escapes \\\\ \\n \\r \\uxxxx"
        )
        raise InputError(problem, path, number) from None


END = "-null-"  # what the last character of a text pairs with, as in the lattice LSTM's first code
_END = (1 << 21) - 1  # its number: above every code point
_WHITE = _END - 1  # and that of all white space


def bigrams(text: str) -> list[str]:
    """Those of a text. Before white space, and at the end, the next one is END; white space itself
    has none.
    """
    return [
        a + b
        for run in fold_digits(text).split()
        for a, b in zip(run, [*run[1:], END], strict=True)
    ]


def is_bigram(symbol: str) -> bool:
    """Whether it is two characters, or one and END."""
    return len(symbol) == 2 or (len(symbol) == 1 + len(END) and symbol.endswith(END))


class BigramTable:
    """From the code points of texts to the ids of their characters' bigrams, for many texts at
    once.
    """

    def __init__(self, vocab: Vocab) -> None:
        keys = _keys(vocab.symbols)
        self._ids = np.argsort(keys)
        self._keys = keys[self._ids]
        self._seen = CodeTable(_seen)

    def __call__(self, codes: Codes, lengths: Ints) -> Ints:
        """[N]: the ids of texts of these lengths, one after the other; 0 for white space and for
        unknown bigrams.
        """
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
    """One number for the two characters of each bigram; −1 for a symbol that is none, which no text
    can have.
    """
    lengths = np.fromiter(map(len, symbols), dtype=np.int64, count=len(symbols))
    codes = code_points("".join(symbols)).astype(np.int64)
    first = np.cumsum(lengths) - lengths
    keys = np.full(len(symbols), -1)
    two = np.flatnonzero(lengths == 2)
    last = np.flatnonzero(lengths == 1 + len(END))
    last = last[
        (codes[first[last][:, None] + np.arange(1, 1 + len(END))] == code_points(END)).all(1)
    ]
    keys[two] = codes[first[two]] << 21 | codes[first[two] + 1]
    keys[last] = codes[first[last]] << 21 | _END
    return keys
