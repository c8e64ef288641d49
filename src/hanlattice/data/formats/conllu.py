"""CoNLL-U of Universal Dependencies: a word a line, ten columns, a blank line between sentences.

The reader takes the form, the universal part of speech and `SpaceAfter=No`, and skips the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from hanlattice.errors import InputError
from hanlattice.files import read_lines
from hanlattice.text.sentence import Corpus, Sentence, cover_space
from hanlattice.text.span import WORD, Span
from hanlattice.text.tags import check_label

_COLUMNS = 10
# A word, several words (3-4), or an empty node (2.1). Numbers of words have at most nine digits.
_NUMBER = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|\.([0-9]{1,9}))?")


def read_conllu(path: str | Path, encoding: str | None = None) -> Corpus:
    """Read a Sentence for each block, with words for `data.learn = "words"`, and no entities."""
    blocks = groupby(read_lines(path, encoding), key=lambda line: not line[1].strip())
    return Corpus(tuple(_sentence(lines, path) for is_blank, lines in blocks if not is_blank))


def _sentence(lines: Iterable[tuple[int, str]], path: str | Path) -> Sentence:
    text = ""
    words = []
    until = 0
    for number, line in lines:
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        place = _NUMBER.fullmatch(columns[0])
        if place is None or len(columns) != _COLUMNS or not columns[1]:
            message = "expected a word as ten columns with TABs between: number, form, …"
            raise InputError(f"{message}, not {line[:40]!r}", path, number)
        first, last, nested = place.groups()
        if last and int(last) < int(first):
            message = f"expected ten columns that begin with numbers in order, not {columns[0]}"
            raise InputError(message, path, number)
        # An empty node, or a part of several words that one line gave already.
        if nested or (not last and int(first) <= until):
            continue
        until = int(last) if last else 0
        label = WORD if columns[3] == "_" else columns[3]
        try:
            check_label(label)
        except ValueError as error:
            raise InputError(str(error), path, number) from None
        form = columns[1]
        words.append(Span(len(text), len(text) + len(form), label, None, form))
        text += form + ("" if "SpaceAfter=No" in columns[9].split("|") else " ")
    if not words:
        raise InputError("the block that ends here has remarks and no word", path, number)
    text = text[: words[-1].end]
    return Sentence(text, (), tuple(cover_space(words, text)))
