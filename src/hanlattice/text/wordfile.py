"""Dictionary files: a word a line, `word TAB anything`, or jieba's `word freq tag`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hanlattice.files import keep_first, read_text, writing

_JIEBA = re.compile(r"(?P<word>.+?)(?<! ) +(?P<frequency>\d+)( +\S+)?")  # a word ends where spaces begin: linear
_DIGITS = 18  # of the largest frequency; a longer number is none


def read_words(path: str | Path) -> Iterator[str]:
    """The words of a dictionary file, in order, blank lines left out."""
    text = read_text(path)
    plain = "\t" not in text and " " not in text
    lines = _lines(text)
    return filter(None, map(str.strip, lines if plain else (_entry(line)[0] for line in lines)))


def read_entries(path: str | Path) -> Iterator[tuple[str, int]]:
    """The same words with their frequencies: the number after TAB or in jieba's form, 1 where there is none."""
    for line in _lines(read_text(path)):
        word, frequency = _entry(line)
        if word := word.strip():
            yield word, int(frequency) if frequency.isdecimal() and len(frequency) <= _DIGITS else 1


def write_words(path: str | Path, words: Iterable[str]) -> None:
    """One word a line, UTF-8; a TAB follows where the line could be taken for jieba's `word freq tag`."""
    with writing(path) as file:
        for at, word in enumerate(words):
            line = f"{word}\t\n" if _JIEBA.fullmatch(word) else f"{word}\n"
            file.write(line if at else keep_first(line))


def _entry(line: str) -> tuple[str, str]:
    """A line's word, and the field where its frequency may stand."""
    word, tab, rest = line.partition("\t")
    jieba = None if tab else _JIEBA.fullmatch(word)
    return (jieba["word"], jieba["frequency"]) if jieba else (word, (rest.split() or [""])[0])


def _lines(text: str) -> list[str]:
    return text.split("\n" if "\n" in text else "\r")  # old lists end lines with CR alone
