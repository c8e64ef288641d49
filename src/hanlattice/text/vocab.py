"""Vocab: symbols and their ids, immutable. Id 0 stands for every symbol that is not in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import read_lines, writing

UNKNOWN = "<unk>"


class Vocab:
    """`vocab["中"]` is an id, `vocab.symbols[id]` the symbol. Symbols keep the order in which they came."""

    __slots__ = ("_ids", "symbols")

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols: tuple[str, ...] = (UNKNOWN, *dict.fromkeys(s for s in symbols if s != UNKNOWN))
        self._ids = {symbol: at for at, symbol in enumerate(self.symbols)}

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
        symbols = [_unescape(line) for _, line in read_lines(path)]
        if not symbols or symbols[0] != UNKNOWN or len(set(symbols)) != len(symbols):
            raise InputError(f"not a vocabulary: the first line is {UNKNOWN} and no line comes twice", path)
        return cls(symbols)


def _escape(symbol: str) -> str:
    plain = symbol.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" or c == "\ufeff" else c for c in plain)


def _unescape(line: str) -> str:
    out, at = [], 0
    plain = {"n": "\n", "r": "\r", "\\": "\\"}
    while at < len(line):
        if line[at] != "\\":
            out.append(line[at])
            at += 1
        elif line[at + 1 : at + 2] == "u":
            out.append(chr(int(line[at + 2 : at + 6], 16)))
            at += 6
        else:
            out.append(plain.get(line[at + 1 : at + 2], line[at : at + 2]))
            at += 2
    return "".join(out)
