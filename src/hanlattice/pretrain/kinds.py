"""The kinds of unit that vectors can be made for."""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    char = "char"
    bichar = "bichar"
    word = "word"
    subword = "subword"
