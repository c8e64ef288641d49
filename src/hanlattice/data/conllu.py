"""CoNLL-U, the format of Universal Dependencies: a word a line, ten columns, a blank line between sentences.

Read are the form, the universal part of speech and `SpaceAfter=No`; other columns and remarks are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import read_lines
from hanlattice.text.sentence import Corpus, Sentence, cover_space
from hanlattice.text.spans import WORD, Span

_COLUMNS = 10


def read_conllu(path: str | Path, encoding: str | None = None) -> Corpus:
    """A Sentence for each block, with its words and no entities; `data.learn = "words"` learns them."""
    blocks = groupby(read_lines(path, encoding), key=lambda line: not line[1].strip())
    return Corpus(tuple(_sentence(lines, path) for is_blank, lines in blocks if not is_blank))


def _sentence(lines: Iterable[tuple[int, str]], path: str | Path) -> Sentence:
    text, words, until = "", [], 0
    for number, line in lines:
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        place, _, last = columns[0].partition("-")
        if len(columns) != _COLUMNS or not columns[1] or not place.partition(".")[0].isdecimal():
            message = f"expected a word as ten columns with TABs between: number, form, …, not {line[:40]!r}"
            raise InputError(message, path, number)
        if "." in place or (not last and int(place) <= until):  # an empty node, or a part of the word before
            continue
        until = int(last) if last.isdecimal() else 0
        label = WORD if columns[3] == "_" else columns[3]
        words.append(Span(len(text), len(text) + len(columns[1]), label, None, columns[1]))
        text += columns[1] + ("" if "SpaceAfter=No" in columns[9].split("|") else " ")
    if not words:
        raise InputError("the block that ends here has remarks and no word", path, number)
    text = text.removesuffix(" ")
    return Sentence(text, (), tuple(cover_space(words, text)))
