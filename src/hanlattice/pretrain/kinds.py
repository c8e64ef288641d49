"""The kinds of unit that vectors can be made for, and how much may be asked for."""

from __future__ import annotations

from enum import StrEnum

MOST_PIECES = 10_000_000  # of a lexicon of subwords
LONGEST_PIECE = 100
LARGEST_COUNT = 1_000_000_000  # that something must come up


class Unit(StrEnum):
    char = "char"
    bichar = "bichar"
    word = "word"
    subword = "subword"

    @property
    def plural(self) -> str:
        """Many of them, in plain words."""
        return {"char": "characters", "bichar": "bigrams"}.get(self.value, f"{self.value}s")
