"""Vocab: symbols and their ids, immutable. Id 0 stands for every symbol that is not in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import read_text, writing
from hanlattice.text.normal import CodeTable, fold_digits

UNKNOWN = "<unk>"

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {escape: symbol for symbol, escape in _ESCAPES.items()}
_SPECIAL = re.compile("[\\\\\n\r\ufeff\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|.?)")


class Vocab:
    """`vocab["中"]` is an id, `vocab.symbols[id]` the symbol. Symbols keep the order in which they came."""

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
        with writing(path) as file:
            file.writelines(_escape(symbol) + "\n" for symbol in self.symbols)

    @classmethod
    def load(cls, path: str | Path) -> Vocab:
        symbols = read_text(path).split("\n")
        if not symbols[-1]:  # what follows the last line end is no line
            del symbols[-1]
        for at, line in enumerate(symbols):
            if "\\" in line:
                symbols[at] = _unescaped(line, path, at + 1)
        vocab = cls(symbols)
        if symbols[:1] != [UNKNOWN] or len(vocab) != len(symbols):
            raise InputError(f"not a vocabulary: the first line is {UNKNOWN} and no line comes twice", path)
        return vocab


def seen_as(vocab: Vocab) -> CodeTable:
    """From the code points of a text as given to ids: widths folded, every digit a 0."""
    return CodeTable(partial(_seen_id, vocab))  # which, unlike a lambda, goes to another process


def _seen_id(vocab: Vocab, character: str) -> int:
    return vocab[fold_digits(character)]


def _escape(symbol: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", symbol)


def _unescaped(line: str, path: str | Path, number: int) -> str:
    try:
        return _unescape(line)
    except KeyError as error:
        problem = f"not a vocabulary: {error.args[0]} is not one of the escapes \\\\ \\n \\r \\uxxxx"
        raise InputError(problem, path, number) from None


def _unescape(line: str) -> str:
    """What `_escape` was given; a KeyError when it cannot have written this."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else _UNESCAPES[match[0]], line)
