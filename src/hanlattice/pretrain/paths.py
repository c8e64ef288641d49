"""The likeliest way to cut a text into the words of a lexicon, by their frequencies."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.text.lexicon import Lexicon, read_entries
from hanlattice.text.normal import fold

_WESTERN = re.compile("[0-9A-Za-z\u00c0-\u024f]+")  # letters and digits that stay together as one word


class BestPath:
    """Maximises the product of the words' shares in the lexicon's total frequency, like a unigram model.

    A word without a frequency, and a character that is no word, count as 1; so a plain list of words gives the cut with
    the fewest words. Of equal ones, that whose first word is longer. A run of Western letters and digits is never cut.
    """

    def __init__(self, frequencies: Mapping[str, int]) -> None:
        total = math.log(max(2, sum(frequencies.values())))
        self._lexicon = Lexicon(frequencies)
        self._scores = [math.log(frequencies[word]) - total for word in self._lexicon.words]
        self._single = {word: math.log(count) - total for word, count in frequencies.items() if len(word) == 1}
        self._unknown = -total

    @classmethod
    def load(cls, path: str | Path) -> BestPath:
        frequencies = read_frequencies(path)
        if not frequencies:
            raise InputError("there is no word in it: expected one word a line, or word TAB frequency", path)
        return cls(frequencies)

    def words(self, folded: str) -> list[str]:
        """The text, which is folded, cut into words; white space is left out."""
        ends = self._ends(folded)
        words, at = [], 0
        while at < len(folded):
            words.append(folded[at : ends[at]])
            at = ends[at]
        return [word for word in words if not word.isspace()]

    def _ends(self, text: str) -> list[int]:
        """For each start, where the first word of the best path from there to the text's end has its own end."""
        steps = self._steps(text)
        best, ends = [0.0] * (len(text) + 1), [0] * len(text)
        for at in range(len(text) - 1, -1, -1):
            best[at], ends[at] = max((score + best[end], end) for end, score in steps[at])
        return ends

    def _steps(self, text: str) -> list[list[tuple[int, float]]]:
        """For each start, every (end, score) of a word that may stand there."""
        single = self._single
        steps = [[(at, single.get(character, self._unknown))] for at, character in enumerate(text, start=1)]
        inside: set[int] = set()
        for run in _WESTERN.finditer(text):
            start, end = run.span()
            inside.update(range(start + 1, end))
            if end > start + 1:
                steps[start] = [(end, self._unknown)]
        for start, end, word in self._lexicon.match_ids(text):
            if start not in inside and end not in inside:
                steps[start].append((end, self._scores[word]))
        return steps


def read_frequencies(path: str | Path) -> dict[str, int]:
    """Folded words and their frequencies, 1 where there is none, from any file that `Lexicon.load` reads."""
    frequencies: dict[str, int] = {}
    for word, frequency in read_entries(path):
        word = fold(word)
        if not any(map(str.isspace, word)):  # a word with a blank in it cannot be a unit
            frequencies[word] = frequencies.get(word, 0) + max(1, frequency)
    return frequencies
